package console

import (
	"net/http"
	"slices"
	"strings"

	"sealbridge/gateway"
	"sealbridge/manifest"
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
	return s.render(v, http.StatusOK, "contacts", "contacts", "Contacts", out)
}

// policy shows the owner's rules: the digest in force, and the file.
func (s *Server) policy(v *visit) error {
	st, err := s.Gateway.Status(v.Context(), owner, gateway.None{})
	if err != nil {
		return err
	}
	var b struct {
		Digest, File, Problem string
		Lines                 []string
	}
	b.Digest = st.Policy
	if s.PolicyFile != nil {
		text, digest, err := s.PolicyFile()
		if b.File = digest; err != nil {
			b.Problem = manifest.Display(err.Error(), 500)
		}
		for l := range strings.Lines(text) {
			b.Lines = append(b.Lines, manifest.Display(strings.TrimRight(l, "\r\n"), 2000))
		}
	}
	return s.render(v, http.StatusOK, "policy", "policy", "Policy", b)
}

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
	if s.Health != nil {
		b.Findings = s.Health(v.Context())
	}
	return s.render(v, http.StatusOK, "health", "health", "Health", b)
}

type figure struct {
	What string
	N    int64
}
