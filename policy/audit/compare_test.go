package audit_test

import (
	"slices"
	"strings"
	"testing"

	"sealbridge/manifest"
	"sealbridge/policy/audit"
)

// Two files of one task agree, one may be longer, and a fork is named.
func TestCompareNamesWhereTwoHistoriesPart(t *testing.T) {
	s := newStory(t).propose().ack(ben).accept().ack(ann)
	s.say(ben, manifest.Started{}, nil)
	short := verify(t, s.export(ann))
	fork := *s
	fork.events, fork.acks, fork.authors = slices.Clone(s.events), slices.Clone(s.acks), slices.Clone(s.authors)
	for _, x := range []*story{s, &fork} {
		text := map[*story]string{s: "half", &fork: "all"}[x]
		for range 2 {
			x.say(ben, manifest.Progressed{Checkpoint: text, Usage: used(10), Waiting: "nobody"}, nil)
		}
	}
	mine, theirs, other := verify(t, s.export(ann)), verify(t, s.export(ben)), verify(t, fork.export(ben))
	for name, c := range map[string]struct {
		a, b         audit.Report
		agree, whole bool
		common       int64
		text         string
	}{
		"both sides":     {mine, theirs, true, true, 4, "THEY AGREE\n"},
		"one is longer":  {short, theirs, true, false, 2, "THEY AGREE AS FAR AS BOTH GO"},
		"a fork":         {mine, other, false, false, 2, "They part at   Ben's event 3, progressed: two versions"},
		"another task":   {mine, audit.Report{}, false, false, 0, "They part at   the task"},
		"nothing at all": {audit.Report{}, audit.Report{}, false, false, 0, "THEY DIFFER"},
	} {
		if !c.a.Verified && c.a.Task != nil || !c.b.Verified && c.b.Task != nil {
			t.Fatalf("%s: each must hold alone: %+v %+v", name, c.a.Findings, c.b.Findings)
		}
		got := audit.Compare(c.a, c.b)
		if got.Agree != c.agree || got.Whole != c.whole || got.LastCommon[ben.owner.DID().String()] != c.common {
			t.Errorf("%s: %+v", name, got)
		}
		var b strings.Builder
		if err := audit.CompareText(c.a, c.b, got, &b); err != nil || !strings.Contains(b.String(), c.text) {
			t.Errorf("%s: no %q in\n%s", name, c.text, b.String())
		}
	}
}
