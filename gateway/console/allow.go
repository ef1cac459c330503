package console

import "sealbridge/policy/approval"

// allowing says how a yes can be given to one ask. A session never allows: it
// holds no key, and the gateway signs nothing for a click (G9, G10).
type allowing struct {
	Command string // what a person types in a terminal
}

func (s *Server) allowing(a approval.Ask) allowing {
	return allowing{Command: "sealbridge gate allow " + a.Short()}
}
