package journal

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestAnotherFileIsRefusedAndLeftAsItIs(t *testing.T) {
	foreign := func(statements string) func(path string) error {
		return func(path string) error {
			db, err := sql.Open("sqlite", path)
			if err != nil {
				return err
			}
			defer db.Close()
			_, err = db.Exec(statements)
			return err
		}
	}
	for name, make := range map[string]func(path string) error{
		"no database": func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat("not a database ", 500)), 0o600)
		},
		"other program":   foreign("CREATE TABLE t (x); PRAGMA user_version = 1"),
		"other id":        foreign("CREATE TABLE t (x); PRAGMA application_id = 7; PRAGMA user_version = 1"),
		"later layout":    foreign(fmt.Sprintf("CREATE TABLE t (x); PRAGMA application_id = %d; PRAGMA user_version = %d", application, layout+1)),
		"without version": foreign("CREATE TABLE t (x)"),
	} {
		path := filepath.Join(t.TempDir(), "j.db")
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		j, err := Open(path)
		if err == nil {
			j.Close()
		}
		if !errors.Is(err, ErrLayout) {
			t.Errorf("%s: %v, want ErrLayout", name, err)
		}
	}
}

func TestTheFileIsItsOwnersAlone(t *testing.T) {
	for _, name := range []string{"j.db", "a b?c#d%25e.db"} { // signs that mean something in an address
		path := filepath.Join(t.TempDir(), name)
		j := open(t, path)
		if err := j.Turn(context.Background(), add("k", 1)); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{path, path + "-wal", path + "-shm"} {
			info, err := os.Stat(p)
			if err != nil {
				t.Fatal(err)
			}
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v", filepath.Base(p), info.Mode())
			}
		}
	}
}

func TestOnlyTheLastOneToOpenAFileWrites(t *testing.T) { // B024
	path := filepath.Join(t.TempDir(), "j.db")
	old := open(t, path)
	if err := old.Turn(context.Background(), add("k", 1)); err != nil {
		t.Fatal(err)
	}
	late := open(t, path)
	for range 3 {
		if err := old.Turn(context.Background(), add("k", 1)); !errors.Is(err, ErrTaken) {
			t.Errorf("the first writer: %v, want ErrTaken", err)
		}
		if err := late.Turn(context.Background(), add("k", 1)); err != nil {
			t.Errorf("the last writer: %v", err)
		}
	}
	if got := value(t, late, "k"); got != 4 || late.Head() != 4 {
		t.Errorf("counted %d, head %d", got, late.Head())
	}
	if err := late.Verify(context.Background()); err != nil {
		t.Error(err)
	}
}

func TestABackupIsAWholeJournal(t *testing.T) {
	for _, path := range []string{"", filepath.Join(t.TempDir(), "j.db")} {
		j := open(t, path)
		for range 5 {
			if err := j.Turn(context.Background(), add("k", 1)); err != nil {
				t.Fatal(err)
			}
		}
		to := filepath.Join(t.TempDir(), "copy.db")
		if err := j.Backup(context.Background(), to); err != nil {
			t.Fatal(err)
		}
		if err := j.Backup(context.Background(), to); err == nil {
			t.Error("a backup was written over")
		}
		if err := j.Turn(context.Background(), add("k", 1)); err != nil {
			t.Fatalf("beside a backup: %v", err)
		}
		c := open(t, to)
		if got := value(t, c, "k"); got != 5 || c.Head() != 5 {
			t.Errorf("the copy counts %d, head %d", got, c.Head())
		}
		if err := c.Verify(context.Background()); err != nil {
			t.Error(err)
		}
		if err := c.Turn(context.Background(), add("k", 1)); err != nil {
			t.Errorf("the copy does not go on: %v", err)
		}
	}
}

