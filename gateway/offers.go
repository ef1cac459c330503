package gateway

import (
	"context"
	"errors"
	"sort"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// openOffers are open proposals that contacts sent us (M10), by the key of their id
// at the requester, in groups of the contact. They bind nobody and go with their deadline.
var openOffers = journal.NewTable[openOffer]("open-offer")

type openOffer struct {
	Key     manifest.TaskKey `json:"key"`
	Payload jcs.Value        `json:"payload"`
	Digest  signing.Digest   `json:"digest"`
	Title   string           `json:"title"`
	Until   time.Time        `json:"until"`
	Claim   *manifest.Claim  `json:"claim,omitempty"` // ours
	At      time.Time        `json:"at"`
}

// offered keeps an open proposal of a contact.
func (t *turn) offered(v manifest.Verified, m *manifest.TaskManifest) error {
	if m.Worker != nil || m.Requester.OwnerDid != v.Owner() || m.Requester.AgentDid != v.By() {
		return spec.Refuse(spec.UnknownType, "", "M10: a contract comes in a proposed event")
	}
	if !t.trust.Contacts[v.Owner()].Confirmed {
		return spec.Refuse(spec.NotPermitted, "", "K2: the contact is not confirmed yet")
	}
	row := openOffer{Key: manifest.TaskKey{Owner: v.Owner(), ID: m.TaskID}, Payload: v.Wire().Without("signatures"), Digest: v.Digest(), Title: m.Task.Title, Until: m.Deadline.Time(), At: t.now}
	key := row.Key.String()
	switch old, there, err := openOffers.Get(t.Tx, key); {
	case err != nil:
		return err
	case there && old.Digest != row.Digest:
		return spec.Refuse(spec.Conflict, "/taskId", "M11: another open proposal has this id")
	case there:
		return t.confirmDocument(v)
	}
	if err := m.ValidAt(t.now); err != nil {
		return err
	}
	n, err := t.forgetOffers(v.Owner())
	if err != nil {
		return err
	}
	if n >= policy.MaxOffers {
		return spec.Refuse(spec.Quota, "", "B9: 20 open proposals at once")
	}
	if err := t.append(recOpen, key, v.Wire().Bytes()); err != nil {
		return err
	}
	if err := openOffers.Put(t.Tx, key, v.Owner().String(), row); err != nil {
		return err
	}
	return errors.Join(t.confirmDocument(v), t.tell())
}

// forgetOffers drops those of a contact that are over, and counts the others.
func (t *turn) forgetOffers(peer signing.DID) (n int, err error) {
	rows, err := openOffers.Group(t.Tx, peer.String())
	for _, r := range rows {
		if err == nil && !t.now.Before(r.V.Until) {
			err = openOffers.Delete(t.Tx, r.Key)
		} else {
			n++
		}
	}
	return n, err
}

// Claiming says of a contact's open proposal that we would do it.
type Claiming struct {
	Offer string             `json:"offer"`
	Set   []manifest.Setting `json:"set,omitempty"` // the terms under which; none for its own
}

// Claim tells the requester that our owner would have the work done. It binds
// nobody: our next question is about the contract, if one comes (M10).
func (g *Gateway) Claim(ctx context.Context, by Caller, in Claiming) (out OfferView, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	err = g.turn(ctx, func(t *turn) error {
		row, err := t.findOffer(in.Offer)
		if err != nil {
			return err
		}
		claim, err := t.claimOf(row, in.Set)
		if err != nil {
			return err
		}
		v, err := manifest.Sign(claim, g.Agent, t.now)
		if err != nil {
			return err
		}
		if err := t.append(recOpen, row.Key.String(), v.Wire().Bytes()); err != nil {
			return err
		}
		row.Claim = claim
		if err := openOffers.Put(t.Tx, row.Key.String(), row.Key.Owner.String(), row); err != nil {
			return err
		}
		if err := t.send(row.Key.Owner, v.Signed, "", "", 0); err != nil {
			return err
		}
		out, err = t.offerView(row, false)
		return err
	})
	return out, err
}

func (t *turn) claimOf(row openOffer, set []manifest.Setting) (*manifest.Claim, error) {
	m, err := manifest.ReadManifest(row.Payload)
	if err != nil {
		return nil, err
	}
	if c := t.trust.Contacts[row.Key.Owner]; c.Blocked || !c.Confirmed {
		return nil, spec.Refuse(spec.PolicyDenied, "", "K2: a contact that is confirmed and not blocked")
	}
	c := &manifest.Claim{Type: "sealbridge/claim", ProtocolVersion: manifest.ProtocolVersion, To: m.Requester.AgentDid, Digest: row.Digest, TaskID: m.TaskID, At: signing.TimeOf(t.now)}
	if len(set) == 0 {
		return c, nil
	}
	other, err := m.Counter(set, t.now)
	if err != nil {
		return nil, spec.At("/set", err)
	}
	draft, err := jcs.Encode(other)
	c.Draft = &draft
	return c, err
}

func (t *turn) findOffer(ref string) (row openOffer, err error) {
	rows, err := openOffers.All(t.Tx)
	if err != nil {
		return row, err
	}
	var found []openOffer
	for _, r := range rows {
		if t.now.Before(r.V.Until) && endsIn(r.V.Key.ID.String(), ref) {
			found = append(found, r.V)
		}
	}
	return oneOf(found, "offer", ref)
}

// Offers lists open proposals, ours and those of contacts, newest first; with a
// task it shows that one whole.
func (g *Gateway) Offers(ctx context.Context, by Caller, in Ref) (out []OfferView, err error) {
	if err := by.Person(); err != nil {
		return nil, err
	}
	out = []OfferView{}
	err = g.view(ctx, func(t *turn) error {
		ours, err := openings.All(t.Tx)
		if err != nil {
			return err
		}
		for _, r := range ours {
			if in.Task != "" && !endsIn(r.V.Key.ID.String(), in.Task) {
				continue
			}
			v, err := t.openView(r.V)
			if err != nil {
				return err
			}
			out = append(out, v)
		}
		theirs, err := openOffers.All(t.Tx)
		if err != nil {
			return err
		}
		for _, r := range theirs {
			if !t.now.Before(r.V.Until) || in.Task != "" && !endsIn(r.V.Key.ID.String(), in.Task) {
				continue
			}
			v, err := t.offerView(r.V, in.Task != "")
			if err != nil {
				return err
			}
			out = append(out, v)
		}
		if in.Task != "" && len(out) == 0 {
			return spec.Refuse(spec.NotFound, "", "no open proposal ends in "+manifest.Display(in.Task, 40))
		}
		return nil
	})
	sort.SliceStable(out, func(i, k int) bool { return out[i].At.After(out[k].At) })
	return out, err
}

func (t *turn) offerView(row openOffer, whole bool) (v OfferView, err error) {
	v = OfferView{ID: row.Key.ID.String(), With: []string{t.trust.Contacts[row.Key.Owner].Name}, Title: manifest.Display(row.Title, 200), State: "open", Until: row.Until, Digest: row.Digest.String(),
		Claims: []ClaimView{}, At: row.At}
	m, err := manifest.ReadManifest(row.Payload)
	if err != nil {
		return v, err
	}
	if row.Claim != nil {
		other, err := row.Claim.TermsOf(m)
		if err != nil {
			return v, err
		}
		v.State, v.Claims = "claimed", append(v.Claims, ClaimView{"you", row.Claim.At.Time(), append([]manifest.Difference{}, manifest.Differences(m, other)...)})
	}
	if whole {
		v.Text, v.Terms = m.Task.Description, m.Terms()
		for _, c := range m.Task.AcceptanceCriteria {
			v.Text += "\n- " + c.Description
		}
	}
	return v, nil
}

// toLookAt are offers that our owner has not claimed, and open proposals of ours with claims.
func (t *turn) toLookAt() (ids []string, err error) {
	theirs, err := openOffers.All(t.Tx)
	if err != nil {
		return nil, err
	}
	for _, r := range theirs {
		if r.V.Claim == nil && t.now.Before(r.V.Until) {
			ids = append(ids, r.V.Key.ID.String())
		}
	}
	ours, err := openings.All(t.Tx)
	for _, r := range ours {
		if len(r.V.Claims) > 0 && r.V.state(t.now) == openSent {
			ids = append(ids, r.V.Key.ID.String())
		}
	}
	return ids, err
}
