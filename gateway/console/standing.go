package console

import (
	"net/http"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

// standing is one yes that also serves the next ones (G6).
type standing struct {
	gateway.StandingView
	Sentence []string // what it means, as it was signed
	Ends     string
	Used     []used
	InForce  bool
	Token    string
}

// inForce is the gateway's word for a standing yes that can still be used.
const inForce = "in force"

type used struct{ Task, At string }

// standings are the owner's, those in force first as the gateway lists them.
func (s *Server) standings(v *visit) (out []standing, err error) {
	list, err := s.Gateway.Standing(v.Context(), owner, gateway.None{})
	for _, x := range list {
		name := manifest.Display(x.Contact, 64)
		if name == "" {
			name = "a contact that is gone"
		}
		y := standing{StandingView: x, Sentence: approval.Sentence(x.Grant, name, s.Zone), Ends: s.clock(x.Grant.Until.Time()), InForce: x.State == inForce, Token: v.session.token}
		for _, u := range x.Uses {
			y.Used = append(y.Used, used{u.Task, s.clock(u.At)})
		}
		out = append(out, y)
	}
	return out, err
}

// unstand takes a standing yes back: a no like any other.
func (s *Server) unstand(v *visit) error {
	_, err := s.Gateway.RevokeStanding(v.Context(), owner, gateway.Revoking{ID: v.PathValue("ask"), Reason: v.PostFormValue("reason")})
	if err != nil && spec.ReasonOf(err) != spec.Conflict { // in another tab already
		return err
	}
	http.Redirect(v.w, v.Request, "/decided", http.StatusSeeOther)
	return nil
}
