package policy

// Outbound is what the owner's rules let one agent ask of one contact.
type Outbound struct {
	May     bool     // a rule fits and asks the owner; without one it is refused
	MaySend []string // globs of paths that may go along unless a person named them
	AtMost  AtMost
}

// OutboundTo finds the first rule of outgoing that fits, as Decide does.
func (p Policy) OutboundTo(agent, contact string) Outbound {
	for _, o := range p.Outgoing {
		if o.To.has(contact) && (o.Agent == "" || o.Agent == agent) {
			return Outbound{May: o.Then == ThenAsk, MaySend: o.MaySend, AtMost: o.AtMost}
		}
	}
	return Outbound{}
}

// Sends says whether a path may go along (K3). Decide says the same about the
// paths of a proposal; this is for asking before a file is opened.
func (o Outbound) Sends(path string) bool { return o.May && maySend(o.MaySend, path) }
