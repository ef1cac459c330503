package console

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/signing"
)

// card is one ask on a page.
type card struct {
	approval.Sheet
	ID        string
	State     string // open, allowed, denied, expired, withdrawn
	Task      string
	Title     string          // of the task, in the requester's words
	Of        string          // the same, on a page whose quotes do not have it
	New       []approval.Line // what a yes newly permits, and what is checked
	Cannot    []approval.Line
	Confirmed bool
	Closed    string
	Why       string // of a no, the person's words; else what took the ask away
	Votes     string // yeses so far, where several are needed
	Files     []file
	Output    []string // the structured output of a delivery, escaped
	Allow     allowing
	Terms     []term // that a no can change; none where it cannot
	Token     string
}

type file struct{ Name, Shown, Digest, Type, Size string }

// Brief is the digest as cards write it.
func (f file) Brief() string {
	d, err := signing.ParseDigest(f.Digest)
	if err != nil {
		return ""
	}
	return d.Short()
}

func (s *Server) card(v *visit, a gateway.AskView) card {
	c := card{Sheet: a.Ask.Sheet(s.Now(), s.Zone), ID: a.Ask.AskID.String(), State: a.State, Task: a.Task, Title: a.Ask.Title(), Confirmed: a.Ask.From.Confirmed,
		Closed: s.clock(a.Closed), Why: manifest.Display(a.Why, 1000), Token: v.session.token}
	if a.Ask.Need > 1 {
		c.Votes = fmt.Sprintf("%d of %d people have said yes; one no is enough", a.Votes, a.Ask.Need)
	}
	for _, l := range a.Ask.Lines {
		if l.Mark == approval.Cannot {
			c.Cannot = append(c.Cannot, l)
		} else {
			c.New = append(c.New, l)
		}
	}
	return c
}

// waiting is the first page: what waits for the person, the soonest no first.
func (s *Server) waiting(v *visit) error { return s.list(v, false) }

// decided lists what was settled, newest first.
func (s *Server) decided(v *visit) error { return s.list(v, true) }

func (s *Server) list(v *visit, settled bool) error {
	as, err := s.Gateway.Asks(v.Context(), owner, settled)
	if err != nil {
		return err
	}
	slices.SortStableFunc(as, func(a, b gateway.AskView) int {
		if settled {
			return b.Closed.Compare(a.Closed)
		}
		return a.Ask.Until.Time().Compare(b.Ask.Until.Time())
	})
	var l struct {
		Cards  []card
		More   int        // that the page has no room for
		Other  []taskLine // counter-proposals of the other side
		Stand  []standing
		Policy bool // a change of the owner's rules waits (G12)
	}
	for _, a := range as {
		switch open := a.State == string(approval.Waiting); {
		case settled == open:
		case len(l.Cards) == maxCards:
			l.More++
		default:
			l.Cards = append(l.Cards, s.card(v, a))
		}
	}
	if err := s.titles(v, l.Cards); err != nil {
		return err
	}
	if settled {
		if l.Stand, err = s.standings(v); err != nil {
			return err
		}
		return s.render(v, http.StatusOK, "decided", "waiting", "Decided", l)
	}
	ts, err := s.Gateway.Counters(v.Context(), owner, gateway.None{})
	if err != nil {
		return err
	}
	p, err := s.Gateway.Policy(v.Context(), owner, gateway.None{})
	if err != nil {
		return err
	}
	l.Policy = p.Waiting != nil
	for _, t := range ts {
		l.Other = append(l.Other, taskLine{TaskView: t, Command: takeUp(t)})
	}
	return s.render(v, http.StatusOK, "waiting", "waiting", "Waiting for you", l)
}

// titles fills in which task an ask is about where it does not say so itself: a delivery's.
func (s *Server) titles(v *visit, cards []card) error {
	if !slices.ContainsFunc(cards, func(c card) bool { return c.Title == "" }) {
		return nil
	}
	ts, err := s.Gateway.Tasks(v.Context(), owner, gateway.None{})
	of := map[string]string{}
	for _, t := range ts {
		of[t.TaskID] = t.Title
	}
	for i := range cards {
		if cards[i].Title == "" {
			cards[i].Title = of[cards[i].Task]
		}
	}
	return err
}

const maxCards = 200 // of a list; the rest is counted, and has its place on the page of its task

// find is the ask of a path, by its whole id.
func (s *Server) find(v *visit) (gateway.AskView, error) {
	return s.Gateway.Ask(v.Context(), owner, v.PathValue("ask"))
}

// ask is one question whole: the difference first, their words below.
func (s *Server) ask(v *visit) error {
	a, err := s.find(v)
	if err != nil {
		return err
	}
	return s.askPage(v, http.StatusOK, a, "")
}

func (s *Server) askPage(v *visit, status int, a gateway.AskView, said string) error {
	c := s.card(v, a)
	allow, err := s.allowing(v, a.Ask)
	if err != nil {
		return err
	}
	c.Allow, c.Terms = allow, termsOf(a.Ask, v.PostFormValue)
	c.delivery(a.Ask)
	if one := []card{c}; c.Title == "" {
		if err := s.titles(v, one); err != nil {
			return err
		}
		c.Of = one[0].Title
	}
	return s.render(v, status, "ask", "waiting", c.Question, struct {
		Card card
		Said string
	}{c, said})
}

// delivery lists what can be opened in quarantine (G14).
func (c *card) delivery(a approval.Ask) {
	if a.Delivery.IsZero() {
		return
	}
	list, _ := a.Delivery.At("/artifacts")
	for f := range list.Items() {
		text := func(name string) string { m, _ := f.Member(name); t, _ := m.Text(); return t }
		n, _ := f.Member("sizeBytes")
		bytes, _ := n.Int()
		name := text("name")
		c.Files = append(c.Files, file{name, manifest.Display(name, 255), text("digest"), manifest.Display(text("mediaType"), 100), approval.Size(bytes)})
	}
	if out, ok := a.Delivery.At("/output"); ok {
		c.Output = manifest.DisplayLines(out.String(), 400, 20_000)
	}
}

// deny takes the person's no.
func (s *Server) deny(v *visit) error {
	a, err := s.find(v)
	if err != nil {
		return err
	}
	return s.answered(v, a, gateway.Denial{Reason: v.PostFormValue("reason")})
}

// open hands the person one file of a delivery, in quarantine: for saving, never
// for showing in this origin.
func (s *Server) open(v *visit) error {
	a, err := s.find(v)
	if err != nil {
		return err
	}
	f, r, err := s.Gateway.Peek(v.Context(), owner, gateway.Peek{Ask: a.Ask.AskID.String(), Name: v.PostFormValue("name")})
	if err != nil {
		return err
	}
	defer r.Close()
	h := v.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": "quarantine-" + strings.ReplaceAll(path.Base(f.Name), "%", "_")}))
	h.Set("Content-Length", strconv.FormatInt(f.Size, 10))
	io.Copy(v.w, r) //nolint:errcheck // the browser is gone
	return nil
}
