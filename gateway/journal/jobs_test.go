package journal

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

var noon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// steps runs each step in a turn of its own.
func steps(t *testing.T, j *Journal, fs ...func(*Tx) error) {
	t.Helper()
	for _, f := range fs {
		if err := j.Turn(context.Background(), f); err != nil {
			t.Fatal(err)
		}
	}
}

func owe(kind, key string, due time.Time, body string) func(*Tx) error {
	return func(tx *Tx) error { return tx.Owe(Job{Kind: kind, Key: key, Due: due, Body: []byte(body)}) }
}

func due(t *testing.T, j *Journal, at time.Time, limit int) (keys []string, next time.Time) {
	t.Helper()
	err := j.View(context.Background(), func(tx *Tx) error {
		jobs, n, err := tx.Due(at, limit)
		for _, jb := range jobs {
			keys = append(keys, jb.Kind+" "+jb.Key)
		}
		next = n
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys, next
}

func job(t *testing.T, j *Journal, kind, key string) (jb Job, ok bool) {
	t.Helper()
	if err := j.View(context.Background(), func(tx *Tx) (err error) { jb, ok, err = tx.JobOf(kind, key); return err }); err != nil {
		t.Fatal(err)
	}
	return jb, ok
}

func TestAJobIsOwedOnceForEachKindAndKey(t *testing.T) {
	j := open(t, "")
	steps(t, j, owe("send", "a", noon.Add(time.Hour), "1"), owe("send", "a", noon, "2"), owe("send", "a", noon.Add(2*time.Hour), "3"), owe("run", "a", noon, ""))
	jb, ok := job(t, j, "send", "a")
	if !ok || !jb.Due.Equal(noon) || string(jb.Body) != "3" || jb.Gen == 0 || jb.Tries != 0 {
		t.Errorf("owed three times: %+v, want the earliest time, the newest body and a number", jb)
	}
	if keys, next := due(t, j, noon, 10); !slices.Equal(keys, []string{"run a", "send a"}) || !next.IsZero() {
		t.Errorf("due %v, next %v", keys, next)
	}
	settle := func(tx *Tx) error { return tx.Settle("send", "a") }
	steps(t, j, settle, settle) // at least once: an end can come twice
	if _, ok := job(t, j, "send", "a"); ok {
		t.Error("still owed after its end")
	}
	if _, ok := job(t, j, "run", "a"); !ok {
		t.Error("the end of one kind took another")
	}
}

func TestAJobOwedAnewIsToldApartFromEveryEarlierOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	j := open(t, path)
	seen := map[int64]bool{}
	once := func(j *Journal) {
		t.Helper()
		steps(t, j, owe("ack", "a", noon, ""))
		jb, _ := job(t, j, "ack", "a")
		if seen[jb.Gen] {
			t.Errorf("number %d was given before: an end of the earlier job would take this one", jb.Gen)
		}
		seen[jb.Gen] = true
	}
	once(j)
	once(j)
	steps(t, j, func(tx *Tx) error { return tx.Settle("ack", "a") })
	once(j)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	once(open(t, path))
}

func TestJobsComeInTheOrderOfTheirTimes(t *testing.T) {
	j := open(t, "")
	steps(t, j, owe("k", "late", noon.Add(time.Hour), ""), owe("k", "third", noon, ""), owe("k", "first", noon.Add(-time.Hour), ""),
		owe("k", "second", noon.Add(-time.Nanosecond), ""), owe("k", "just not", noon.Add(time.Nanosecond), ""))
	keys, next := due(t, j, noon, 10)
	if !slices.Equal(keys, []string{"k first", "k second", "k third"}) || !next.Equal(noon.Add(time.Nanosecond)) {
		t.Errorf("due %v, next %v", keys, next)
	}
	if keys, _ := due(t, j, noon, 2); !slices.Equal(keys, []string{"k first", "k second"}) {
		t.Errorf("two of them: %v", keys)
	}
	if keys, next := due(t, j, noon.Add(-2*time.Hour), 10); len(keys) != 0 || !next.Equal(noon.Add(-time.Hour)) {
		t.Errorf("before all: %v, next %v", keys, next)
	}
}

func TestAPostponedJobIsNoLongerBegunAndCountsItsTry(t *testing.T) {
	j := open(t, "")
	steps(t, j, owe("k", "a", noon, ""), func(tx *Tx) error { return tx.Begin("k", "a") })
	if keys, next := due(t, j, noon, 10); len(keys) != 0 || !next.IsZero() {
		t.Errorf("a begun job is due again: %v, %v", keys, next)
	}
	steps(t, j, func(tx *Tx) error { return tx.Postpone("k", "a", noon.Add(time.Minute)) })
	if jb, _ := job(t, j, "k", "a"); jb.Begun || jb.Tries != 1 || !jb.Due.Equal(noon.Add(time.Minute)) {
		t.Errorf("postponed: %+v", jb)
	}
	if keys, next := due(t, j, noon, 10); len(keys) != 0 || !next.Equal(noon.Add(time.Minute)) {
		t.Errorf("due %v, next %v", keys, next)
	}
}

func TestABegunJobIsStillBegunAfterAStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.db")
	j := open(t, path)
	steps(t, j, owe("run", "a", noon, "body"), owe("run", "b", noon, ""), func(tx *Tx) error { return tx.Begin("run", "a") })
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open(t, path)
	var jobs []Job
	if err := j.View(context.Background(), func(tx *Tx) (err error) { jobs, err = tx.Jobs("run"); return err }); err != nil {
		t.Fatal(err)
	}
	if len(jobs) != 2 || jobs[0].Key != "a" || !jobs[0].Begun || string(jobs[0].Body) != "body" || jobs[1].Begun {
		t.Errorf("after a start: %+v", jobs)
	}
}
