package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy"
)

var watched = time.Date(2026, 11, 30, 10, 31, 0, 0, time.UTC)

func view() gateway.TaskView {
	at := func(m, s int) time.Time { return time.Date(2026, 11, 30, 10, m, s, 0, time.UTC) }
	return gateway.TaskView{TaskID: "task_01KBQ4T9YJ6W2M8Z3R5X7CQW7F", Role: manifest.Requester, Title: "Revenue per region, November", With: "Ben", State: "working", NextActor: "worker",
		Deadline: watched.Add(47*time.Hour + 59*time.Minute),
		History: []gateway.Moment{
			{Author: manifest.Requester, Seq: 1, Kind: "proposed", At: at(15, 2), Note: "passphrase; 3 files"},
			{Author: manifest.Worker, Seq: 1, Kind: "accepted", At: at(21, 40), Note: "passkey; boxed: subprocess_restricted, enforced by its gateway"},
			{Author: manifest.Worker, Seq: 2, Kind: "started", At: at(21, 41)},
			{Author: manifest.Worker, Seq: 3, Kind: "progressed", At: at(30, 55), Text: "2 of 3 files read"},
		},
		Budget: map[string]gateway.Balance{string(policy.InputTokens): {Limit: 200000, Committed: 61204, Source: "metered"},
			string(policy.OutputTokens): {Limit: 20000, Committed: 3900, Reserved: 100, Source: "metered"}, string(policy.ToolInvocations): {Limit: 40, Committed: 12}, string(policy.WallClockSeconds): {Limit: 900, Committed: 250}}}
}

func TestThePictureOfATask(t *testing.T) {
	want := `Revenue per region, November                        with Ben · due in 1 d 23 h · QW7F
WORKING   next: Ben   (nothing for you)
  10:15:02  you      proposed     passphrase; 3 files
  10:21:40  Ben      accepted     passkey; boxed: subprocess_restricted, enforced by…
  10:21:41  Ben      started
  10:30:55  Ben      progressed   ┆ 2 of 3 files read

  in    ████░░░░░░░░░░░░    61k of  200k  metered by Ben       calls  12 of 40
  out   ███░░░░░░░░░░░░░     4k of   20k  metered by Ben       time   4 m of 15 m
^C leaves; the task goes on. Ends with exit 0 completed, 1 otherwise.`
	if got := strings.Join(frame(view(), 85, 24, watched, time.UTC), "\n"); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
}

// A large file on its way is shown in bytes of the whole, both ways, and why it stands still.
func TestThePictureShowsFilesOnTheirWay(t *testing.T) {
	v := view()
	v.Transfers = []gateway.TransferView{{Name: "big.bin", Way: "in", Bytes: 1 << 29, Size: 1 << 30}, {Name: "a\u202eb.csv", Way: "out", Bytes: 0, Size: 812, Why: "disk"},
		{Name: "c", Way: "out", Size: 1}, {Name: "d", Way: "out", Size: 1}, {Name: "e", Way: "out", Size: 1}, {Name: "f", Way: "out", Size: 1}}
	picture := frame(v, 120, 24, watched, time.UTC)
	want := `
  from Ben     ████████░░░░░░░░  536.9 MB of 1.1 GB   big.bin
  to Ben       ░░░░░░░░░░░░░░░░  0 B of 812 B   a⟨U+202E⟩b.csv   stands still (disk), goes on by itself
  to Ben       ░░░░░░░░░░░░░░░░  0 B of 1 B   c
  to Ben       ░░░░░░░░░░░░░░░░  0 B of 1 B   d
  … 2 files more`
	if got := strings.Join(picture, "\n"); !strings.Contains(got, want+"\n") {
		t.Errorf("\n%s\nwant in it%s", got, want)
	}
}

