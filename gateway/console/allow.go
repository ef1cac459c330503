package console

import "sealbridge/policy/approval"

// allowing says how a yes can be given to one ask. A session never allows: it
// holds no key, and the gateway signs nothing for a click (G9, G10).
type allowing struct {
	Passkeys []choice // that can answer here
	Command  string   // what a person types in a terminal
	Standing string   // the same for the next ones too; "" where that cannot be (G6)
}

func (s *Server) allowing(v *visit, a approval.Ask) (allowing, error) {
	keys, err := s.choices(v, a.AskID.String())
	out := allowing{Passkeys: keys, Command: "sealbridge gate allow " + a.Short()}
	if approval.CanStand(a) == nil {
		out.Standing = out.Command + " --standing --uses 5 --for 7d"
	}
	return out, err
}
