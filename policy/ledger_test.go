package policy

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

var purse = Account{Kind: MeterAccount, Meter: InputTokens}

func open(limit int64) Ledger { return Ledger{}.With(purse, Balance{Limit: limit}) }

// TestCommittedAndReservedNeverPassTheLimit is B1 and B2 on any interleaving:
// and what a hold keeps back comes back once (B014).
func TestCommittedAndReservedNeverPassTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(0, 100).Draw(t, "limit")
		l := open(limit)
		committed, held := int64(0), map[HoldID]int64{}
		for range rapid.IntRange(1, 60).Draw(t, "moves") {
			m := Move{Account: purse, Op: rapid.SampledFrom([]Op{SetLimit, Reserve, Reserve, Commit, Release}).Draw(t, "op"),
				Amount: rapid.Int64Range(-2, 60).Draw(t, "amount")}
			if m.Op != SetLimit {
				m.Hold = HoldID(fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "hold")))
			}
			if m.Op == Release {
				m.Amount = 0
			}
			before := l.All()
			next, err := l.Apply(m)
			_, there := held[m.Hold]
			if err != nil {
				if !reflect.DeepEqual(next.All(), before) {
					t.Fatalf("a refused %v changed the ledger", m)
				}
				continue
			}
			switch m.Op {
			case SetLimit:
				limit = m.Amount
			case Reserve:
				if there {
					t.Fatalf("a hold was made twice: %v", m)
				}
				held[m.Hold] = m.Amount
			case Commit, Release:
				if !there {
					t.Fatalf("a hold ended twice: %v", m)
				}
				committed += m.Amount
				delete(held, m.Hold)
			}
			l = next
			sum := committed
			for _, n := range held {
				sum += n
			}
			b := l.Of(purse)
			if b.Committed+b.Reserved() != sum || sum > limit || b.Limit != limit {
				t.Fatalf("committed %d + reserved %d, want %d ≤ %d", b.Committed, b.Reserved(), sum, limit)
			}
		}
	})
}

// TestAllMovesOrNone: one that may not be made undoes the rest (B1).
func TestAllMovesOrNone(t *testing.T) {
	other := Account{Kind: MeterAccount, Meter: OutputTokens}
	l := open(10).With(other, Balance{Limit: 1})
	got, err := l.Apply(Move{Op: Reserve, Account: purse, Hold: "a", Amount: 5}, Move{Op: Reserve, Account: other, Hold: "a", Amount: 2})
	if spec.ReasonOf(err) != spec.BudgetExhausted || !reflect.DeepEqual(got.All(), l.All()) {
		t.Errorf("Apply = %v, %v: want budget-exhausted and nothing changed", got.All(), err)
	}
}

// TestParallelCallsDoNotOverspend is the try of B012: a budget of 10,000 and
// calls of 3,000, on a fresh account and after spending; a figure that is too
// large, negative or overflows changes nothing.
func TestParallelCallsDoNotOverspend(t *testing.T) {
	for spent, want := range map[int64]int{0: 3, 1: 3, 1001: 2, 4001: 1, 7001: 0} {
		l, admitted := open(10_000), 0
		if spent > 0 {
			l = must(l.Apply(Move{Op: Reserve, Account: purse, Hold: "before", Amount: spent}, Move{Op: Commit, Account: purse, Hold: "before", Amount: spent}))
		}
		for i := range 8 {
			if next, err := l.Apply(Move{Op: Reserve, Account: purse, Hold: HoldID(fmt.Sprint(i)), Amount: 3000}); err == nil {
				l, admitted = next, admitted+1
			}
		}
		if admitted != want {
			t.Errorf("after %d: %d calls admitted, want %d", spent, admitted, want)
		}
	}
	l, admitted := open(10_000), 0
	for i := range 8 {
		if next, err := l.Apply(Move{Op: Reserve, Account: purse, Hold: HoldID(fmt.Sprint(i)), Amount: 3000}); err == nil {
			l, admitted = next, admitted+1
		}
	}
	if admitted != 3 {
		t.Errorf("%d calls admitted, want 3", admitted)
	}
	for _, bad := range []int64{10_001, -1, math.MaxInt64, math.MinInt64} {
		for _, op := range []Op{Reserve, Commit} {
			if got, err := l.Apply(Move{Op: op, Account: purse, Hold: "0", Amount: bad}); err == nil || !reflect.DeepEqual(got.All(), l.All()) {
				t.Errorf("%s %d = %v, %v: want refused and nothing changed", op, bad, got.All(), err)
			}
		}
	}
}

