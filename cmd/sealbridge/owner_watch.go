package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"sealbridge/gateway"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

func taskWatch(a *app) *cobra.Command {
	var limit, dir string
	c := &cobra.Command{Use: "watch TASK", Short: "follow a task to its end; the exit code is the outcome", Args: cobra.ExactArgs(1),
		Example: "  sealbridge task watch QW7F\n  sealbridge task watch QW7F --timeout 10m --json",
		RunE: func(c *cobra.Command, args []string) error {
			_, cl, err := a.client()
			if err != nil {
				return err
			}
			most, err := spanOf("--timeout", limit)
			if err != nil {
				return err
			}
			return a.waitFor(c.Context(), cl, args[0], wait{dir: dir, most: most})
		}}
	c.Flags().StringVar(&limit, "timeout", "", "stop waiting after this; exit 5, and the task goes on")
	c.Flags().StringVarP(&dir, "out", "o", "", "a new folder for the result")
	return c
}

// spanOf reads a span of time that may be absent.
func spanOf(flag, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := manifest.ParseSpan(text)
	return d, spec.At(flag, err)
}

// wait says how a task is waited for.
type wait struct {
	dir    string                 // a new folder for the result, or ""
	most   time.Duration          // 0: to the end
	decide func(ask string) error // asks a person in line, where one sits at this terminal; nil: nobody is asked
}

// waitFor follows a task: on a terminal one picture that is drawn again, in a
// pipe one line an event, with --json one object an event. It ends with 0
// completed, 1 another end, 5 not yet; then stderr says who acts next.
func (a *app) waitFor(ctx context.Context, cl *local.Client, task string, o wait) error {
	if o.most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.most)
		defer cancel()
	}
	in := gateway.Since{Task: task}
	w := watcher{app: a, live: a.live()}
	for {
		ch, err := local.Watch.Call(ctx, cl, in)
		switch {
		case err != nil && ctx.Err() != nil:
			if w.last.TaskID != "" {
				a.note("not yet: %s%s", strings.ToUpper(w.last.State), waits(w.last))
			}
			return ended(exitNotYet)
		case err != nil:
			return err
		}
		in.After = ch.Seq
		if err := w.show(ch.Task); err != nil {
			return err
		}
		if o.decide != nil {
			if err := w.decideOnce(ch.Task, o.decide); err != nil {
				return err
			}
		}
		switch t := ch.Task; {
		case t.Outcome == "", t.Outcome == "completed" && t.Role == manifest.Requester && !t.Released:
			continue
		case t.Outcome != "completed":
			return ended(exitNo)
		}
		if o.dir != "" {
			return a.fetchResult(context.WithoutCancel(ctx), cl, task, o.dir)
		}
		return nil
	}
}

// watcher shows a task each time that something happened to it.
type watcher struct {
	*app
	live  bool // a terminal: one picture, drawn again
	last  gateway.TaskView
	shown int    // events that were printed
	state string // as it was printed
	lines int    // of the picture that stands on the screen
	asked string // the last ask that a person was shown in line
}

// decideOnce asks the person about an open ask, once: who answers later does so elsewhere.
func (w *watcher) decideOnce(t gateway.TaskView, decide func(ask string) error) error {
	for _, g := range t.Gates {
		if g.State == string(approval.Waiting) && g.AskID != w.asked {
			w.asked, w.lines = g.AskID, 0
			return decide(g.AskID)
		}
	}
	return nil
}

func (w *watcher) show(t gateway.TaskView) error {
	w.last = t
	switch {
	case w.json:
		for _, m := range t.History[w.shown:] {
			if err := w.emit(m); err != nil {
				return err
			}
		}
	case w.live:
		w.draw(t)
	default:
		for _, m := range t.History[w.shown:] {
			w.print("%s\n", moment(t, m))
		}
		if s := stateLine(t, w.now()); s != w.state {
			w.state = s
			w.print("%s\n", s)
		}
	}
	w.shown = len(t.History)
	return nil
}

// draw puts the new picture where the old one stood.
func (w *watcher) draw(t gateway.TaskView) {
	width, height := w.size()
	picture := frame(t, width, height, w.now(), time.Local)
	if w.lines > 0 {
		w.print("\x1b[%dA\r\x1b[J", w.lines)
	}
	for _, l := range picture {
		w.print("%s\n", l)
	}
	w.lines = len(picture)
}

