package policy

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

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
// calls of 3,000; a figure that is too large, negative or overflows changes nothing.
func TestParallelCallsDoNotOverspend(t *testing.T) {
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
