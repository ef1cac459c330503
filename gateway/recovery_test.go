package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"sealbridge/gateway"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
)

// putBack stops a gateway and starts it from an older journal.
func (s *side) putBack(backup string) {
	s.t.Helper()
	s.stop()
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(s.home.Journal() + end); err != nil && !os.IsNotExist(err) {
			s.t.Fatal(err)
		}
	}
	if err := os.Rename(backup, s.home.Journal()); err != nil {
		s.t.Fatal(err)
	}
	s.start()
}

// lostWork is a task that Ben accepted and delivered after a backup of his journal, which is returned.
func lostWork(t *testing.T) (ann, ben *side, task, backup string) {
	t.Helper()
	ann, ben = pair(t)
	p := ann.proposeWith(func(d *manifest.Draft) { d.Deadline = "40d" })
	ann.allow(manifest.ContractGate)
	ben.ask(manifest.ContractGate)
	backup = filepath.Join(t.TempDir(), "backup")
	if err := ben.journal.Backup(t.Context(), backup); err != nil {
		t.Fatal(err)
	}
	ben.allow(manifest.ContractGate)
	ann.ask(manifest.DeliveryGate)
	return ann, ben, p.Task, backup
}

// later lets time pass in which neither gateway runs.
func later(d time.Duration, sides ...*side) {
	for _, s := range sides {
		s.stop()
	}
	time.Sleep(d)
	for _, s := range sides {
		s.start()
	}
}

func TestARestoredHomeGetsItsChainBackAndGoesOnWithoutAFork(t *testing.T) { // R4b
	synctest.Test(t, func(t *testing.T) {
		ann, ben, task, backup := lostWork(t)
		said := ann.state(task).Chain.Worker
		ben.putBack(backup)
		if err := ben.g.Recover(t.Context(), "put back from a backup"); err != nil {
			t.Fatal(err)
		}
		if as, err := ben.g.Asks(t.Context(), gateway.Owner, false); err != nil || len(as) != 0 {
			t.Fatalf("asks in recovery: %+v, %v: what a person said yes to before would be said twice", as, err)
		}
		ben.until("given back", func() bool {
			h := ben.state(task).Chain.Worker
			return h != nil && *h == *said
		})
		if ben.state(task).Recovery == "" {
			t.Error("out of recovery before what was sent has expired at the relay")
		}
		if _, err := ann.answer(ann.ask(manifest.DeliveryGate), approval.Deny); err != nil { // Ben's turn again
			t.Fatal(err)
		}
		ben.until("sent back", func() bool { return ben.state(task).State == "working" })
		later(13*24*time.Hour, ann, ben)
		ben.until("asked again", func() bool { return ben.state(task).Chain.PeerHas != nil })
		if v := ben.state(task); v.Recovery == "" || *v.Chain.Worker != *said {
			t.Errorf("after 13 days: %+v", v)
		}
		later(25*time.Hour, ann, ben)
		ben.until("recovered", func() bool { return ben.state(task).Recovery == "" })
		ann.allow(manifest.DeliveryGate)
		ann.until("completed", func() bool { return ann.state(task).Released })
		ben.until("completed", func() bool { return ben.state(task).Outcome == "completed" })
		for _, s := range []*side{ann, ben} {
			if rep := s.verifies(task); len(rep.Findings) != 0 {
				t.Errorf("%s: %+v", s.home.Config.Name, rep.Findings)
			}
		}
	})
}

func TestAPeerThatHoldsMoreOfUsThanWeDoPutsUsIntoRecovery(t *testing.T) { // R4b
	synctest.Test(t, func(t *testing.T) {
		_, ben, task, backup := lostWork(t)
		ben.putBack(backup) // a copy of the files, put back by hand: nobody says that it is one
		ben.until("in recovery", func() bool { return ben.state(task).Recovery != "" })
		if as, err := ben.g.Asks(t.Context(), gateway.Owner, false); err != nil || len(as) != 0 {
			t.Errorf("asks: %+v, %v", as, err)
		}
	})
}

// stuck is a runner whose programs never end by themselves.
type stuck struct {
	counter
	begun chan struct{}
}

func (s stuck) Run(ctx context.Context, _ runner.Command) (runner.Result, error) {
	s.begun <- struct{}{}
	<-ctx.Done()
	return runner.Result{Exit: -1, Cancelled: true}, nil
}

func TestWhatARestoredHomeMayHaveUsedIsCharged(t *testing.T) { // R4b, B1
	for model, want := range map[string]int64{"own": 5000, "none": 0} {
		synctest.Test(t, func(t *testing.T) {
			ann, ben := pair(t)
			begun := make(chan struct{}, 10)
			ben.run = stuck{begun: begun}
			ben.rules.Agents["coder"] = gateway.Agent{Command: []string{"x"}, Model: model}
			ben.restart()
			p := ann.proposeWith(func(d *manifest.Draft) { d.Deadline, d.Budget.InputTokens = "40d", "5000" })
			ann.allow(manifest.ContractGate)
			ben.ask(manifest.ContractGate)
			backup := filepath.Join(t.TempDir(), "backup")
			if err := ben.journal.Backup(t.Context(), backup); err != nil {
				t.Fatal(err)
			}
			ben.allow(manifest.ContractGate)
			<-begun
			ann.until("working", func() bool { return ann.state(p.Task).State == "working" })
			ben.putBack(backup)
			if err := ben.g.Recover(t.Context(), "put back from a backup"); err != nil {
				t.Fatal(err)
			}
			ben.until("given back", func() bool { return ben.state(p.Task).State == "working" })
			later(15*24*time.Hour, ann, ben)
			ben.until("recovered", func() bool { return ben.state(p.Task).Recovery == "" })
			if b := ben.state(p.Task).Budget["input_tokens"]; b.Committed != want || b.Committed+b.Reserved > b.Limit {
				t.Errorf("%s: %+v, want %d charged", model, b, want)
			}
		})
	}
}
