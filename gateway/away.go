package gateway

import (
	"context"

	"sealbridge/gateway/artifact"
	"sealbridge/manifest"
	"sealbridge/relay"
	"sealbridge/signing"
	"sealbridge/spec"
)

// Away is what a gateway does at a contact's relay: a gateway collects at its
// home relay and puts at the recipient's (R3).
type Away interface {
	artifact.Depot
	Put(ctx context.Context, to signing.DID, envelope []byte, ticket string) (relay.Receipt, error)
	DropGet(ctx context.Context, id string) ([]byte, error)
}

// home is our own relay, as our certificate names it.
func (g *Gateway) home() manifest.RelayRef {
	c, err := g.certificateTerms()
	if err != nil {
		return manifest.RelayRef{}
	}
	return c.Relay
}

type homeRelay struct {
	Courier
	artifact.Depot
}

// at is the relay where a contact collects; ours is at hand.
func (g *Gateway) at(ctx context.Context, r manifest.RelayRef) (Away, error) {
	if r.Did == g.home().Did {
		return homeRelay{g.Courier, g.Depot}, nil
	}
	if g.Reach == nil {
		return nil, spec.Refuse(spec.Unavailable, "/relay", "R3: this gateway reaches its own relay only")
	}
	return g.Reach(ctx, r)
}

// addressee is a contact's agent, where it may be written to: a new relay waits for the owner's yes (R3).
func (t *turn) addressee(owner signing.DID) (manifest.Agent, error) {
	a, err := t.trust.AgentFor(owner, t.now)
	if err != nil {
		return a, err
	}
	if c := t.trust.Contacts[owner]; c.Moved(a) {
		return a, spec.Refuse(spec.Unavailable, "/relay", "R3: "+manifest.Display(c.Name, 40)+" moved to another relay: sealbridge contact show "+manifest.Display(c.Name, 40))
	}
	return a, nil
}

// partner is the other side's agent of a task, with the relay where it collects.
func (g *Gateway) partner(ctx context.Context, owner signing.DID) (Away, error) {
	var a manifest.Agent
	err := g.view(ctx, func(t *turn) (err error) { a, err = t.addressee(owner); return err })
	if err != nil {
		return nil, err
	}
	return g.at(ctx, a.Certificate.Relay)
}
