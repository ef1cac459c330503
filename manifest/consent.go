package manifest

import (
	"sealbridge/signing"
)

// PolicyConsent is the owner's yes to one change of the owner's own rules that
// permits more (G12): from the policy in force, to another, over the difference
// that was shown. It is kept by one gateway and sent to nobody.
//
// It is not a gate-decision: that one answers an ask of a task, and names task,
// contract and gate, of which a policy has none. It has no verdict and no term
// either: without it the change is not in force, and used once it is spent,
// because the policy that it starts from is not in force any more.
type PolicyConsent struct {
	Type            string         `json:"type" rule:"const=sealbridge/policy-consent"`
	ProtocolVersion string         `json:"protocolVersion" rule:"const=0.2.0"`
	OwnerDid        signing.DID    `json:"ownerDid"`
	AgentDid        signing.DID    `json:"agentDid"`   // of the gateway whose policy it is
	From            signing.Digest `json:"from"`       // of the policy in force when it was said
	To              signing.Digest `json:"to"`         // of the policy that may come in force
	Difference      signing.Digest `json:"difference"` // of the lines that were shown
	Presence        string         `json:"presence" rule:"len=1..64"`
	DecidedAt       signing.Time   `json:"decidedAt"`
}

func (c *PolicyConsent) check() error {
	switch {
	case !isPresence(c.Presence):
		return refuse("/presence", "G10: passkey, device, passphrase, channel:NAME or none")
	case c.OwnerDid == c.AgentDid:
		return refuse("/agentDid", "I5: owner and agent have different keys")
	}
	return nil
}