// live says whether stdout is a terminal that can be drawn on.
func (a *app) live() bool {
	f, ok := a.out.(*os.File)
	return ok && !a.json && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

func (a *app) size() (width, height int) {
	width, height = a.width(), 24
	if f, ok := a.out.(*os.File); ok {
		if _, h, err := term.GetSize(int(f.Fd())); err == nil && h > 8 {
			height = h
		}
	}
	return width, height
}

const footer = "^C leaves; the task goes on. Ends with exit 0 completed, 1 otherwise."

// frame is the picture of a task within a terminal: no line is wider, and it is
// never higher, because only what stands on the screen can be drawn again.
func frame(t gateway.TaskView, width, height int, now time.Time, zone *time.Location) []string {
	right := "with " + t.With + " · "
	if t.Outcome == "" && !t.Deadline.IsZero() {
		right += "due in " + span(t.Deadline.Sub(now)) + " · "
	}
	right += short(t.TaskID)
	if room := width - len([]rune(right)) - 2; room < 8 {
		right = short(t.TaskID)
	}
	head := []string{apart(t.Title, right, width), clip(stateLine(t, now), width)}
	bars := append(onTheWay(t, width), barsOf(t, width)...)
	room := height - len(head) - len(bars) - 2 // the footer, and the line that the cursor stands on
	rows := make([]string, 0, len(t.History))
	for _, m := range t.History {
		rows = append(rows, clip(momentIn(t, m, zone), width))
	}
	if hidden := len(rows) - max(1, room-1); len(rows) > room && hidden > 0 {
		rows = append([]string{fmt.Sprintf("  … %d events before", hidden)}, rows[hidden:]...)
	}
	out := append(head, rows...)
	out = append(out, bars...)
	return append(out, clip(footer, width))
}

// stateLine says in which state a task is, who acts next, and what happens by itself.
func stateLine(t gateway.TaskView, now time.Time) string {
	for _, g := range t.Gates {
		if g.State != string(approval.Waiting) {
			continue
		}
		line := "WAITING   next: you (" + g.Gate + ", ask " + short(g.AskID)
		if until, err := time.Parse(time.RFC3339, g.Until); err == nil {
			line += ", no in " + span(until.Sub(now))
		}
		return line + ")"
	}
	line := strings.ToUpper(t.State) + waits(t)
	if t.Outcome == "" && t.NextActor != "" && !t.Mine {
		line += "   (nothing for you)"
	}
	return line
}

func moment(t gateway.TaskView, m gateway.Moment) string { return momentIn(t, m, time.Local) }

// momentIn is one event on one line: our reading first, then the author's words behind a rule.
func momentIn(t gateway.TaskView, m gateway.Moment, zone *time.Location) string {
	who := t.With
	if m.Author == t.Role {
		who = "you"
	}
	line := fmt.Sprintf("  %s  %-8s %-10s", m.At.In(zone).Format("15:04:05"), who, m.Kind)
	if m.Note != "" {
		line += "   " + m.Note
	}
	if m.Text != "" {
		line += "   ┆ " + m.Text
	}
	return strings.TrimRight(line, " ")
}

// maxMoving is how many files on their way are shown one by one.
const maxMoving = 4

// onTheWay shows how far the files are that come or go now.
func onTheWay(t gateway.TaskView, width int) []string {
	if len(t.Transfers) == 0 {
		return nil
	}
	out := []string{""}
	for i, f := range t.Transfers {
		if i == maxMoving {
			out = append(out, fmt.Sprintf("  … %d files more", len(t.Transfers)-i))
			break
		}
		out = append(out, clip(transferLine(t, f), width))
	}
	return out
}

// transferLine is one file on its way: bytes of the whole.
func transferLine(t gateway.TaskView, f gateway.TransferView) string {
	way := "to " + t.With
	if f.Way == "in" {
		way = "from " + t.With
	}
	line := fmt.Sprintf("  %-12s %s  %s of %s   %s", way, cells(f.Bytes, f.Size, 16), bytesOf(f.Bytes), bytesOf(f.Size), manifest.Display(f.Name, 60))
	if f.Why != "" {
		line += "   stands still (" + manifest.Display(f.Why, 60) + "), goes on by itself"
	}
	return line
}

// meters in the order and under the names of the picture.
var meters = []struct {
	of   policy.Meter
	name string
}{{policy.InputTokens, "in"}, {policy.OutputTokens, "out"}, {policy.ToolInvocations, "calls"}, {policy.WallClockSeconds, "time"}}

// barsOf shows what is used of the two kinds of tokens as bars, calls and time as figures beside them.
func barsOf(t gateway.TaskView, width int) []string {
	if len(t.Budget) == 0 {
		return nil
	}
	var left, right []string
	for _, m := range meters {
		b, ok := t.Budget[string(m.of)]
		if !ok {
			continue
		}
		used := b.Committed + b.Reserved
		source := ""
		if b.Source != "" {
			source = "  " + b.Source + " by " + workerName(t)
		}
		switch m.name {
		case "in", "out":
			left = append(left, fmt.Sprintf("  %-5s %s  %5s of %5s%s", m.name, cells(used, b.Limit, 16), amount(used), amount(b.Limit), source))
		case "time":
			right = append(right, fmt.Sprintf("%-6s %s of %s", m.name, span(time.Duration(used)*time.Second), span(time.Duration(b.Limit)*time.Second)))
		default:
			right = append(right, fmt.Sprintf("%-6s %s of %s", m.name, amount(used), amount(b.Limit)))
		}
	}
	out := []string{""}
	for i := range max(len(left), len(right)) {
		l, r := nth(left, i), nth(right, i)
		if len([]rune(l))+4+len([]rune(r)) <= width {
			out = append(out, strings.TrimRight(fmt.Sprintf("%-*s%s", width-22, l, r), " "))
			continue
		}
		for _, s := range []string{l, "  " + r} {
			if strings.TrimSpace(s) != "" {
				out = append(out, clip(s, width))
			}
		}
	}
	return out
}

func nth(list []string, i int) string {
	if i < len(list) {
		return list[i]
	}
	return ""
}

func workerName(t gateway.TaskView) string {
	if t.Role == manifest.Worker {
		return "you"
	}
	return t.With
}

// cells is a bar of n cells; something used shows at least one, and only all used fills it.
func cells(used, limit int64, n int) string {
	full := 0
	if limit > 0 {
		full = int(min(used, limit) * int64(n) / limit)
	}
	if used > 0 && full == 0 {
		full = 1
	}
	if used < limit && full == n {
		full = n - 1
	}
	return strings.Repeat("█", full) + strings.Repeat("░", n-full)
}

// amount is a count for people: 812, 61k, 1.2M.
func amount(n int64) string {
	switch {
	case n >= 10_000_000:
		return fmt.Sprintf("%dM", n/1_000_000)
	case n >= 1_000_000:
		return strings.Replace(fmt.Sprintf("%.1fM", float64(n)/1e6), ".0M", "M", 1)
	case n >= 1000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

// span is a time for people in its two greatest units: 1 d 23 h, 4 m, 12 s.
func span(d time.Duration) string {
	if d <= 0 {
		return "0 s"
	}
	s := int64(d / time.Second)
	units := []struct {
		n    int64
		name string
	}{{s / 86400, "d"}, {s % 86400 / 3600, "h"}, {s % 3600 / 60, "m"}, {s % 60, "s"}}
	for i, u := range units {
		if u.n == 0 {
			continue
		}
		text := fmt.Sprintf("%d %s", u.n, u.name)
		if i < 2 && units[i+1].n > 0 { // minutes stand alone: seconds beside them would be noise
			text += fmt.Sprintf(" %d %s", units[i+1].n, units[i+1].name)
		}
		return text
	}
	return "0 s"
}

// apart sets two texts to the edges of a line; the left one gives way.
func apart(left, right string, width int) string {
	room := width - len([]rune(right)) - 2
	left = clip(left, max(1, room))
	return left + strings.Repeat(" ", max(2, width-len([]rune(left))-len([]rune(right)))) + right
}

// clip keeps a line within a width.
func clip(s string, width int) string {
	if r := []rune(s); len(r) > width {
		return string(r[:max(0, width-1)]) + "…"
	}
	return s
}
