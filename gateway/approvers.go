package gateway

import (
	"context"
	"errors"
	"sort"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/passkey"
	"sealbridge/spec"
)

// Approvers are the keys that speak for passkeys of this gateway's console. Such
// a key says nothing without the passkey's assertion, so the gateway may hold it (G10).
type Approvers interface {
	NewApprover() (signing.DID, error)
	Approver(did signing.DID) (signing.Signer, error)
	DropApprover(did signing.DID) error // of an offer that nobody took
}

var offers = journal.NewTable[offerRow]("offer")

// offerRow is a passkey that waits for the owner's signature.
type offerRow struct {
	Credential passkey.Credential `json:"credential"`
	Approver   signing.DID        `json:"approver"`
	Until      time.Time          `json:"until"`
}

const (
	offerLasts = 15 * time.Minute // from the browser to the terminal beside it
	maxOffers  = 10               // at once; each is one key file
)

// Offer is a passkey that was made in a browser. The code names it: the owner
// types it where the owner key is, and nothing counts before that.
type Offer struct {
	Code       string             `json:"code"`
	Credential passkey.Credential `json:"credential"`
	Approver   signing.DID        `json:"approver"`
	Until      time.Time          `json:"until"`
}

// OfferPasskey keeps a fresh passkey until the owner certifies it.
func (g *Gateway) OfferPasskey(ctx context.Context, by Caller, in passkey.Credential) (out Offer, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	if g.Approvers == nil {
		return out, spec.Refuse(spec.Unavailable, "", "this gateway holds no keys for passkeys")
	}
	if err := in.Valid(); err != nil {
		return out, err
	}
	err = g.turn(ctx, func(t *turn) error {
		rows, err := offers.All(t.Tx)
		if err != nil {
			return err
		}
		n := 0
		for _, r := range rows {
			if t.now.Before(r.V.Until) {
				n++
				continue
			}
			if err := errors.Join(offers.Delete(t.Tx, r.Key), g.Approvers.DropApprover(r.V.Approver)); err != nil {
				return err
			}
		}
		if n >= maxOffers {
			return spec.Refuse(spec.Quota, "", itoa(maxOffers)+" passkeys wait for your signature already")
		}
		did, err := g.Approvers.NewApprover()
		if err != nil {
			return err
		}
		out = Offer{in.Code(did), in, did, t.now.Add(offerLasts)}
		return offers.Put(t.Tx, out.Code, "", offerRow{in, did, out.Until})
	})
	return out, err
}

// OfferRef names an offer by its code.
type OfferRef struct {
	Code string `json:"code"`
}

// Offered is the passkey behind a code; whoever certifies it checks the code itself.
func (g *Gateway) Offered(ctx context.Context, by Caller, in OfferRef) (out Offer, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	err = g.view(ctx, func(t *turn) error {
		r, ok, err := offers.Get(t.Tx, in.Code)
		if err == nil && (!ok || !t.now.Before(r.Until)) {
			err = spec.Refuse(spec.NotFound, "", "no passkey waits under this code: add it in the console again")
		}
		out = Offer{in.Code, r.Credential, r.Approver, r.Until}
		return err
	})
	return out, err
}

// AddApprover takes a certificate that our owner signed. From now on its key
// decides the gates that it names.
func (g *Gateway) AddApprover(ctx context.Context, by Caller, in Document) (out ApproverView, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	s, err := manifest.Open([]byte(in.Wire), g.keys)
	if err != nil {
		return out, err
	}
	c, ok := s.Document().(*manifest.ApproverCertificate)
	if !ok || c.OwnerDid != g.Owner {
		return out, spec.Refuse(spec.WrongSigner, "", "an approver-certificate of our own owner")
	}
	err = g.turn(ctx, func(t *turn) error {
		v, err := t.trust.Admit(s, t.now)
		if err != nil {
			return err
		}
		if !t.now.Before(c.ExpiresAt.Time()) {
			return spec.Refuse(spec.CertificateExpired, "/expiresAt", "I5")
		}
		if c.Credential != nil {
			if err := offers.Delete(t.Tx, c.Credential.Code(c.ApproverDid)); err != nil {
				return err
			}
		}
		out = g.approverView(s.Digest(), *c)
		return t.identity(v)
	})
	return out, err
}

// ApproverView is one certified approver.
type ApproverView struct {
	Digest  signing.Digest `json:"digest"` // of the certificate
	Key     signing.DID    `json:"key"`
	Person  string         `json:"person"`
	Gates   []string       `json:"gates"`
	Passkey string         `json:"passkey,omitempty"` // the origin that it is bound to; "" for a device
	Here    bool           `json:"here"`              // this gateway's console can use it
	Until   time.Time      `json:"until"`
	Proves  string         `json:"presence"`

	Certificate manifest.ApproverCertificate `json:"certificate"` // all that it says, for who renews it
}

func (g *Gateway) approverView(digest signing.Digest, c manifest.ApproverCertificate) ApproverView {
	v := ApproverView{Digest: digest, Key: c.ApproverDid, Person: c.Person, Gates: []string{}, Until: c.ExpiresAt.Time(), Proves: manifest.PresenceDevice, Certificate: c}
	for _, gate := range c.Gates {
		v.Gates = append(v.Gates, manifest.GateWord(gate))
	}
	if c.Credential != nil {
		v.Passkey, v.Proves = c.Credential.Origin, manifest.PresencePasskey
		if g.Approvers != nil {
			_, err := g.Approvers.Approver(c.ApproverDid)
			v.Here = err == nil
		}
	}
	return v
}

// ApproverList is who decides for our owner, and the newest revocation, whose
// number the next one is above.
type ApproverList struct {
	Approvers   []ApproverView `json:"approvers"`
	Revocations int64          `json:"revocations"`
}

// ListApprovers lists whom our owner certified, the soonest end first; those that ran out are left out.
func (g *Gateway) ListApprovers(ctx context.Context, by Caller, _ None) (out ApproverList, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	out.Approvers = []ApproverView{}
	err = g.view(ctx, func(t *turn) error {
		out.Revocations = t.trust.Contacts[g.Owner].Revocations
		for digest, c := range t.trust.Approvers {
			if c.OwnerDid == g.Owner && t.now.Before(c.ExpiresAt.Time()) {
				out.Approvers = append(out.Approvers, g.approverView(digest, c))
			}
		}
		return nil
	})
	sort.Slice(out.Approvers, func(i, k int) bool {
		a, b := out.Approvers[i], out.Approvers[k]
		if !a.Until.Equal(b.Until) {
			return a.Until.Before(b.Until)
		}
		return a.Digest.String() < b.Digest.String()
	})
	return out, err
}

// RevokeApprover takes a certificate back: open asks included, from now on. Every
// contact is told, until it has acknowledged it (I7).
func (g *Gateway) RevokeApprover(ctx context.Context, by Caller, in Document) (out None, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	s, err := manifest.Open([]byte(in.Wire), g.keys)
	if err != nil {
		return out, err
	}
	r, ok := s.Document().(*manifest.Revocation)
	if !ok || r.OwnerDid != g.Owner || r.Target != "approver-certificate" {
		return out, spec.Refuse(spec.WrongSigner, "", "a revocation of an approver by our own owner")
	}
	return out, g.turn(ctx, func(t *turn) error {
		if _, known := t.trust.Approvers[r.TargetDigest]; !known {
			return spec.Refuse(spec.NotFound, "/targetDigest", "no such approver")
		}
		v, err := t.trust.Admit(s, t.now)
		if err != nil {
			return err
		}
		if err := t.identity(v); err != nil {
			return err
		}
		return t.tellAll(s)
	})
}
