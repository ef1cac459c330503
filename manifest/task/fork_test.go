package task

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/spec"
)

func asGap(err error, g **GapError) bool { return errors.As(err, g) }

// TestForksConvergeAtEveryPlace: one side says a second, different event at
// some place of its chain. The other side is honest and disputes, its seen
// holding fast what it had applied. Whoever has the same events has the same
// task, and what the honest side showed as ended stays (L1, L10, H6).
func TestForksConvergeAtEveryPlace(t *testing.T) {
	forks := 0
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t, 36)
		liar := rapid.IntRange(0, 1).Draw(t, "liar")
		honest := 1 - liar
		if len(h.w.said[liar]) == 0 || h.w.task[honest].IsZero() {
			return
		}
		k := rapid.IntRange(1, len(h.w.said[liar])).Draw(t, "place")
		alt, ok := h.other(t, liar, k)
		if !ok {
			return
		}
		forks++
		before := h.w.task[honest]
		said := 0
		for _, d := range before.Disputes() {
			if d.By == roles[honest] {
				said++
			}
		}
		if said == MaxDisputes {
			return // nothing left to say it with (H12)
		}
		broken, err := take(before, alt)
		switch {
		case isGap(err): // the honest side has not come so far: it has no fork to see
		case isBreak(err):
			if broken.Break(roles[liar]) == nil {
				t.Fatal("a TransitionError without a break in the task")
			}
			shown := before.Outcome(t0)
			e := fake(before.Next(h.agent[honest].DID(), manifest.Body{Fact: manifest.Disputed{Claim: "two"}}, lastAt(before, honest)))
			enclosedIn[e.d] = append(enclosedIn[e.d], alt.d)
			after, err := take(broken, e)
			if err != nil {
				t.Fatalf("the dispute of a fork is not taken: %v", err)
			}
			if before.Ended() && after.Outcome(t0) != shown {
				t.Fatalf("what was shown as %s became %s", shown, after.Outcome(t0))
			}
			if !before.Ended() && after.Outcome(t0) != OutcomeBroken {
				t.Fatalf("a fork without an ending is %q, want broken", after.Outcome(t0))
			}
			h.w.said[honest] = append(h.w.said[honest], e)
		case err != nil:
			t.Fatalf("the other half of a fork: %v", err)
		default:
			return // the honest side had not met the first half; it takes this one
		}
		es := append(h.all(), alt)
		want, left := readAll(es)
		if left > 0 {
			t.Fatalf("%d events of a forked history are gaps", left)
		}
		if want.Break(roles[liar]) == nil {
			t.Fatal("a fork that nobody sees")
		}
		for range 4 {
			got, left := readAll(rapid.Permutation(es).Draw(t, "order"))
			if left > 0 || !reflect.DeepEqual(got, want) {
				t.Fatalf("another order, another task (%d left):\n%+v %+v\n%+v %+v", left, got.f, got.breaks[liar], want.f, want.breaks[liar])
			}
		}
		if want.Break(roles[honest]) != nil {
			t.Fatalf("the honest chain broke: %+v", want.Break(roles[honest]))
		}
	})
	if forks < 20 {
		t.Fatalf("only %d forks were tried", forks)
	}
}

