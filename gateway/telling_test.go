package gateway_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
)

// note is what a teller was given.
type note struct {
	id   string
	asks int
	at   time.Time
}

// teller is a twin of gateway/notify: it fails as often as it is told to.
type teller struct {
	mu    sync.Mutex // guards both
	fails int
	notes []note
}

func (n *teller) Notify(_ context.Context, id string, asks []string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notes = append(n.notes, note{id, len(asks), time.Now()})
	if n.fails > 0 {
		n.fails--
		return errors.New("not there")
	}
	return nil
}

func (n *teller) got() []note {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]note(nil), n.notes...)
}

func told(t *testing.T, fails int) (*side, *teller) {
	ann, _ := pair(t)
	n := &teller{fails: fails}
	ann.teller = n
	ann.restart()
	return ann, n
}

func TestManyAsksInAShortTimeAreOneNote(t *testing.T) { // J12
	synctest.Test(t, func(t *testing.T) {
		ann, n := told(t, 0)
		began := time.Now()
		for range 5 {
			ann.propose()
		}
		time.Sleep(30 * time.Second)
		if got := n.got(); len(got) != 1 || got[0].asks != 5 || got[0].at.Sub(began) > 5*time.Second {
			t.Fatalf("%+v, want one note about five", got)
		}
		for range 3 {
			ann.propose()
		}
		time.Sleep(20 * time.Second)
		if got := n.got(); len(got) != 1 {
			t.Fatalf("%+v: a second note within a minute", got)
		}
		time.Sleep(time.Minute)
		got := n.got()
		if len(got) != 2 || got[1].asks != 8 || got[1].id == got[0].id {
			t.Fatalf("%+v, want a second note about eight", got)
		}
		time.Sleep(time.Hour)
		if got := n.got(); len(got) != 2 {
			t.Errorf("%+v: told again without anything new", got)
		}
	})
}

func TestANoteIsToldAgainUntilItArrives(t *testing.T) { // J12
	synctest.Test(t, func(t *testing.T) {
		ann, n := told(t, 3)
		ann.propose()
		time.Sleep(5 * time.Minute)
		got := n.got()
		if len(got) != 4 {
			t.Fatalf("%d notes, want three that failed and one", len(got))
		}
		for _, g := range got {
			if g.id != got[0].id || g.asks != 1 {
				t.Errorf("%+v: a repetition has another id", got)
			}
		}
		if second, first := got[2].at.Sub(got[1].at), got[1].at.Sub(got[0].at); second <= first {
			t.Errorf("tried again after %s, then after %s", first, second)
		}
	})
}

func TestWhatNoLongerWaitsIsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ann, n := told(t, 1<<30)
		ann.propose()
		a := ann.ask(manifest.ContractGate)
		time.Sleep(10 * time.Second)
		if len(n.got()) == 0 {
			t.Fatal("nobody was told")
		}
		if _, err := ann.g.DenyGate(context.Background(), gateway.Owner, gateway.Denial{Ask: a.Ask.AskID.String()}); err != nil {
			t.Fatal(err)
		}
		before := len(n.got())
		time.Sleep(time.Hour)
		if after := len(n.got()); after > before+1 { // one may have been under way
			t.Errorf("%d notes about nothing", after-before)
		}
	})
}
