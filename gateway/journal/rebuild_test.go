package journal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// apply is one rule for live turns and for a fold: "put group n" or "delete".
func apply(tx *Tx, r Record) error {
	var verb, group string
	var n int
	if _, err := fmt.Sscan(string(r.Body), &verb, &group, &n); err != nil {
		return err
	}
	if verb == "delete" {
		return counter.Delete(tx, r.Key)
	}
	v, _, err := counter.Get(tx, r.Key)
	if err != nil {
		return err
	}
	return counter.Put(tx, r.Key, group, v*3+n) // order matters
}

func dump(t rapid.TB, j *Journal) (out string) {
	err := j.View(context.Background(), func(tx *Tx) error {
		all, err := counter.All(tx)
		for _, group := range []string{"g", "h"} {
			rows, e := counter.Group(tx, group)
			n, e2 := counter.Count(tx, group)
			if n != len(rows) {
				t.Errorf("group %s counts %d of %d rows", group, n, len(rows))
			}
			out += fmt.Sprint(group, rows, ";")
			err = errors.Join(err, e, e2)
		}
		out += fmt.Sprint(all)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRebuildMakesTheTablesThatTheTurnsMade(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		j, err := Open("")
		if err != nil {
			rt.Fatal(err)
		}
		defer j.Close()
		n := rapid.IntRange(1, 25).Draw(rt, "turns")
		for i := range n {
			r := Record{Kind: "k", At: time.Unix(int64(i), 0), Key: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key")}
			r.Body = fmt.Appendf(nil, "%s %s %d", rapid.SampledFrom([]string{"put", "put", "delete"}).Draw(rt, "verb"), rapid.SampledFrom([]string{"g", "h"}).Draw(rt, "group"), i)
			fails := rapid.IntRange(0, 4).Draw(rt, "fails") == 0
			err := j.Turn(context.Background(), func(tx *Tx) error {
				if _, err := tx.Append(r); err != nil {
					return err
				}
				if err := apply(tx, r); err != nil || !fails {
					return err
				}
				return &refusal{"not this one"}
			})
			if (err != nil) != fails {
				rt.Fatal(err)
			}
		}
		before := dump(rt, j)
		for range 2 { // and again: it is the same each time
			if err := j.Rebuild(context.Background(), apply); err != nil {
				rt.Fatal(err)
			}
			if after := dump(rt, j); after != before {
				rt.Fatalf("%s, rebuilt %s", before, after)
			}
		}
		if err := j.Verify(context.Background()); err != nil {
			rt.Error(err)
		}
	})
}

func TestAFoldThatFailsLeavesTheTablesAsTheyWere(t *testing.T) {
	j := open(t, "")
	for range 3 {
		if err := j.Turn(context.Background(), add("k", 1)); err != nil {
			t.Fatal(err)
		}
	}
	stop := errors.New("stop")
	for name, fold := range map[string]func(*Tx, Record) error{
		"an error": func(tx *Tx, r Record) error {
			if r.Seq == 2 {
				return stop
			}
			return counter.Put(tx, r.Key, "all", 99)
		},
		"an append": func(tx *Tx, r Record) error { _, err := tx.Append(r); return err },
		"a panic":   func(*Tx, Record) error { panic("fold") },
	} {
		if err := j.Rebuild(context.Background(), fold); err == nil {
			t.Errorf("%s: rebuilt", name)
		}
		if value(t, j, "k") != 3 || j.Head() != 3 {
			t.Errorf("%s: counted %d, head %d", name, value(t, j, "k"), j.Head())
		}
	}
}

func TestRebuildAndVerifyGoPastOnePage(t *testing.T) {
	j := open(t, "")
	const n = 2*pageSize + 1
	err := j.Turn(context.Background(), func(tx *Tx) error {
		for range n {
			if err := add("k", 1)(tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Verify(context.Background()); err != nil {
		t.Error(err)
	}
	err = j.Rebuild(context.Background(), func(tx *Tx, r Record) error {
		v, _, err := counter.Get(tx, r.Key)
		return errors.Join(err, counter.Put(tx, r.Key, "all", v+1))
	})
	if err != nil || value(t, j, "k") != n {
		t.Errorf("rebuilt %d of %d: %v", value(t, j, "k"), n, err)
	}
}

func TestRecordsComeInOrderByPlaceAndByKey(t *testing.T) {
	j := open(t, "")
	for i := range 6 {
		if err := j.Turn(context.Background(), add([]string{"a", "b"}[i%2], i)); err != nil {
			t.Fatal(err)
		}
	}
	err := j.View(context.Background(), func(tx *Tx) error {
		page, err := tx.Records(2, 3)
		if err != nil || len(page) != 3 || page[0].Seq != 3 || page[2].Seq != 5 || page[1].Prev != page[0].Digest {
			t.Errorf("three after the second: %v %v", page, err)
		}
		of, err := tx.RecordsOf("b")
		if err != nil || len(of) != 3 || of[0].Seq != 2 || of[2].Seq != 6 || string(of[2].Body) != "5" || !of[0].At.Equal(time.Unix(1, 0)) || of[0].At.Location() != time.UTC {
			t.Errorf("of b: %v %v", of, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestARewrittenRecordBreaksTheOneAfterIt(t *testing.T) { // B023
	j := open(t, "")
	for range 6 {
		if err := j.Turn(context.Background(), add("k", 1)); err != nil {
			t.Fatal(err)
		}
	}
	var third Record
	err := j.View(context.Background(), func(tx *Tx) error {
		rs, err := tx.Records(2, 1)
		third = rs[0]
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	third.Body = []byte("1000")
	third.Digest = third.sum() // fits by itself, and the next one is made to name it
	if _, err := j.write.Exec("UPDATE records SET body = ?, digest = ? WHERE seq = 3", third.Body, third.Digest[:]); err != nil {
		t.Fatal(err)
	}
	if _, err := j.write.Exec("UPDATE records SET prev = ? WHERE seq = 4", third.Digest[:]); err != nil {
		t.Fatal(err)
	}
	if err := j.Verify(context.Background()); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "record 4 ") {
		t.Errorf("%v, want record 4 named", err)
	}
}
