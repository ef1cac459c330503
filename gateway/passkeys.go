package gateway

import (
	"context"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/signing/passkey"
	"sealbridge/spec"
)

// PasskeyAsk asks which passkeys can say yes to an ask at one origin, now.
type PasskeyAsk struct {
	Ask    string `json:"ask"`
	Origin string `json:"origin"`
}

// PasskeyYes is a yes that only lacks the person: what the passkey is to sign.
type PasskeyYes struct {
	Ask         string             `json:"ask"`
	Certificate signing.Digest     `json:"certificate"`
	Person      string             `json:"person"`
	Credential  passkey.Credential `json:"credential"`
	DecidedAt   signing.Time       `json:"decidedAt"`
	Challenge   [32]byte           `json:"challenge"`
}

// PasskeyYeses lists what each passkey that may answer would sign. Nothing is
// decided and nothing kept: the same ask, certificate and instant make the same bytes again.
func (g *Gateway) PasskeyYeses(ctx context.Context, by Caller, in PasskeyAsk) (out []PasskeyYes, err error) {
	if err := by.Person(); err != nil {
		return nil, err
	}
	err = g.view(ctx, func(t *turn) error {
		r, ok, err := asks.Get(t.Tx, in.Ask)
		if err != nil || !ok {
			return orNotFound(err, "ask")
		}
		if r.stateAt(t.now) != approval.Waiting || g.Approvers == nil {
			return nil
		}
		certs, err := t.passkeysFor(r, in.Origin)
		for _, s := range certs {
			c, ok := s.Document().(*manifest.ApproverCertificate)
			if !ok {
				continue
			}
			at := signing.TimeOf(t.now)
			challenge, err := manifest.Challenge(yesBy(r.Ask, s, at.Time()))
			if err != nil {
				return err
			}
			out = append(out, PasskeyYes{in.Ask, s.Digest(), c.Person, *c.Credential, at, challenge})
		}
		return err
	})
	return out, err
}

// yesBy is the decision that a certified passkey is asked to sign.
func yesBy(a approval.Ask, certificate manifest.Signed, at time.Time) manifest.GateDecision {
	return approval.By(approval.Decide(a, approval.Allow, manifest.PresencePasskey, at), certificate)
}

// passkeysFor are the certificates of passkeys at an origin that are asked, good
// now, and whose key this gateway holds: of one key the newest, of whoever has
// said yes already none.
func (t *turn) passkeysFor(r askRow, origin string) (out []manifest.Signed, err error) {
	recs, err := t.RecordsOf(t.g.Owner.String())
	if err != nil {
		return nil, err
	}
	voted := approval.Voters(r.Ask, t.votes(r), t.now)
	newest := map[signing.DID]int{}
	for _, rec := range recs {
		s, ok := t.approverIn(rec)
		if !ok {
			continue
		}
		c := t.trust.Approvers[s.Digest()]
		if c.Credential == nil || c.Credential.Origin != origin || !t.now.Before(c.ExpiresAt.Time()) || !approval.Asked(r.Ask, c) || voted[c.Person] {
			continue
		}
		if _, err := t.g.Approvers.Approver(c.ApproverDid); err != nil {
			continue
		}
		if i, again := newest[c.ApproverDid]; again { // a renewal came later
			out[i] = s
			continue
		}
		newest[c.ApproverDid] = len(out)
		out = append(out, s)
	}
	return out, nil
}

// approverIn is the certificate of an approver that is known and not taken back, as it was signed.
func (t *turn) approverIn(r journal.Record) (manifest.Signed, bool) {
	if r.Kind != recDocument {
		return manifest.Signed{}, false
	}
	v, err := jcs.Parse(r.Body)
	if err != nil || manifest.TypeName(v) != "approver-certificate" {
		return manifest.Signed{}, false
	}
	if _, known := t.trust.Approvers[signing.DigestOf(v.Bytes())]; !known {
		return manifest.Signed{}, false
	}
	s, err := manifest.OpenValue(v, t.g.keys)
	return s, err == nil
}

// PasskeyAnswer is a yes with the person's assertion.
type PasskeyAnswer struct {
	Ask         string            `json:"ask"`
	Certificate signing.Digest    `json:"certificate"`
	DecidedAt   signing.Time      `json:"decidedAt"`
	Assertion   passkey.Assertion `json:"assertion"`
}

// AllowByPasskey makes the decision that the passkey signed and takes it like
// any other. The key that signs the document is this gateway's; the yes is the
// assertion, and signing holds it before anything is decided (G10).
func (g *Gateway) AllowByPasskey(ctx context.Context, by Caller, in PasskeyAnswer) (out Decided, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	if g.Approvers == nil {
		return out, spec.Refuse(spec.Unavailable, "", "this gateway holds no keys for passkeys")
	}
	var d manifest.GateDecision
	var key signing.DID
	var now time.Time
	err = g.view(ctx, func(t *turn) error {
		now = t.now
		r, ok, err := asks.Get(t.Tx, in.Ask)
		if err != nil || !ok {
			return orNotFound(err, "ask")
		}
		if err := r.closed(t.now); err != nil {
			return err
		}
		recs, err := t.RecordsOf(g.Owner.String())
		if err != nil {
			return err
		}
		for _, rec := range recs {
			if s, ok := t.approverIn(rec); ok && s.Digest() == in.Certificate {
				d, key = yesBy(r.Ask, s, in.DecidedAt.Time()), t.trust.Approvers[in.Certificate].ApproverDid
				return nil
			}
		}
		return spec.Refuse(spec.NotFound, "/certificate", "no such approver, or taken back")
	})
	if err != nil {
		return out, err
	}
	signer, err := g.Approvers.Approver(key)
	if err != nil {
		return out, err
	}
	d.Assertion = &in.Assertion
	v, err := manifest.Sign(&d, signer, now)
	if err != nil {
		return out, err
	}
	return g.DecideGate(ctx, by, Answer{Decision: v.Wire().String()})
}

func orNotFound(err error, what string) error {
	if err == nil {
		err = spec.Refuse(spec.NotFound, "", what)
	}
	return err
}