// What an author says past its break is held without counting everything again,
// and the task is that of a whole count: also where it forks once more, and
// where the other side had seen a branch.
func TestPastABreakNothingCounts(t *testing.T) {
	d := newDuo(1)
	worker := d.agent[1].DID()
	progress := func(t Task, n int64) said {
		return fake(t.Next(worker, manifest.Body{Fact: manifest.Progressed{Usage: usage(n), Waiting: "nobody"}}, t0))
	}
	started := d.walkTo(t, "R:proposed", "W:accepted", "W:started")
	one, two := progress(started, 1), progress(started, 2)
	seen, _, err := d.say(must(take(started, one)), manifest.Requester, manifest.Asked{Contract: started.InForce().Digest, Amendment: budgetAmendment(900)}, t0)
	if err != nil {
		t.Fatal(err)
	}
	backwards := progress(seen, 3).e
	backwards.Seen = nil
	spoilt := fake(backwards)
	for name, first := range map[string]struct {
		from Task
		e    said
	}{"a fork": {must(take(started, one)), two}, "a fork that was seen": {seen, two}, "an illegal event": {seen, spoilt}} {
		broken, err := take(first.from, first.e)
		if !isBreak(err) {
			t.Fatalf("%s: %v, want a break", name, err)
		}
		now, last := broken, first.e
		for i := range int64(40) {
			e := last.e
			e.Seq, e.Prev, e.Body = last.e.Seq+1, &last.d, manifest.Body{Fact: manifest.Progressed{Usage: usage(100 + i), Waiting: "nobody"}}
			next := fake(e)
			if now, err = take(now, next); err != nil {
				t.Fatalf("%s, event %d past it: %v", name, i, err)
			}
			if whole := now.refold(now.Manifest()); !reflect.DeepEqual(now, whole) {
				t.Fatalf("%s, event %d past it: another task than a whole count", name, i)
			}
			if i%7 != 3 { // else the next is its twin: another fork
				last = next
			}
		}
		if now.Usage() != nil && now.Usage().InputTokens >= 100 {
			t.Errorf("%s: what was said past it counts", name)
		}
	}
}

func lastAt(t Task, s int) (at time.Time) {
	at = t0
	if n := t.chains[s].len(); n > 0 {
		at = t.chains[s].at(n - 1).At.Time()
	}
	return at
}

// other is another event for place k of a side's chain, legal there if one is.
func (h history) other(t *rapid.T, s, k int) (said, bool) {
	first := h.w.said[s][k-1]
	x := &explorer{duo: h.duo, cuts: map[string]Task{}}
	seen := 0
	if first.e.Seen != nil {
		seen = 1 + slices.IndexFunc(h.w.said[1-s], func(o said) bool { return o.d == *first.e.Seen })
	}
	i, j := k-1, seen
	if s == 1 {
		i, j = seen, k-1
	}
	view, ok := x.cut(&h.w, i, j)
	if !ok || view.IsZero() && s == 1 {
		return said{}, false
	}
	facts := h.facts(view, roles[s], budgetAmendment(4000))
	f := facts[rapid.SampledFrom(slices.Sorted(maps.Keys(facts))).Draw(t, "alternative")]
	e := first.e
	e.Body = manifest.Body{Fact: f}
	alt := fake(e)
	return alt, alt.d != first.d
}

// TestAnIllegalEventBreaksItsChain: it counts up to the event before, and
// nothing after it counts (L10).
func TestAnIllegalEventBreaksItsChain(t *testing.T) {
	d := newDuo(1)
	now := d.walkTo(t, "R:proposed", "W:accepted")
	bad := fake(now.Next(d.agent[1].DID(), manifest.Body{Fact: d.facts(now, manifest.Worker, nil)["delivered"]}, t0))
	broken, err := take(now, bad)
	var te *TransitionError
	if !errors.As(err, &te) || te.Fork || te.Author != manifest.Worker || te.Seq != 2 || spec.ReasonOf(err) != spec.IllegalTransition {
		t.Fatalf("Apply = %v, want the worker's event 2 illegal", err)
	}
	if got := broken.Outcome(t0); got != OutcomeBroken {
		t.Errorf("Outcome = %q, want broken", got)
	}
	if b := broken.Break(manifest.Worker); b == nil || b.Digests[0] != bad.d {
		t.Errorf("Break = %+v, want the digest of the illegal event", b)
	}
	next := bad.e
	next.Seq, next.Prev, next.Body = 3, &bad.d, manifest.Body{Fact: manifest.Started{}}
	past, err := take(broken, fake(next))
	if err != nil || past.State() != Accepted || past.Head(manifest.Worker).Seq != 1 {
		t.Errorf("an event past the break: %v, state %s: it counts", err, past.State())
	}
	ended, _, err := d.say(past, manifest.Requester, manifest.Cancelled{Reason: "broken"}, t0)
	if err != nil || ended.Outcome(t0) != "cancelled" {
		t.Errorf("after a break the other side can still end the task: %v, %q", err, ended.Outcome(t0))
	}
}
