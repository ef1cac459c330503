package console

import (
	"fmt"
	"strings"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
)

// The tree of a task is drawn here, as shapes with places: a box a task, in the
// order of the hand-ons, each a step to the right. Units are those of the viewBox.
const (
	treeWidth = 340
	treeStep  = 16
	treeDeep  = 6 // steps to the right: deeper tasks stand below each other
	nodeGap   = 10
	nodePad   = 8
	lineHigh  = 14
	letter    = 6.9 // of a line in the head's weight, on average

	small = "left" // the class of the lines that say what is left
)

type drawing struct {
	Width, Height int
	Said          string // for whoever does not see it
	Nodes         []treeNode
}

type treeNode struct {
	X, Y, W, H int
	This       bool
	Edge       string // the line from the task above
	Link       string
	Whole      string // all of its words
	Lines      []treeLine
	Bars       []treeBar
}

type treeLine struct {
	Class string
	X, Y  int
	Text  string
}

type treeBar struct{ X, Y, W, Used, HeldX, Held int64 }

// draw lays a tree out; nil for a task that has none.
func draw(root *gateway.TreeNode) *drawing {
	if root == nil {
		return nil
	}
	d := &drawing{Width: treeWidth}
	d.put(*root, 0, 0, 0)
	d.Height += 2
	said := make([]string, len(d.Nodes))
	for i, n := range d.Nodes {
		said[i] = n.Whole
	}
	d.Said = strings.Join(said, "; ")
	return d
}

// put places a task and, below it, its parts; from is the foot of the box above, 0 for the root.
func (d *drawing) put(t gateway.TreeNode, deep, fromX, from int) {
	n := treeNode{X: 1 + min(deep, treeDeep)*treeStep, Y: d.Height + 1, This: t.This, Link: "/tasks/" + t.TaskID}
	n.W = treeWidth - n.X - 2
	room := float64(n.W-2*nodePad) / letter
	state := t.State
	if t.Waiting != "" {
		state += ", waiting for " + t.Waiting
	}
	texts := []struct{ class, text string }{{"head", t.Title}, {"", shortOf(t.TaskID) + " · " + state + " · with " + t.With}, {small, leftIn(t)}}
	for _, u := range t.Tools {
		texts = append(texts, struct{ class, text string }{small, fmt.Sprintf("%d of %d uses left: %s on %s", u.Left, u.Of, strings.Join(u.Tools, ", "), u.Resource)})
	}
	whole := make([]string, len(texts))
	for i, x := range texts {
		most := room
		if x.class == small {
			most *= 1.15
		}
		n.Lines = append(n.Lines, treeLine{x.class, n.X + nodePad, n.Y + (i+1)*lineHigh, manifest.Display(x.text, int(most))})
		whole[i] = manifest.Display(x.text, 300)
	}
	n.Whole = strings.Join(whole, " · ")
	n.H = (len(texts) + 1) * lineHigh
	if !t.Share {
		n.Bars = bars(t, n)
	}
	if from > 0 {
		n.Edge = fmt.Sprintf("M%d %dV%dH%d", fromX, from, n.Y+lineHigh, n.X)
	}
	d.Nodes = append(d.Nodes, n)
	d.Height = n.Y + n.H + nodeGap
	for _, p := range t.Parts {
		d.put(p, deep+1, n.X+treeStep/2, n.Y+n.H)
	}
}

// bars are the four meters side by side under the words.
func bars(t gateway.TreeNode, n treeNode) (out []treeBar) {
	each := int64(n.W-2*nodePad) / 4
	for i, m := range policy.Meters() {
		b, k := t.Left[string(m)], treeBar{X: int64(n.X+nodePad) + int64(i)*each, Y: int64(n.Y + n.H - 9), W: each - 4}
		if b.Limit > 0 {
			k.Used = min(k.W, b.Committed*k.W/b.Limit)
			k.Held = min(k.W-k.Used, b.Reserved*k.W/b.Limit)
		}
		k.HeldX = k.X + k.Used
		out = append(out, k)
	}
	return out
}

// leftIn says what is left of a task's budget, or what its share allows.
func leftIn(t gateway.TreeNode) string {
	left := func(m policy.Meter) int64 {
		b := t.Left[string(m)]
		return max(0, b.Limit-b.Committed-b.Reserved)
	}
	text := fmt.Sprintf("%s in · %s out · %s calls · %s", approval.Figure(left(policy.InputTokens)), approval.Figure(left(policy.OutputTokens)), approval.Figure(left(policy.ToolInvocations)),
		approval.Span(time.Duration(left(policy.WallClockSeconds))*time.Second))
	if t.Share {
		text = "at most " + text
	} else {
		text = "left: " + text
	}
	if t.Held {
		text += " · kept back above"
	}
	if t.Depth > 0 {
		text += fmt.Sprintf(" · %d deep", t.Depth)
	}
	return text
}
