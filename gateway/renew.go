package gateway

import (
	"context"
	"time"

	"sealbridge/manifest"
	"sealbridge/spec"
)

// certified is our own certificate in force.
func (g *Gateway) certified() manifest.Signed {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.Certificate
}

// certificateTerms are what it says.
func (g *Gateway) certificateTerms() (manifest.AgentCertificate, error) {
	c, ok := g.certified().Document().(*manifest.AgentCertificate)
	if !ok {
		return manifest.AgentCertificate{}, spec.Refuse(spec.Internal, "", "no certificate")
	}
	return *c, nil
}

// Renewed says until when the new certificate is good.
type Renewed struct {
	Serial  int64     `json:"serial"`
	Expires time.Time `json:"expires"`
}

// Renew takes a certificate that our owner signed for the same agent with a
// higher serial (I4): from now on it is ours, with a new box-key that names it,
// and every contact is sent both. Another relay needs a gateway that stands
// still, because mail would go where nobody collects.
func (g *Gateway) Renew(ctx context.Context, by Caller, in Document) (out Renewed, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	s, err := manifest.Open([]byte(in.Wire), g.keys)
	if err != nil {
		return out, err
	}
	c, ok := s.Document().(*manifest.AgentCertificate)
	have, err := g.certificateTerms()
	switch {
	case err != nil:
		return out, err
	case !ok || c.OwnerDid != g.Owner || s.By() != g.Owner || c.AgentDid != g.Agent.DID():
		return out, spec.Refuse(spec.WrongSigner, "", "a certificate of our own owner for this agent")
	case c.Serial <= have.Serial:
		return out, spec.Refuse(spec.Stale, "/serial", "I4: more than "+itoa(have.Serial))
	case c.Relay != have.Relay:
		return out, spec.Refuse(spec.Conflict, "/relay", "R3: stop the gateway to move it to another relay")
	}
	err = g.view(ctx, func(t *turn) error { _, err := t.trust.Admit(s, t.now); return err })
	if err != nil {
		return out, err
	}
	if err := g.Secrets.Install(s, g.Now()); err != nil { // on disk first: a start finishes what is begun here
		return out, err
	}
	g.mu.Lock()
	g.Certificate = s
	g.mu.Unlock()
	err = g.turn(ctx, func(t *turn) error {
		if err := t.presentSelf(); err != nil {
			return err
		}
		return t.owe(jobKey, self, nil) // the relay hears of the new box-key too
	})
	return Renewed{Serial: c.Serial, Expires: c.ExpiresAt.Time()}, err
}

// presentSelf puts our certificate and box-key into the trust where they are new,
// and sends to every contact what is: also what was made just before a stop and
// nobody heard of.
func (t *turn) presentSelf() error {
	cert := t.g.certified()
	key, terms, err := t.g.Secrets.BoxKey()
	if err != nil {
		return err
	}
	have, known := t.trust.Agents[t.g.Agent.DID()]
	if !known || have.Digest != cert.Digest() {
		v, err := t.trust.Admit(cert, t.now)
		if err != nil {
			return err
		}
		if err := t.identity(v); err != nil {
			return err
		}
		if err := t.tellAll(cert); err != nil {
			return err
		}
	}
	if known && have.HasKey && have.Key.Kid == terms.Kid {
		return nil
	}
	return t.announce(key)
}
