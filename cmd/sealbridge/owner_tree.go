package main

import (
	"fmt"
	"strings"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
)

// treeText draws where a task stands among those that are handed on: the
// contracts above it, and from the highest one that is here the whole tree, with
// what is left of each budget and of each grant's uses.
func treeText(t gateway.TaskView) string {
	if t.Parent == "" && t.Depth == 0 && t.Tree == nil {
		return ""
	}
	var b strings.Builder
	if t.Parent != "" {
		fmt.Fprintf(&b, "  part of %s; %d above\n", short(t.Parent), t.Above)
	}
	if t.Depth > 0 {
		fmt.Fprintf(&b, "  may be handed on, %d deep\n", t.Depth)
	}
	switch n := t.Tree; {
	case n == nil:
	case n.This: // its own lines stand above: the parts, and what was granted
		for _, l := range toolsLeft(*n) {
			b.WriteString("  " + l + "\n")
		}
		branches(&b, "  ", n.Parts)
	default:
		branches(&b, "  ", []gateway.TreeNode{*n})
	}
	return b.String()
}

func branches(b *strings.Builder, indent string, nodes []gateway.TreeNode) {
	for i, n := range nodes {
		edge, bar := "├─ ", "│  "
		if i == len(nodes)-1 {
			edge, bar = "└─ ", "   "
		}
		state := n.State
		if n.Waiting != "" {
			state += ", waiting for " + n.Waiting
		}
		line := fmt.Sprintf("%s  %s  %s  with %s", short(n.TaskID), strings.ToUpper(state), n.Title, n.With)
		if n.This {
			line += "   (this task)"
		}
		b.WriteString(indent + edge + line + "\n")
		stem := bar
		if len(n.Parts) > 0 {
			stem += "│  "
		} else {
			stem += "   "
		}
		for _, l := range append([]string{leftText(n)}, toolsLeft(n)...) {
			b.WriteString(indent + stem + l + "\n")
		}
		branches(b, indent+bar, n.Parts)
	}
}

// leftText says what is left of a task's budget, or what its share allows.
func leftText(n gateway.TreeNode) string {
	words := []string{"tokens in", "out", "calls", "s"}
	out := make([]string, 0, 4)
	for i, m := range policy.Meters() {
		x := n.Left[string(m)]
		text := approval.Figure(x.Limit)
		if !n.Share {
			text = approval.Figure(max(0, x.Limit-x.Committed-x.Reserved)) + " of " + text
		}
		out = append(out, text+" "+words[i])
	}
	text := "left " + strings.Join(out, ", ")
	if n.Share {
		text = "at most " + strings.Join(out, ", ")
	}
	if n.Held {
		text += "; kept back from this task"
	}
	if n.Depth > 0 {
		text += fmt.Sprintf("; %d deep", n.Depth)
	}
	return text
}

func toolsLeft(n gateway.TreeNode) (out []string) {
	for _, u := range n.Tools {
		out = append(out, fmt.Sprintf("%s on %s: %d of %d uses left", manifest.Display(strings.Join(u.Tools, ", "), 80), manifest.Display(u.Resource, 120), u.Left, u.Of))
	}
	return out
}