func TestDiskFullIsCleanAndPasses(t *testing.T) { // F3
	j := open(t, filepath.Join(t.TempDir(), "j.db"))
	if err := j.Turn(context.Background(), add("k", 1)); err != nil {
		t.Fatal(err)
	}
	fill(t, j, 2)
	if err := j.Turn(context.Background(), big); !errors.Is(err, ErrFull) {
		t.Fatalf("full disk: %v, want ErrFull", err)
	}
	if got := value(t, j, "k"); got != 1 || j.Head() != 1 {
		t.Fatalf("after a refused turn: %d, head %d", got, j.Head())
	}
	if _, err := j.write.Exec("PRAGMA max_page_count = 1000000"); err != nil {
		t.Fatal(err)
	}
	if err := j.Turn(context.Background(), big); err != nil {
		t.Fatalf("with space again: %v", err)
	}
	if err := j.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestSIGKILLLosesNothingAcknowledged starts itself as a writer that prints
// each acknowledged turn, and kills it.
func TestSIGKILLLosesNothingAcknowledged(t *testing.T) {
	if path := os.Getenv("JOURNAL_CHILD"); path != "" {
		child(path)
	}
	path := filepath.Join(t.TempDir(), "j.db")
	acked := 0
	for round := range 10 {
		before := acked
		cmd := exec.Command(os.Args[0], "-test.run=^TestSIGKILLLosesNothingAcknowledged$")
		cmd.Env = append(os.Environ(), "JOURNAL_CHILD="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for n := 0; lines.Scan(); n++ {
			acked++
			if n == 120 {
				cmd.Process.Kill()
			}
		}
		cmd.Wait()
		if acked-before <= 120 {
			t.Fatalf("round %d: the writer ended by itself after %d turns", round, acked-before)
		}
	}
	j := open(t, path)
	if err := j.Verify(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := value(t, j, "k"); got < acked || int(j.Head()) != got || acked == 0 {
		t.Fatalf("%d acknowledged, %d there, head %d", acked, got, j.Head())
	}
}

func child(path string) {
	j, err := Open(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var mu sync.Mutex
	for range 8 {
		go func() {
			for {
				if err := j.Turn(context.Background(), add("k", 1)); err != nil {
					os.Exit(1)
				}
				mu.Lock()
				fmt.Println("acked")
				mu.Unlock()
			}
		}()
	}
	select {}
}

// A torn last write: the log ends anywhere, as after a power cut before its flush.
func TestATornLogKeepsWholeTurnsFromTheFirst(t *testing.T) { // F3
	dir := t.TempDir()
	path := filepath.Join(dir, "j.db")
	j := open(t, path)
	for range 6 {
		if err := j.Turn(context.Background(), add("k", 1)); err != nil {
			t.Fatal(err)
		}
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[Seq]bool{}
	cut := func(name string, log []byte) {
		torn := filepath.Join(t.TempDir(), "j.db")
		if err := errors.Join(os.WriteFile(torn, file, 0o600), os.WriteFile(torn+"-wal", log, 0o600)); err != nil {
			t.Fatal(err)
		}
		k, err := Open(torn)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		defer k.Close()
		if err := k.Verify(context.Background()); err != nil || value(t, k, "k") != int(k.Head()) {
			t.Errorf("%s: counted %d, head %d, %v", name, value(t, k, "k"), k.Head(), err)
		}
		seen[k.Head()] = true
		if err := k.Turn(context.Background(), add("k", 1)); err != nil {
			t.Errorf("%s: does not go on: %v", name, err)
		}
	}
	const frame = 4096 + 24 // a page and its head; before them the log's head of 32
	for n := len(log); n > 32; n -= frame/2 + 7 {
		cut(fmt.Sprintf("ends at %d of %d", n, len(log)), log[:n])
	}
	scrambled := append([]byte(nil), log...)
	scrambled[len(log)-frame/2] ^= 1
	cut("a bit of the last page turned", scrambled)
	if !seen[6] || !seen[5] || !seen[0] {
		t.Errorf("heads seen: %v, want some of every length", seen)
	}
}
