package task

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/signing"
)

// A history is what two honest gateways said, and what each came to.
type history struct {
	duo
	w world
}

// drawHistory lets two gateways talk at random for a while.
func drawHistory(t *rapid.T, steps int) history {
	amends := []*manifest.Amendment{budgetAmendment(2000), {MaxRetries: ptr(int64(2))}, {Deadline: ptr(signing.TimeOf(later))}}
	h := history{duo: newDuo(1)}
	for range steps {
		s := rapid.IntRange(0, 1).Draw(t, "side")
		if h.w.have[s] < len(h.w.said[1-s]) && rapid.Bool().Draw(t, "reads") {
			u, err := take(h.w.task[s], h.w.said[1-s][h.w.have[s]])
			if err != nil {
				t.Fatalf("legal when said, refused on arrival (L2): %v", err)
			}
			h.w.task[s] = u
			h.w.have[s]++
			continue
		}
		if h.w.task[s].IsZero() && s == 1 {
			continue
		}
		h.w.late[s] = h.w.late[s] || rapid.IntRange(0, 30).Draw(t, "clock") == 0
		at := t0
		if h.w.late[s] {
			at = deadline
		}
		facts := h.facts(h.w.task[s], roles[s], rapid.SampledFrom(amends).Draw(t, "amendment"))
		if rapid.IntRange(0, 7).Draw(t, "ends") > 0 { // most of what is said does not end the task
			for _, word := range []string{"declined", "failed", "cancelled", "timed_out", "final", "completed", "disputed"} {
				delete(facts, word)
			}
		}
		var legal []manifest.Fact
		for _, word := range slices.Sorted(maps.Keys(facts)) {
			if h.w.task[s].Legal(h.agent[s].DID(), manifest.Body{Fact: facts[word]}, at) == nil {
				legal = append(legal, facts[word])
			}
		}
		if len(legal) == 0 {
			continue
		}
		u, ev, err := h.say(h.w.task[s], roles[s], rapid.SampledFrom(legal).Draw(t, "fact"), at)
		if err != nil {
			t.Fatalf("legal, and then not taken: %v", err)
		}
		h.w.task[s], h.w.said[s] = u, append(h.w.said[s], ev)
	}
	return h
}

func ptr[T any](x T) *T { return &x }

// readAll folds events in the given order, again and again over what was a gap.
func readAll(es []said) (t Task, left int) {
	for {
		var gaps []said
		for _, e := range es {
			u, err := take(t, e)
			if isGap(err) {
				gaps = append(gaps, e)
				continue
			}
			t = u
		}
		if len(gaps) == 0 || len(gaps) == len(es) {
			return t, len(gaps)
		}
		es = gaps
	}
}

func (h history) all() []said { return slices.Concat(h.w.said[0], h.w.said[1]) }

// TestEveryOrderOfArrivalGivesTheSameTask is L1 for a third reader, with duplicates.
func TestEveryOrderOfArrivalGivesTheSameTask(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t, 40)
		es := h.all()
		if len(es) == 0 {
			return
		}
		want, left := readAll(es)
		if left > 0 {
			t.Fatalf("%d events of a whole history are gaps", left)
		}
		mixed := rapid.Permutation(append(slices.Clone(es), es[:len(es)/2]...)).Draw(t, "order")
		got, left := readAll(mixed)
		if left > 0 || !reflect.DeepEqual(got, want) {
			t.Fatalf("another order, another task (%d left):\n%+v\n%+v", left, got.f, want.f)
		}
		if want.Broken() {
			t.Fatalf("an honest history broke: %+v %+v", want.breaks[0], want.breaks[1])
		}
	})
}

// TestADuplicateChangesNothing is H5.
func TestADuplicateChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t, 40)
		now, _ := readAll(h.all())
		for _, e := range h.all() {
			again, err := take(now, e)
			if err != nil || !reflect.DeepEqual(again, now) {
				t.Fatalf("the same event again: %v", err)
			}
		}
	})
}

// TestATaskGoesThroughJSONAndComesBackEqual, and takes the next event alike.
func TestATaskGoesThroughJSONAndComesBackEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t, 40)
		es := h.all()
		cut := rapid.IntRange(0, len(es)).Draw(t, "cut")
		now, _ := readAll(es[:cut])
		var back Task
		b, err := json.Marshal(now)
		if err == nil {
			err = json.Unmarshal(b, &back)
		}
		if err != nil || !reflect.DeepEqual(back, now) {
			t.Fatalf("through JSON: %v\n%+v\n%+v", err, back, now)
		}
		for _, e := range es[cut:] {
			a, errA := take(now, e)
			b, errB := take(back, e)
			if (errA == nil) != (errB == nil) || !reflect.DeepEqual(a, b) {
				t.Fatalf("after JSON the next event differs: %v, %v", errA, errB)
			}
			now, back = a, b
		}
	})
}

// TestAnEventBeforeItsPastIsAGap is H1: nothing changes, and what is asked for is missing.
func TestAnEventBeforeItsPastIsAGap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t, 30)
		es := h.all()
		if len(es) < 2 {
			return
		}
		var now Task
		for _, e := range rapid.Permutation(es).Draw(t, "order") {
			u, err := take(now, e)
			if isGap(err) && !reflect.DeepEqual(u, now) {
				t.Fatal("a gap changed the task")
			}
			var gap *GapError
			if asGap(err, &gap) && !now.IsZero() {
				r, ok := now.RoleOf(gap.Author)
				if !ok || gap.Need != now.chains[side(r)].top()+1 {
					t.Fatalf("a gap asks for %d of %v", gap.Need, gap.Author)
				}
			}
			if err == nil {
				now = u
			}
		}
	})
}