func TestTheStateNamesWhoActsAndWhatHappensByItself(t *testing.T) {
	for _, c := range []struct {
		mend func(*gateway.TaskView)
		want string
	}{
		{func(*gateway.TaskView) {}, "WORKING   next: Ben   (nothing for you)"},
		{func(v *gateway.TaskView) {
			v.State, v.Mine, v.Waiting = "delivered", true, "you (delivery, ask 9T4C)"
			v.Gates = []gateway.GateView{{AskID: "apr_x", Gate: "contract", State: "allowed"}, {AskID: "apr_01KBQ4T9YJ6W2M8Z3R5X7C9T4C", Gate: "delivery", State: "open", Until: watched.Add(71 * time.Hour).Format(time.RFC3339)}}
		}, "WAITING   next: you (delivery, ask 9T4C, no in 2 d 23 h)"},
		{func(v *gateway.TaskView) { v.State, v.Mine = "delivered", true }, "DELIVERED   next: this gateway"},
		{func(v *gateway.TaskView) { v.State, v.Outcome, v.NextActor = "completed", "completed", "" }, "COMPLETED"},
		{func(v *gateway.TaskView) { v.State, v.Outcome, v.NextActor = "dropped", "gate-denied", "" }, "DROPPED"},
	} {
		v := view()
		c.mend(&v)
		if got := stateLine(v, watched); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A picture that is drawn again has to fit the screen, whatever is in it.
func TestNoPictureIsWiderOrHigherThanTheScreen(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		v := view()
		v.Title, v.With = rapid.StringN(0, 200, 800).Draw(r, "title"), rapid.StringN(1, 64, 256).Draw(r, "with")
		v.Title, v.With = manifest.Display(v.Title, 200), manifest.Display(v.With, 64)
		for range rapid.IntRange(0, 60).Draw(r, "events") {
			v.History = append(v.History, v.History[len(v.History)-1])
		}
		v.Budget[string(policy.InputTokens)] = gateway.Balance{Limit: rapid.Int64Range(0, 1e9).Draw(r, "limit"), Committed: rapid.Int64Range(0, 1e9).Draw(r, "used"), Source: "metered"}
		width, height := rapid.IntRange(30, 100).Draw(r, "width"), rapid.IntRange(12, 60).Draw(r, "height")
		lines := frame(v, width, height, watched, time.UTC)
		if len(lines) >= height {
			r.Fatalf("%d lines on %d", len(lines), height)
		}
		for _, l := range lines {
			if n := len([]rune(l)); n > width || strings.ContainsAny(l, "\n\r\x1b") {
				r.Fatalf("%d columns on %d: %q", n, width, l)
			}
		}
	})
}

func TestABarIsFullOnlyWhenAllIsUsed(t *testing.T) {
	for _, c := range []struct {
		used, limit int64
		full        int
	}{{0, 100, 0}, {1, 1000, 1}, {50, 100, 8}, {999, 1000, 15}, {1000, 1000, 16}, {2000, 1000, 16}, {0, 0, 0}} {
		if got := strings.Count(cells(c.used, c.limit, 16), "█"); got != c.full {
			t.Errorf("%d of %d: %d cells, want %d", c.used, c.limit, got, c.full)
		}
	}
}

func TestFiguresAndSpansForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 812: "812", 61204: "61k", 1_000_000: "1M", 1_250_000: "1.2M", 100_000_000: "100M"} {
		if got := amount(n); got != want {
			t.Errorf("amount(%d) = %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-time.Hour: "0 s", 0: "0 s", 12 * time.Second: "12 s", 250 * time.Second: "4 m", time.Hour: "1 h", 90 * time.Minute: "1 h 30 m",
		47 * time.Hour: "1 d 23 h", 48*time.Hour + 5*time.Minute: "2 d"} {
		if got := span(d); got != want {
			t.Errorf("span(%s) = %s, want %s", d, got, want)
		}
	}
}

// In a pipe each event is one line, said once; the state is said when it is another one.
func TestInAPipeEachEventIsSaidOnce(t *testing.T) {
	var out bytes.Buffer
	a := newApp(nil, &out, &bytes.Buffer{})
	a.now = func() time.Time { return watched }
	w := watcher{app: a, live: a.live()}
	v := view()
	whole := v.History
	for _, n := range []int{0, 1, 1, 4, 4} {
		v.History = whole[:n]
		if err := w.show(v); err != nil {
			t.Fatal(err)
		}
	}
	v.State, v.Outcome, v.NextActor = "completed", "completed", ""
	if err := w.show(v); err != nil {
		t.Fatal(err)
	}
	got := out.String()
	if strings.Count(got, "\n") != 6 || strings.Count(got, "WORKING") != 1 || !strings.HasSuffix(got, "COMPLETED\n") || strings.Contains(got, "\x1b") {
		t.Errorf("%s", got)
	}
	out.Reset()
	a.json = true
	w = watcher{app: a, live: a.live()}
	if err := w.show(v); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 4 || !strings.HasPrefix(lines[0], `{"author":"requester","seq":1,"kind":"proposed"`) {
		t.Errorf("%s", out.String())
	}
}

// On a terminal the next picture stands where the last one stood.
func TestAPictureIsDrawnOverTheLast(t *testing.T) {
	var out bytes.Buffer
	a := newApp(nil, &out, &bytes.Buffer{})
	a.now = func() time.Time { return watched }
	w := watcher{app: a, live: true}
	for range 2 {
		if err := w.show(view()); err != nil {
			t.Fatal(err)
		}
	}
	one := w.lines
	if got := out.String(); strings.Count(got, "\x1b[") != 2 || !strings.Contains(got, fmt.Sprintf("\x1b[%dA\r\x1b[J", one)) || strings.Count(got, footer[:20]) != 2 {
		t.Errorf("%q", got)
	}
}
