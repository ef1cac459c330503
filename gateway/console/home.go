package console

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/signing/jcs"
)

// contact is one pinned owner on the page.
type contact struct {
	gateway.ContactView
	Met, Key string
	Confirm  string // what a person types after comparing the words
}

// contacts lists everybody we pinned. Confirming one is a yes: it is done in a
// terminal, after the six words were compared (K2).
func (s *Server) contacts(v *visit) error {
	cs, err := s.Gateway.Contacts(v.Context(), owner, gateway.None{})
	if err != nil {
		return err
	}
	out := []contact{}
	for _, c := range cs {
		x := contact{ContactView: c, Met: s.clock(c.Since), Key: s.clock(c.KeyUntil)}
		if !c.Confirmed && !c.Blocked {
			x.Confirm = "sealbridge contact confirm " + c.Name
		}
		out = append(out, x)
	}
	wishes, err := s.Gateway.Wishes(v.Context(), owner, false)
	if err != nil {
		return err
	}
	return s.render(v, http.StatusOK, "contacts", "contacts", "Contacts", struct {
		Contacts []contact
		Wishes   []gateway.Wish
	}{out, wishes})
}

// policyPage is the owner's rules: what is in force, and what waits for a yes (G12).
type policyPage struct {
	gateway.PolicyView
	Came    string
	Asked   string   // when the change that waits was found
	File    string   // digest of policy.yaml on disk
	Problem string   // why it does not read
	Lines   []string // of policy.yaml
	Form    []string // of the policy in force as it is digested; where the file is another
}

func (s *Server) policy(v *visit) error {
	p, err := s.Gateway.Policy(v.Context(), owner, gateway.None{})
	if err != nil {
		return err
	}
	b := policyPage{PolicyView: p, Came: s.clock(p.Since)}
	if p.Waiting != nil {
		b.Asked = s.clock(p.Waiting.At)
	}
	if s.PolicyFile != nil {
		text, digest, err := s.PolicyFile()
		if b.File = digest; err != nil {
			b.Problem = manifest.Display(err.Error(), 500)
		}
		b.Lines = manifest.DisplayLines(text, maxSource, 2000)
	}
	if b.File != p.InForce.String() {
		form, err := jcs.Encode(p.Policy)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := json.Indent(&text, form.Bytes(), "", "  "); err != nil {
			return err
		}
		b.Form = manifest.DisplayLines(text.String(), maxSource, 2000)
	}
	return s.render(v, http.StatusOK, "policy", "policy", "Policy", b)
}

const maxSource = 5000 // lines of a policy on a page; a file has a mebibyte at most

// health says how this gateway is: what doctor says, and figures.
func (s *Server) health(v *visit) error {
	st, err := s.Gateway.Status(v.Context(), owner, gateway.None{})
	if err != nil {
		return err
	}
	var b struct {
		gateway.Status
		Since, Certificate string
		Findings           []Finding
		Counts             []figure
	}
	b.Status, b.Since, b.Certificate = st, s.clock(st.Started), s.clock(st.Certificate)
	for what, n := range st.Counts {
		b.Counts = append(b.Counts, figure{what, n})
	}
	slices.SortFunc(b.Counts, func(a, c figure) int { return strings.Compare(a.What, c.What) })
	b.Findings = s.findings(v.Context())
	return s.render(v, http.StatusOK, "health", "health", "Health", b)
}

// findings are looked for again after a while only: a live page asks whenever
// something is written, and looking starts a program in a box.
func (s *Server) findings(ctx context.Context) []Finding {
	if s.Health == nil {
		return nil
	}
	l := &s.looked
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := s.Now(); l.at.IsZero() || now.Sub(l.at) >= looksEvery {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), looksEvery) // what is found is for the next page too
		defer stop()
		l.found, l.at = s.Health(ctx), now
	}
	return l.found
}

const looksEvery = 30 * time.Second

// looked is what was found last.
type looked struct {
	mu    sync.Mutex // guards both; one look at a time
	at    time.Time
	found []Finding
}

type figure struct {
	What string
	N    int64
}
