package journal

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

var counter = NewTable[int]("counter")

func open(t testing.TB, path string) *Journal {
	t.Helper()
	j, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func add(key string, n int) func(*Tx) error {
	return func(tx *Tx) error {
		if _, err := tx.Append(Record{Kind: "add", Key: key, At: time.Unix(1, 0), Body: fmt.Append(nil, n)}); err != nil {
			return err
		}
		v, _, err := counter.Get(tx, key)
		if err != nil {
			return err
		}
		return counter.Put(tx, key, "all", v+n)
	}
}

func value(t testing.TB, j *Journal, key string) (v int) {
	t.Helper()
	if err := j.View(context.Background(), func(tx *Tx) (err error) { v, _, err = counter.Get(tx, key); return err }); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEveryAcknowledgedTurnIsThereAndNoLockErrorReachesACaller(t *testing.T) { // B024
	for _, path := range []string{"", filepath.Join(t.TempDir(), "j.db")} {
		j := open(t, path)
		var wg sync.WaitGroup
		for w := range 16 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for i := range 25 {
					if err := j.Turn(context.Background(), add("k", 1)); err != nil {
						t.Errorf("turn: %v", err)
					}
					if w%4 == 0 && i%5 == 0 {
						value(t, j, "k")
					}
				}
			}()
		}
		wg.Wait()
		if got := value(t, j, "k"); got != 400 || j.Head() != 400 {
			t.Errorf("%q: counted %d, head %d, want 400", path, got, j.Head())
		}
		if err := j.Verify(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func TestOneTurnFailsAlone(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "j.db"))
	boom := errors.New("boom")
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			err := j.Turn(context.Background(), func(tx *Tx) error {
				if err := add("k", 1)(tx); err != nil {
					return err
				}
				switch i % 3 {
				case 0:
					return boom
				case 1:
					panic("turn of another kind")
				}
				return nil
			})
			if (err == nil) != (i%3 == 2) {
				t.Errorf("turn %d: %v", i, err)
			}
		}()
	}
	wg.Wait()
	if got := value(t, j, "k"); got != 20 || j.Head() != 20 {
		t.Fatalf("counted %d, head %d, want 20", got, j.Head())
	}
}

func TestViewCannotWrite(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "j.db"))
	if err := j.View(context.Background(), add("k", 1)); err == nil {
		t.Fatal("a view wrote")
	}
}

func TestVerifyNamesTheFirstRecordThatDoesNotFit(t *testing.T) { // B023
	for _, c := range []struct{ what, sql, names string }{
		{"body", "UPDATE records SET body = x'00' WHERE seq = 3", "record 3 "},
		{"kind", "UPDATE records SET kind = 'sub' WHERE seq = 10", "record 10 "},
		{"key and kind shifted", "UPDATE records SET kind = 'addk', key = '' WHERE seq = 4", "record 4 "},
		{"time", "UPDATE records SET at = 7 WHERE seq = 5", "record 5 "},
		{"digest", "UPDATE records SET digest = zeroblob(32) WHERE seq = 6", "record 6 "},
		{"digest gone", "UPDATE records SET digest = x'' WHERE seq = 6", "record 6 "},
		{"middle gone", "DELETE FROM records WHERE seq = 3", "record 4 "},
		{"head gone", "DELETE FROM records WHERE seq < 3", "record 3 "},
		{"two swapped", "UPDATE records SET seq = -2 WHERE seq = 2; UPDATE records SET seq = 2 WHERE seq = 3; UPDATE records SET seq = 3 WHERE seq = -2", "record 2 "},
		{"tail gone", "DELETE FROM records WHERE seq > 8", "ends at record 8 of 10"},
		{"all gone", "DELETE FROM records", "ends at record 0 of 10"},
	} {
		j := open(t, filepath.Join(t.TempDir(), "j.db"))
		for range 10 {
			if err := j.Turn(context.Background(), add("k", 1)); err != nil {
				t.Fatal(err)
			}
		}
		if err := j.Verify(context.Background()); err != nil {
			t.Fatal(err)
		}
		if _, err := j.write.Exec(c.sql); err != nil {
			t.Fatal(err)
		}
		if err := j.Verify(context.Background()); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%s: %v, want %q", c.what, err, c.names)
		}
	}
}

func TestWaitInFakeTime(t *testing.T) {
	for name, path := range map[string]string{"memory": "", "file": filepath.Join(t.TempDir(), "j.db")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, err := Open(path)
				if err != nil {
					t.Fatal(err)
				}
				defer j.Close()
				start := time.Now()
				ctx, cancel := context.WithTimeout(context.Background(), 5*24*time.Hour)
				defer cancel()
				if _, err := j.Wait(ctx, 0); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 5*24*time.Hour {
					t.Errorf("Wait on nothing: %v after %v", err, time.Since(start))
				}
				go j.Turn(context.Background(), add("k", 1))
				if head, err := j.Wait(context.Background(), 0); err != nil || head != 1 {
					t.Errorf("Wait = %d, %v", head, err)
				}
				ended := make(chan error, 1)
				go func() { _, err := j.Wait(context.Background(), 1); ended <- err }()
				synctest.Wait()
				j.Close()
				if err := <-ended; !errors.Is(err, ErrClosed) {
					t.Errorf("Wait on a journal that closes: %v", err)
				}
			})
		})
	}
}

func TestClosedJournalRefuses(t *testing.T) {
	j := open(t, "")
	j.Close()
	if err := j.Turn(context.Background(), add("k", 1)); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if err := j.View(context.Background(), func(*Tx) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
	if _, err := j.Wait(context.Background(), 0); !errors.Is(err, ErrClosed) {
		t.Fatal(err)
	}
}

func BenchmarkTurn(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			j := open(b, filepath.Join(b.TempDir(), "j.db"))
			b.SetParallelism(callers / 2)
			if callers == 1 {
				for b.Loop() {
					if err := j.Turn(context.Background(), add("k", 1)); err != nil {
						b.Fatal(err)
					}
				}
				return
			}
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := j.Turn(context.Background(), add("k", 1)); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

func TestTheNewestTimeIsThatOfTheLastRecord(t *testing.T) { // T4
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
	newest := func(j *Journal) (at time.Time) {
		t.Helper()
		if err := j.View(t.Context(), func(tx *Tx) error { at = tx.Newest(); return nil }); err != nil {
			t.Fatal(err)
		}
		return at
	}
	if at := newest(j); !at.IsZero() {
		t.Errorf("an empty journal: %v", at)
	}
	steps(t, j, func(tx *Tx) error {
		if _, err := tx.Append(Record{Kind: "k", Key: "a", At: noon}); err != nil {
			return err
		}
		if !tx.Newest().Equal(noon) {
			t.Errorf("within the turn: %v", tx.Newest())
		}
		return nil
	})
	failed := errors.New("no")
	err := j.Turn(t.Context(), func(tx *Tx) error {
		if _, err := tx.Append(Record{Kind: "k", Key: "a", At: noon.Add(time.Hour)}); err != nil {
			return err
		}
		return failed
	})
	if !errors.Is(err, failed) || !newest(j).Equal(noon) {
		t.Errorf("a turn that was taken back left its time: %v", newest(j))
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if at := newest(open(t, path)); !at.Equal(noon) {
		t.Errorf("after opening again: %v", at)
	}
}
