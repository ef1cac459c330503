package console

import (
	"net/http"

	"sealbridge/gateway"
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
