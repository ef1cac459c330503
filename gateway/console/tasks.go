package console

import (
	"net/http"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
)

// taskLine is one task on the list.
type taskLine struct {
	gateway.TaskView
	Next    string // who acts next, in words
	Due     string
	Command string // what a person can type: takes a counter-proposal up, fetches the result
}

// takeUp is how a counter-proposal is answered: in a terminal, since the answer
// is a proposal of ours and a session sends nothing (G9).
func takeUp(t gateway.TaskView) string {
	if t.Counter == nil || t.Counter.Answered != "" {
		return ""
	}
	return "sealbridge propose --counter " + shortOf(t.TaskID)
}

func shortOf(id string) string { return id[max(0, len(id)-4):] }

// next names who acts next, and what a person can do about it.
func next(t gateway.TaskView) string {
	switch {
	case t.Waiting != "":
		return t.Waiting
	case t.NextActor == "":
		return ""
	case t.Mine:
		return "this gateway"
	}
	return t.With
}

// tasks lists tasks, those that wait for the person first, then by who acts.
func (s *Server) tasks(v *visit) error {
	ts, err := s.Gateway.Tasks(v.Context(), owner, gateway.None{})
	if err != nil {
		return err
	}
	var b struct{ You, Open, Ended []taskLine }
	for _, t := range ts {
		l := taskLine{t, next(t), s.clock(t.Deadline), ""}
		switch {
		case t.Waiting != "":
			b.You = append(b.You, l)
		case l.Next != "":
			b.Open = append(b.Open, l)
		case len(b.Ended) < maxCards:
			b.Ended = append(b.Ended, l)
		}
	}
	return s.render(v, http.StatusOK, "tasks", "tasks", "Tasks", b)
}

// taskPage is one task whole.
type taskPage struct {
	taskLine
	Short  string
	Days   []day
	Meters []meter
	Files  []file
	Moving []moving
	Why    *why     // every no that there was, and who acts next
	Drawn  *drawing // the tree that the task stands in
	Ends   bool     // whether the person can end it from here
	Token  string
}

type day struct {
	Date    string
	Moments []moment
}

type moment struct {
	Mine             bool
	Who, Time        string
	Kind, Text, More string
	Note             string // ours
}

// moving is a file on its way; Used is its share of a hundred.
type moving struct {
	Name, Way, Text, Why string
	Used                 int64
}

// meter is one bar: shares of a hundred.
type meter struct {
	Word, Text, Source string
	Used, Held         int64
}

func (s *Server) task(v *visit) error {
	t, err := s.Gateway.Task(v.Context(), owner, gateway.Ref{Task: v.PathValue("task")})
	if err != nil {
		return err
	}
	p := taskPage{taskLine: taskLine{t, next(t), s.clock(t.Deadline), takeUp(t)}, Short: shortOf(t.TaskID),
		Ends: t.Role == manifest.Requester && t.NextActor != "", Token: v.session.token}
	for _, m := range t.History {
		p.add(t, m, m.At.In(s.Zone))
	}
	for _, m := range policy.Meters() {
		if b, ok := t.Budget[string(m)]; ok {
			p.Meters = append(p.Meters, bar(m, b))
		}
	}
	p.Drawn = draw(t.Tree)
	if p.Why, err = s.why(v.Context(), t.TaskID); err != nil {
		return err
	}
	for _, f := range t.Artifacts {
		p.Files = append(p.Files, file{f.Name, manifest.Display(f.Name, 255), f.Digest, manifest.Display(f.MediaType, 100), approval.Size(f.Size)})
	}
	for _, f := range t.Transfers {
		m := moving{Name: manifest.Display(f.Name, 255), Way: "to " + t.With, Text: approval.Size(f.Bytes) + " of " + approval.Size(f.Size), Why: manifest.Display(f.Why, 100)}
		if f.Way == "in" {
			m.Way = "from " + t.With
		}
		if f.Size > 0 {
			m.Used = f.Bytes * 100 / f.Size
		}
		p.Moving = append(p.Moving, m)
	}
	if t.Released {
		p.Command = "sealbridge task result " + p.Short + " -o out/"
	}
	return s.render(v, http.StatusOK, "task", "tasks", t.Title, p)
}

// cancel ends a task that we asked for. It is a no like any other: it lets nothing
// happen (H4), and a second time it is a harmless repeat.
func (s *Server) cancel(v *visit) error {
	t, err := s.Gateway.Cancel(v.Context(), owner, gateway.Cancellation{Task: v.PathValue("task"), Reason: v.PostFormValue("reason")})
	if err != nil {
		return err
	}
	http.Redirect(v.w, v.Request, "/tasks/"+t.TaskID, http.StatusSeeOther)
	return nil
}

// add puts an event on the line of its day.
func (p *taskPage) add(t gateway.TaskView, m gateway.Moment, at time.Time) {
	date := at.Format("Mon 2 January 2006, MST")
	if n := len(p.Days); n == 0 || p.Days[n-1].Date != date {
		p.Days = append(p.Days, day{Date: date})
	}
	d := &p.Days[len(p.Days)-1]
	one := moment{Mine: m.Author == t.Role, Who: t.With, Time: at.Format("15:04:05"), Kind: string(m.Kind), Text: m.Text, Note: m.Note, More: m.Digest}
	if one.Mine {
		one.Who = "you"
	}
	d.Moments = append(d.Moments, one)
}

func bar(m policy.Meter, b gateway.Balance) meter {
	word := map[policy.Meter]string{policy.InputTokens: "tokens in", policy.OutputTokens: "tokens out", policy.ToolInvocations: "tool calls", policy.WallClockSeconds: "work"}[m]
	say := approval.Figure
	if m == policy.WallClockSeconds {
		say = func(n int64) string { return approval.Span(time.Duration(n) * time.Second) }
	}
	x := meter{Word: word, Text: say(b.Committed) + " of " + say(b.Limit), Source: b.Source}
	if b.Reserved > 0 {
		x.Text = say(b.Committed) + " and " + say(b.Reserved) + " reserved, of " + say(b.Limit)
	}
	if b.Limit > 0 {
		x.Used = min(100, b.Committed*100/b.Limit)
		x.Held = min(100-x.Used, b.Reserved*100/b.Limit)
	}
	return x
}