// TestChildrenGetNoFreshMoney is the try of B013: a root of 9,000 with 1,000
// spent hands on 4,000 twice, has nothing for a third, and finds nothing for
// itself while a child runs; all that was ever said to be used is within it.
func TestChildrenGetNoFreshMoney(t *testing.T) {
	key := manifest.TaskKey{}
	root := MeterOf(key, InputTokens)
	l := Ledger{}.With(root, Balance{Limit: 9000, Committed: 1000})
	share := func(n byte) Move {
		return Move{Op: Reserve, Account: root, Hold: ChildHold(signing.DigestOf([]byte{n})), Amount: 4000}
	}
	l = must(l.Apply(share(1), share(2)))
	if _, err := l.Apply(share(3)); spec.ReasonOf(err) != spec.BudgetExhausted {
		t.Errorf("a third child: %v, want budget-exhausted", err)
	}
	// Child 1 has spent 3,500 of its share: the root is judged against the whole share until it is back.
	if _, err := l.Apply(Move{Op: Reserve, Account: root, Hold: "run-1", Amount: 4000}); spec.ReasonOf(err) != spec.BudgetExhausted {
		t.Errorf("the root's own 4,000: %v, want budget-exhausted", err)
	}
	for n, used := range map[byte]int64{1: 3500, 2: 4500} { // the second says more than it had
		l = must(l.Apply(SettleShare(l, key, signing.DigestOf([]byte{n}), manifest.Meters{InputTokens: used})...))
	}
	if b := l.Of(root); b.Committed != 8500 || b.Reserved() != 0 {
		t.Errorf("in the end: %+v, want 8,500 and nothing held", b)
	}
	if _, err := l.Apply(Move{Op: Reserve, Account: root, Hold: "run-1", Amount: 501}); err == nil {
		t.Error("past the limit")
	}
}

// TestATreeNeverSpendsMoreThanItsRoot draws trees of shares: each task spends,
// hands on, gets back what its children say they used, and says its own last
// word while some are still out. Whoever spent what, the root's limit holds (B3, B013).
func TestATreeNeverSpendsMoreThanItsRoot(t *testing.T) {
	type node struct {
		account  Account
		up       int // its parent; -1: the root
		child    signing.Digest
		said     bool // its last word
		consumed int64
	}
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1, 1000).Draw(t, "limit")
		nodes := []*node{{account: MeterOf(manifest.TaskKey{}, InputTokens), up: -1}}
		l := Ledger{}.With(nodes[0].account, Balance{Limit: limit})
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			n := nodes[rapid.IntRange(0, len(nodes)-1).Draw(t, "who")]
			amount := rapid.Int64Range(0, 400).Draw(t, "amount")
			hold := HoldID(fmt.Sprint("call-", step))
			switch {
			case n.said:
			case rapid.Bool().Draw(t, "spend"):
				next, err := l.Apply(Move{Op: Reserve, Account: n.account, Hold: hold, Amount: amount})
				if err != nil {
					continue
				}
				used := rapid.Int64Range(0, amount).Draw(t, "used")
				l = must(next.Apply(Move{Op: Commit, Account: n.account, Hold: hold, Amount: used}))
				n.consumed += used
			case rapid.Bool().Draw(t, "hand on"):
				child := signing.DigestOf([]byte(fmt.Sprint(len(nodes))))
				next, err := l.Apply(Move{Op: Reserve, Account: n.account, Hold: ChildHold(child), Amount: amount})
				if err != nil {
					continue
				}
				a := Account{Kind: MeterAccount, Meter: InputTokens, Name: fmt.Sprint("child", len(nodes))} // at its own gateway
				l = next.With(a, Balance{Limit: amount})
				for i, x := range nodes {
					if x == n {
						nodes = append(nodes, &node{account: a, up: i, child: child})
						break
					}
				}
			case n.up >= 0: // its last word: what is still out below it counts whole
				n.said = true
				parent := nodes[n.up]
				b := l.Of(n.account)
				held, there := l.Of(parent.account).Holds[ChildHold(n.child)]
				if !there {
					t.Fatal("a share came back before its word")
				}
				used := b.Committed + b.Reserved()
				l = must(l.Apply(Move{Op: Commit, Account: parent.account, Hold: ChildHold(n.child), Amount: min(used, held)}))
			}
			var spent int64
			for _, x := range nodes {
				spent += x.consumed
				if b := l.Of(x.account); b.Committed+b.Reserved() > b.Limit {
					t.Fatalf("%+v", b)
				}
			}
			if spent > limit {
				t.Fatalf("the tree spent %d of %d", spent, limit)
			}
		}
	})
}

func TestAnAccountThatWasNeverOpenedHasNothing(t *testing.T) {
	if _, err := (Ledger{}).Apply(Move{Op: Reserve, Account: purse, Hold: "a", Amount: 1}); spec.ReasonOf(err) != spec.BudgetExhausted {
		t.Errorf("Apply = %v, want budget-exhausted", err)
	}
	if _, err := open(5).Apply(Move{Op: "gift", Account: purse}); err == nil {
		t.Error("an unknown move was made")
	}
}

func TestAccountNamesAreUnique(t *testing.T) {
	seen := map[string]Account{}
	for _, a := range []Account{{Kind: DayTasks, Day: "2026-11-30"}, {Kind: DayTasks, Name: "2026-11-30"}, {Kind: DayTasks},
		{Kind: MeterAccount, Meter: InputTokens}, {Kind: MeterAccount, Name: "input_tokens"}, {Kind: DayTasks, Side: "worker"}} {
		if b, twice := seen[a.String()]; twice {
			t.Errorf("%v and %v are both %q", a, b, a)
		}
		seen[a.String()] = a
	}
}
