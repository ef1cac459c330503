package audit

import (
	"fmt"
	"io"
	"sort"
	"strings"

	"sealbridge/manifest"
	"sealbridge/signing"
)

// Comparison says whether two reports tell one history. Each may hold alone and
// the two may still contradict each other: a side that forked its chain shows
// each reader another branch (H6).
type Comparison struct {
	Agree       bool             `json:"agree"`      // nothing in one contradicts the other
	Whole       bool             `json:"whole"`      // and neither has an event that the other lacks
	LastCommon  map[string]int64 `json:"lastCommon"` // by owner DID: the last event that both have
	Differences []Difference     `json:"differences"`
}

// Difference is one place where the two part; a digest that is missing is "".
type Difference struct {
	What  string        `json:"what"` // task, manifest, event, only in one
	By    manifest.Role `json:"by,omitempty"`
	Seq   int64         `json:"seq,omitempty"`
	Kind  manifest.Kind `json:"kind,omitempty"`
	Rule  string        `json:"rule"`
	First string        `json:"first"`
	Other string        `json:"other"`
}

// Compare holds two reports against each other by the digests of their events.
func Compare(a, b Report) Comparison {
	c := Comparison{Agree: true, Whole: true, LastCommon: map[string]int64{}, Differences: []Difference{}}
	if a.Task == nil || b.Task == nil || a.Task.ManifestDigest != b.Task.ManifestDigest || a.Task.TaskID != b.Task.TaskID {
		c.differ(Difference{What: "task", Rule: "M11", First: taskOf(a), Other: taskOf(b)})
		return c
	}
	for _, p := range a.Parties {
		x, y := chainOf(a, p.Role), chainOf(b, p.Role)
		c.LastCommon[p.OwnerDid.String()] = c.chain(p.Role, x, y)
	}
	return c
}

func (c *Comparison) differ(d Difference) {
	if d.What != "only in one" {
		c.Agree = false
	}
	c.Whole = false
	c.Differences = append(c.Differences, d)
}

// chain notes where two chains of one side part, and returns the last event that both have.
func (c *Comparison) chain(r manifest.Role, x, y []Moment) (common int64) {
	parted := false
	for i := range max(len(x), len(y)) {
		d := Difference{What: "only in one", By: r, Rule: "H1"}
		switch {
		case i >= len(x):
			d.Seq, d.Kind, d.Other = y[i].Seq, y[i].Kind, y[i].Digest.String()
		case i >= len(y):
			d.Seq, d.Kind, d.First = x[i].Seq, x[i].Kind, x[i].Digest.String()
		case x[i].Digest == y[i].Digest:
			common = x[i].Seq
			continue
		default:
			d.What, d.Seq, d.Kind = "event", x[i].Seq, x[i].Kind
			d.First, d.Other = x[i].Digest.String(), y[i].Digest.String()
			if parted {
				continue // what follows two versions of one event follows from them
			}
			parted = true
		}
		c.differ(d)
	}
	return common
}

// chainOf are the events of one side that count, in order.
func chainOf(r Report, role manifest.Role) (out []Moment) {
	for _, m := range r.Timeline {
		if m.By == role {
			out = append(out, m)
		}
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Seq < out[j].Seq })
	return out
}

func taskOf(r Report) string {
	if r.Task == nil {
		return ""
	}
	return r.Task.TaskID.String() + " " + r.Task.ManifestDigest.String()
}

// CompareText writes both headlines and where the two part.
func CompareText(a, b Report, c Comparison, w io.Writer) error { return ComparePage(a, b, c).Text(w) }

// ComparePage has both headlines and where the two part.
func ComparePage(a, b Report, c Comparison) *Page {
	p := &Page{}
	names := [2]string{orText(manifest.Display(a.File, 40), "the first"), orText(manifest.Display(b.File, 40), "the other")}
	col := max(width(names[0]), width(names[1]), 12) + 3
	say := func(label, text string) { p.add(row{label: label, col: col, text: text}) }
	say(names[0], a.Headline())
	say(names[1], b.Headline())
	together := "THEY DIFFER"
	switch {
	case c.Whole:
		together = "THEY AGREE"
	case c.Agree:
		together = "THEY AGREE AS FAR AS BOTH GO"
	}
	say("TOGETHER", together)
	var same []string
	for _, x := range a.Parties {
		if n := c.LastCommon[x.OwnerDid.String()]; n > 0 {
			same = append(same, fmt.Sprintf("%s's events 1–%d", x.Name, n))
		}
	}
	say("Same in both", orText(strings.Join(same, ", "), "nothing"))
	for _, d := range c.Differences {
		who := fmt.Sprintf("%s's event %d, %s", a.nameOf(d.By), d.Seq, d.Kind)
		switch d.What {
		case "task":
			say("They part at", "the task: "+orText(d.First, "none")+" and "+orText(d.Other, "none"))
		case "event":
			say("They part at", who+": two versions, both signed by its agent key (rule "+d.Rule+")")
			say("  "+names[0], short(d.First))
			say("  "+names[1], short(d.Other))
		default:
			in := names[0]
			if d.First == "" {
				in = names[1]
			}
			say("Only in one", in+": "+who)
		}
	}
	return p
}

func short(digest string) string {
	d, err := signing.ParseDigest(digest)
	if err != nil {
		return "–"
	}
	return d.Short()
}
