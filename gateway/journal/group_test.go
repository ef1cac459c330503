package journal

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// together queues the turns behind one that waits, so that they share a flush
// in this order, and returns their answers.
func together(t *testing.T, j *Journal, turns ...func(*Tx) error) []error {
	t.Helper()
	started, open := make(chan bool), make(chan bool)
	first := make(chan error, 1)
	go func() {
		first <- j.Turn(context.Background(), func(*Tx) error { close(started); <-open; return nil })
	}()
	<-started
	answers := make([]chan error, len(turns))
	for i, f := range turns {
		answers[i] = make(chan error, 1)
		go func() { answers[i] <- j.Turn(context.Background(), f) }()
		for len(j.turns) != i+1 {
			runtime.Gosched()
		}
	}
	close(open)
	out := make([]error, len(turns))
	for i, c := range append(answers, first) {
		select {
		case err := <-c:
			if i < len(out) {
				out[i] = err
			} else if err != nil {
				t.Fatal(err)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("turn %d of %d was never answered", i+1, len(turns))
		}
	}
	return out
}

func fill(t *testing.T, j *Journal, spare int) {
	t.Helper()
	var pages int
	if err := j.write.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if _, err := j.write.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages+spare)); err != nil {
		t.Fatal(err)
	}
}

func big(tx *Tx) error {
	_, err := tx.Append(Record{Kind: "big", Key: "big", Body: make([]byte, 1<<20)})
	return err
}

func TestAFullDiskAnswersEveryTurnOfTheFlushTruthfully(t *testing.T) { // F3
	j := open(t, filepath.Join(t.TempDir(), "j.db"))
	if err := j.Turn(context.Background(), add("before", 1)); err != nil {
		t.Fatal(err)
	}
	fill(t, j, 3)
	keys := []string{"a", "b", "", "c", "d"}
	var turns []func(*Tx) error
	for _, k := range keys {
		if k == "" {
			turns = append(turns, big)
			continue
		}
		turns = append(turns, add(k, 1))
	}
	acked := 1
	for i, err := range together(t, j, turns...) {
		switch {
		case keys[i] == "" && !errors.Is(err, ErrFull):
			t.Errorf("the big turn: %v, want ErrFull", err)
		case err != nil && !errors.Is(err, ErrFull):
			t.Errorf("turn %q: %v", keys[i], err)
		case (err == nil) != (keys[i] != "" && value(t, j, keys[i]) == 1):
			t.Errorf("turn %q was answered %v, the table says %d", keys[i], err, value(t, j, keys[i]))
		}
		if err == nil {
			acked++
		}
	}
	if int(j.Head()) != acked || value(t, j, "before") != 1 {
		t.Errorf("head %d, %d turns acknowledged", j.Head(), acked)
	}
	if err := j.Verify(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestATurnThatLetsAnErrorPassDoesNotHappenByHalf(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "j.db"))
	if err := j.Turn(context.Background(), add("k", 1)); err != nil {
		t.Fatal(err)
	}
	fill(t, j, 2)
	err := j.Turn(context.Background(), func(tx *Tx) error {
		_ = big(tx)
		_ = counter.Put(tx, "half", "all", 1)
		return nil
	})
	if !errors.Is(err, ErrFull) {
		t.Errorf("answered %v, want ErrFull", err)
	}
	if got := value(t, j, "half"); got != 0 {
		t.Error("half a turn is there")
	}
}

type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

func TestTheErrorOfATurnComesBackAsItIs(t *testing.T) {
	j := open(t, "")
	for _, why := range []string{"malformed: no such member", "no space left in the budget"} {
		err := j.Turn(context.Background(), func(*Tx) error { return &refusal{why} })
		var r *refusal
		if !errors.As(err, &r) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrFull) {
			t.Errorf("%q came back as %v", why, err)
		}
	}
}

func TestNobodyHearsOfATurnBeforeItsFlush(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "j.db"))
	head := make(chan Seq, 1)
	go func() { h, _ := j.Wait(context.Background(), 0); head <- h }()
	err := j.Turn(context.Background(), func(tx *Tx) error {
		if err := add("k", 1)(tx); err != nil {
			return err
		}
		if j.Head() != 0 || len(head) != 0 || value(t, j, "k") != 0 {
			t.Error("seen before its commit")
		}
		return nil
	})
	if err != nil || j.Head() != 1 || <-head != 1 || value(t, j, "k") != 1 {
		t.Errorf("after the commit: %v, head %d", err, j.Head())
	}
}

func TestVerifyBesideAWriterIsQuiet(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "j.db"))
	end, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			default:
				if err := j.Turn(context.Background(), add("k", 1)); err != nil {
					t.Error(err)
					return
				}
			}
		}
	}()
	for range 60 {
		if err := j.Verify(context.Background()); err != nil {
			t.Error(err)
			break
		}
	}
	close(end)
	<-done
}
