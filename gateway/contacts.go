package gateway

import (
	"context"
	"encoding/base64"
	"sort"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/box"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// dropInfo binds what waits at the relay for an invite's redeemer to its purpose.
const dropInfo = "sealbridge/0.2.0/invite"

// greeting is what waits at the relay under an invite's secret: who we are, too long for the token (K1).
type greeting struct {
	Certificate jcs.Value `json:"certificate" rule:"object"`
	BoxKey      jcs.Value `json:"boxKey" rule:"object"`
}

func secretOf(inv manifest.Invite) (secret [16]byte, err error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(inv.Secret)
	if err != nil || len(raw) != 16 {
		return secret, spec.Refuse(spec.Malformed, "/secret", "K1: 128 bits")
	}
	return [16]byte(raw), nil
}

// Document is one signed document as it comes in by a door.
type Document struct {
	Wire string `json:"wire"`
}

// Invited is an invite that can be redeemed.
type Invited struct {
	ID      string    `json:"id"`
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
}

// AddInvite takes an invite that our owner signed and leaves our greeting at the relay.
func (g *Gateway) AddInvite(ctx context.Context, by Caller, in Document) (out Invited, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	s, err := manifest.Open([]byte(in.Wire), g.keys)
	if err != nil {
		return out, err
	}
	inv, ok := s.Document().(*manifest.Invite)
	if !ok || inv.OwnerDid != g.Owner {
		return out, spec.Refuse(spec.WrongSigner, "", "an invite of our own owner")
	}
	secret, err := secretOf(*inv)
	if err != nil {
		return out, err
	}
	key, _, err := g.Secrets.BoxKey()
	if err != nil {
		return out, err
	}
	hello, err := jcs.Encode(greeting{g.certified().Wire(), key})
	if err != nil {
		return out, err
	}
	if err := g.Courier.DropPut(ctx, dropID(inv.Secret), box.SealUnder(secret, dropInfo, hello.Bytes()), inv.ExpiresAt.Time()); err != nil {
		return out, err
	}
	err = g.turn(ctx, func(t *turn) error {
		if err := t.append(recDocument, self, s.Wire().Bytes()); err != nil {
			return err
		}
		if err := invites.Put(t.Tx, inv.InviteID.String(), "", inviteRow{Invite: *inv, Wire: s.Wire()}); err != nil {
			return err
		}
		return t.owe(jobList, self, nil)
	})
	if err != nil {
		return out, err
	}
	token, err := manifest.InviteToken(s.Wire())
	return Invited{inv.InviteID.String(), token, inv.ExpiresAt.Time()}, err
}

// Redemption is an invite's token with our owner's signed request.
type Redemption struct {
	Token   string `json:"token"`
	Request string `json:"request"`
}

// AddContact redeems an invite: it pins the inviter, unconfirmed, and sends our request.
func (g *Gateway) AddContact(ctx context.Context, by Caller, in Redemption) (out ContactView, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	inv, _, err := manifest.ParseInviteToken(in.Token)
	if err != nil {
		return out, err
	}
	s, err := manifest.Open([]byte(in.Request), g.keys)
	if err != nil {
		return out, err
	}
	r, ok := s.Document().(*manifest.ContactRequest)
	switch {
	case !ok || r.OwnerDid != g.Owner || r.To != inv.OwnerDid || r.InviteID != inv.InviteID:
		return out, spec.Refuse(spec.WrongSigner, "", "a contact-request of our own owner to the inviter")
	case !g.Now().Before(inv.ExpiresAt.Time()):
		return out, spec.Refuse(spec.Expired, "", "K1: the invite ran out "+inv.ExpiresAt.String())
	}
	secret, err := secretOf(*inv)
	if err != nil {
		return out, err
	}
	at, err := g.at(ctx, inv.Relay)
	if err != nil {
		return out, err
	}
	sealed, err := at.DropGet(ctx, dropID(inv.Secret))
	if err != nil {
		return out, err
	}
	plain, err := box.OpenUnder(secret, dropInfo, sealed)
	if err != nil {
		return out, err
	}
	v, err := jcs.Parse(plain)
	if err != nil {
		return out, err
	}
	var hello greeting
	if err := jcs.Decode(v, &hello); err != nil {
		return out, err
	}
	err = g.turn(ctx, func(t *turn) error {
		next, err := t.trust.Introduce(inv.OwnerDid, inv.InviteID, hello.Certificate, hello.BoxKey, t.now)
		if err != nil {
			return err
		}
		for _, doc := range []jcs.Value{hello.Certificate, hello.BoxKey, s.Wire()} {
			if err := t.append(recDocument, inv.OwnerDid.String(), doc.Bytes()); err != nil {
				return err
			}
		}
		if err := t.setTrust(next); err != nil {
			return err
		}
		if err := t.owe(jobList, self, nil); err != nil {
			return err
		}
		out = t.contactView(inv.OwnerDid)
		return t.send(inv.OwnerDid, s, inv.Ticket, "", 0)
	})
	return out, err
}

// redeemed is the turn in which an invite of ours is used up (K1).
func (t *turn) redeemed(s manifest.Signed, r *manifest.ContactRequest) error {
	row, ok, err := invites.Get(t.Tx, r.InviteID.String())
	if err != nil {
		return err
	}
	if !ok {
		t.g.count("silent unknown invite")
		return nil
	}
	if row.Used == r.OwnerDid { // sent again: acknowledged again
		v, err := t.trust.Admit(s, t.now)
		if err != nil {
			return err
		}
		return t.confirmDocument(v)
	}
	next, _, err := t.trust.AdmitRequest(s, row.Invite, t.now)
	if err != nil {
		return err
	}
	if !row.Used.IsZero() {
		return t.alarm(row, r)
	}
	row.Used = r.OwnerDid
	if err := invites.Put(t.Tx, r.InviteID.String(), "", row); err != nil {
		return err
	}
	for _, doc := range []jcs.Value{r.Certificate, r.BoxKey, s.Wire()} {
		if err := t.append(recDocument, r.OwnerDid.String(), doc.Bytes()); err != nil {
			return err
		}
	}
	if err := t.setTrust(next); err != nil {
		return err
	}
	v, err := t.trust.Admit(s, t.now)
	if err != nil {
		return err
	}
	if err := t.confirmDocument(v); err != nil {
		return err
	}
	return t.owe(jobList, self, nil)
}

// alarm: two owners had one invite's secret. The first is suspended until a person looks again.
func (t *turn) alarm(row inviteRow, r *manifest.ContactRequest) error {
	t.g.Log.Error("an invite was redeemed twice; the contact is not confirmed any more", "invite", r.InviteID.String())
	row.Alarm = true
	if err := invites.Put(t.Tx, r.InviteID.String(), "", row); err != nil {
		return err
	}
	if err := t.note(row.Used.String(), map[string]string{"invite": r.InviteID.String(), "alarm": "redeemed twice"}); err != nil {
		return err
	}
	c := t.trust.Contacts[row.Used]
	c.Confirmed = false
	return t.setTrust(t.trust.Put(row.Used, c))
}

// ContactView is one contact as its owner sees it.
type ContactView struct {
	Name        string    `json:"name"`
	Owner       string    `json:"owner"`
	Agent       string    `json:"agent"`
	Fingerprint string    `json:"fingerprint"`
	Words       string    `json:"words"`
	Confirmed   bool      `json:"confirmed"`
	Blocked     bool      `json:"blocked"`
	Introduced  bool      `json:"introduced,omitempty"` // by another contact, for its calls on our tools or ours on its: no contact (C7)
	Alarm       bool      `json:"alarm"`
	Since       time.Time `json:"since"`
	KeyUntil    time.Time `json:"keyUntil"`
	Certified   time.Time `json:"certifiedUntil"` // of the agent: past it nothing new of it counts (I4)
	Relay       string    `json:"relay"`
	Moved       string    `json:"moved,omitempty"` // the relay that a new certificate names; nothing is sent there before a yes (R3)
}

func (t *turn) contactView(owner signing.DID) ContactView {
	c := t.trust.Contacts[owner]
	a := t.trust.Agents[c.Agent]
	row, _, _ := invites.Get(t.Tx, c.Invite.String())
	moved := ""
	if c.Moved(a) {
		moved = a.Certificate.Relay.String()
	}
	return ContactView{Introduced: c.Introduced(), Relay: c.Relay.String(), Moved: moved, Name: c.Name, Owner: owner.String(), Agent: c.Agent.String(), Fingerprint: manifest.Fingerprint(owner),
		Words: manifest.SixWords(t.g.Owner, owner, c.Invite), Confirmed: c.Confirmed, Blocked: c.Blocked, Alarm: row.Alarm,
		Since: c.Since, KeyUntil: a.Key.NotAfter.Time(), Certified: a.Certificate.ExpiresAt.Time()}
}

// Contacts lists everybody we pinned, by name.
func (g *Gateway) Contacts(ctx context.Context, _ Caller, _ None) (out []ContactView, err error) {
	out = []ContactView{}
	err = g.view(ctx, func(t *turn) error {
		for owner := range t.trust.Contacts {
			if owner != g.Owner {
				out = append(out, t.contactView(owner))
			}
		}
		return nil
	})
	sort.Slice(out, func(i, k int) bool { return out[i].Name < out[k].Name })
	return out, err
}

// None is no question, or no answer.
type None struct{}

// ContactChange is what a person says about a contact.
type ContactChange struct {
	Name  string `json:"name"`
	Do    string `json:"do"` // confirm, rename, follow, block, unblock, remove
	Words string `json:"words,omitempty"`
	To    string `json:"to,omitempty"`
}

// ChangeContact confirms, renames, blocks or removes a contact.
func (g *Gateway) ChangeContact(ctx context.Context, by Caller, in ContactChange) (out ContactView, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	err = g.turn(ctx, func(t *turn) error {
		owner, c, ok := t.trust.Named(in.Name)
		if !ok {
			return spec.Refuse(spec.NotFound, "", "no contact is called "+manifest.Display(in.Name, 40))
		}
		next := t.trust
		switch in.Do {
		case "confirm":
			if c.Introduced() {
				return spec.Refuse(spec.NotPermitted, "", "C7: introduced by another contact; an invite makes a contact of it")
			}
			if in.Words != manifest.SixWords(g.Owner, owner, c.Invite) {
				return spec.Refuse(spec.VerificationFailed, "", "K2: these are not the six words of this pair")
			}
			c.Confirmed = true
			next = next.Put(owner, c)
		case "rename":
			if other, _, taken := t.trust.Named(in.To); taken && other != owner {
				return spec.Refuse(spec.Conflict, "", "M8: another contact's name looks the same")
			}
			if in.To == "" || in.To != manifest.Display(in.To, 40) {
				return spec.Refuse(spec.Malformed, "", "a name of up to 40 visible characters")
			}
			c.Name = in.To
			next = next.Put(owner, c)
		case "follow": // R3: to the relay that the person saw
			a := t.trust.Agents[c.Agent]
			if in.To != a.Certificate.Relay.String() {
				return spec.Refuse(spec.Conflict, "", "R3: the new relay is "+manifest.Display(a.Certificate.Relay.String(), 300))
			}
			c.Relay = a.Certificate.Relay
			next = next.Put(owner, c)
		case "block", "unblock":
			c.Blocked = in.Do == "block"
			next = next.Put(owner, c)
		case "remove":
			next = next.Remove(owner)
		default:
			return spec.Refuse(spec.Malformed, "", "confirm, rename, follow, block, unblock or remove")
		}
		out = t.contactView(owner)
		if err := t.note(owner.String(), map[string]string{"contact": in.Do, "name": c.Name}); err != nil {
			return err
		}
		if err := t.setTrust(next); err != nil {
			return err
		}
		if in.Do == "block" || in.Do == "remove" { // blocking revokes what was granted (K3)
			why := "the contact was " + map[string]string{"block": "blocked", "remove": "removed"}[in.Do]
			if err := t.revokeAll(owner, why); err != nil {
				return err
			}
			if err := t.takeBackAll(owner, "", why); err != nil {
				return err
			}
		}
		if in.Do != "remove" {
			out = t.contactView(owner)
		}
		return t.owe(jobList, self, nil)
	})
	return out, err
}
