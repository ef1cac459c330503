package task

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sealbridge/manifest"
)

// written is the table of protocol section 6 as prose has it. Where
// spec/lifecycle.md is there, it is read instead: prose and code are one law.
const written = `
| kind | author | allowed in the author's view | then |
| --- | --- | --- | --- |
| proposed | requester | – | proposed |
| accepted | worker | proposed | accepted |
| declined | worker | proposed | declined, an ending |
| granted | requester | accepted, working, delivered | same |
| started | worker | accepted | working |
| progressed | worker | working | same |
| delegated | worker | working | same |
| asked | either | accepted, working, delivered | same |
| answered | the other | accepted, working, delivered; ask open | same; yes to an amendment → new limits |
| delivered | worker | working | delivered |
| rejected (again) | requester | delivered, n ≤ maxRetries | working |
| rejected (final) | requester | delivered | rejected, an ending |
| completed | requester | delivered | completed, an ending |
| failed | worker | accepted, working | failed, an ending |
| cancelled | requester | proposed to delivered | cancelled, an ending |
| timed_out | requester | proposed to delivered, deadline passed | timed_out, an ending |
| stopped | worker | after cancelled or timed_out, once, if it has no ending of its own | same |
| disputed | either | after an ending, a break or the deadline | same |
`

type line struct{ author, states, then string }

// tableOf reads the rows of a table whose first cell is a kind.
func tableOf(t *testing.T, text string) map[string]line {
	out := map[string]line{}
	for row := range strings.Lines(text) {
		row = strings.ReplaceAll(strings.TrimSpace(row), "`", "")
		cells := strings.Split(strings.Trim(row, "|"), "|")
		if !strings.HasPrefix(row, "|") || len(cells) != 4 {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		kind, _, _ := strings.Cut(cells[0], " ")
		if !slices.Contains(manifest.Kinds(), manifest.Kind(kind)) {
			continue
		}
		if kind == "rejected" {
			kind = "again"
			if strings.Contains(cells[0], "final") {
				kind = "final"
			}
		}
		if _, twice := out[kind]; !twice {
			out[kind] = line{cells[1], cells[2], cells[3]}
		}
	}
	if len(out) != len(manifest.Kinds())+1 {
		t.Fatalf("the written table has %d rows, want %d: %v", len(out), len(manifest.Kinds())+1, out)
	}
	return out
}

func (l line) author1(r manifest.Role) bool {
	return l.author == string(r) || l.author == "either" || l.author == "the other"
}

// in says whether the prose allows the state; ended and late are said by "after".
func (l line) in(s State, end manifest.Kind, late bool) bool {
	switch {
	case strings.HasPrefix(l.states, "after cancelled"):
		return end == manifest.KindCancelled || end == manifest.KindTimedOut
	case strings.HasPrefix(l.states, "after an ending"):
		return s != None && (end != "" || late)
	case end != "":
		return false
	case strings.HasPrefix(l.states, "–"), l.states == "-":
		return s == None && !late
	case strings.HasPrefix(l.states, "proposed to delivered"):
		if s == None {
			return false
		}
		return late == strings.Contains(l.states, "deadline passed")
	case late:
		return false
	}
	head, _, _ := strings.Cut(l.states, ";")
	for w := range strings.SplitSeq(head, ",") {
		if strings.TrimSpace(w) == string(s) {
			return true
		}
	}
	return false
}

// TestTableHoldsForEveryStateKindAndAuthor walks all states, open and ended, ×
// all kinds × both authors × both sides of the deadline.
func TestTableHoldsForEveryStateKindAndAuthor(t *testing.T) {
	text := written
	if b, err := os.ReadFile("../../spec/lifecycle.md"); err == nil {
		text = string(b)
	}
	lines := tableOf(t, text)
	d := newDuo(1)
	open := [][]string{
		{},
		{"R:proposed"},
		{"R:proposed", "W:accepted", "R:asked", "W:asked"},
		{"R:proposed", "W:accepted", "W:child", "R:yes", "W:started", "R:asked", "W:asked"},
		{"R:proposed", "W:accepted", "W:started", "R:asked", "W:asked", "W:delivered"},
	}
	ends := []string{"", "W:declined", "W:failed", "R:completed", "R:final", "R:cancelled", "R+timed_out"}
	pairs := 0
	for _, words := range open {
		for _, end := range ends {
			for _, late := range []bool{false, true} {
				if now, ok := d.reach(t, words, end); ok {
					pairs += d.holdAgainst(t, lines, now, late)
				}
			}
		}
	}
	if pairs < 600 {
		t.Fatalf("only %d pairs were walked", pairs)
	}
}

// reach walks to a state and then to an ending, if that is legal there.
func (d duo) reach(t *testing.T, words []string, end string) (Task, bool) {
	now := d.walkTo(t, words...)
	if end == "" {
		return now, true
	}
	r, at := manifest.Requester, t0
	if end[0] == 'W' {
		r = manifest.Worker
	}
	if end[1] == '+' {
		at = deadline
	}
	f := d.facts(now, r, budgetAmendment(2000))[end[2:]]
	if now.IsZero() || now.Legal(d.agent[side(r)].DID(), manifest.Body{Fact: f}, at) != nil {
		return now, false
	}
	next, _, err := d.say(now, r, f, at)
	if err != nil {
		t.Fatalf("legal, and then not taken: %s: %v", end, err)
	}
	return next, true
}

func (d duo) holdAgainst(t *testing.T, lines map[string]line, now Task, late bool) (pairs int) {
	at := t0
	if late {
		at = deadline
	}
	var end manifest.Kind
	for _, e := range now.Endings() {
		end = e.Kind
	}
	for _, r := range roles {
		for word, f := range d.facts(now, r, budgetAmendment(3000)) {
			name := word
			switch word {
			case "yes", "no":
				name = "answered"
			case "child":
				name = "asked"
				if r == manifest.Requester {
					continue // never legal: TestOnlyAWorkerAsksForAChild
				}
			}
			if now.IsZero() && r == manifest.Worker {
				continue // no party yet: TestNothingBeforeProposed
			}
			l, pairs1 := lines[name], pairs+1
			pairs = pairs1
			want := l.author1(r) && l.in(now.State(), end, late)
			if word == "yes" && r == manifest.Requester && want {
				want = false // its own ask is open (H9)
			}
			last := at
			if end == manifest.KindTimedOut {
				last = maxTime(at, deadline) // nobody's clock runs back
				if !late {
					continue
				}
			}
			err := now.Legal(d.agent[side(r)].DID(), manifest.Body{Fact: f}, last)
			if (err == nil) != want {
				t.Errorf("%s in state %q, ended %q, late %v: %s: Legal = %v, want allowed %v", r, now.State(), end, late, word, err, want)
			}
		}
	}
	return pairs
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func TestTableHasEveryKindOnceAndOneState(t *testing.T) {
	count := map[manifest.Kind]int{}
	for _, r := range table() {
		count[r.kind]++
		if (r.effect == moves) != (r.to != None) || len(r.in) == 0 {
			t.Errorf("row %v has an effect without a state, or no states", r.kind)
		}
	}
	for _, k := range manifest.Kinds() {
		want := 1
		if k == manifest.KindRejected {
			want = 2
		}
		if count[k] != want {
			t.Errorf("%s has %d rows, want %d", k, count[k], want)
		}
	}
}
