package task

import (
	"reflect"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/signing"
)

// However often a chain is continued, and by whom, each one keeps what it held:
// they share blocks and never write into one.
func TestAChainIsNeverWrittenAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chains, lists := []chain{{}}, [][]entry{nil}
		for n := range rapid.IntRange(1, 120).Draw(t, "events") {
			// mostly the newest, so that chains grow over several blocks
			from := max(0, len(chains)-1-rapid.SampledFrom([]int{0, 0, 0, 0, 1, 5, 20}).Draw(t, "back"))
			e := entry{Seq: int64(rapid.IntRange(1, 40).Draw(t, "seq")), Digest: signing.DigestOf([]byte(strconv.Itoa(n)))}
			if rapid.Bool().Draw(t, "behind") {
				e.Seq = chains[from].top() + 1
			}
			list := append(slices.Clone(lists[from]), e)
			slices.SortFunc(list, func(a, b entry) int {
				if a.Seq != b.Seq {
					return int(a.Seq - b.Seq)
				}
				return slices.Compare([]byte(a.Digest.String()), []byte(b.Digest.String()))
			})
			chains, lists = append(chains, chains[from].with(e)), append(lists, list)
		}
		for i, c := range chains {
			if got := c.list(); !slices.EqualFunc(got, lists[i], func(a, b entry) bool { return reflect.DeepEqual(a, b) }) || c.len() != len(got) {
				t.Fatalf("chain %d holds %d events, want %d, or others", i, c.len(), len(lists[i]))
			}
			if again := chainOf(lists[i]); !reflect.DeepEqual(c, again) {
				t.Fatalf("chain %d of %d events has another shape", i, c.len())
			}
			for j, e := range lists[i] {
				if k, found := c.place(e); k != j || !found || c.index(e.Digest) != j {
					t.Fatalf("chain %d: event %d is found at %d and %d", i, j, k, c.index(e.Digest))
				}
			}
		}
	})
}

// Apply gives a new Task and leaves the old one: each of a long history is what
// it was when it was made, and goes on from there.
func TestOldTasksStayUsable(t *testing.T) {
	d := newDuo(1)
	now := must(take(Task{}, fake(Task{}.Next(d.agent[0].DID(), manifest.Body{Fact: d.proposed()}, t0))))
	for _, f := range []manifest.Fact{d.accepted(), manifest.Started{}} {
		now, _, _ = d.say(now, manifest.Worker, f, t0)
	}
	var tasks []Task
	var stored [][]byte
	for i := range 3 * blockSize {
		tasks, stored = append(tasks, now), append(stored, must(now.MarshalJSON()))
		now = must(take(now, fake(now.Next(d.agent[1].DID(), manifest.Body{Fact: manifest.Progressed{Usage: usage(int64(i)), Waiting: "nobody"}}, t0))))
	}
	for i, old := range tasks {
		other := must(take(old, fake(old.Next(d.agent[1].DID(), manifest.Body{Fact: manifest.Progressed{Usage: usage(1000), Waiting: "nobody"}}, t0))))
		if string(must(old.MarshalJSON())) != string(stored[i]) {
			t.Fatalf("task %d is another than when it was made", i)
		}
		if got, want := other.Head(manifest.Worker).Seq, old.Head(manifest.Worker).Seq+1; got != want || other.Usage().InputTokens != 1000 {
			t.Fatalf("task %d goes on to %d, want %d", i, got, want)
		}
	}
}
