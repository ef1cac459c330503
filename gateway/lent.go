package gateway

import (
	"context"
	"sort"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/spec"
)

// Lent is a token that our gateway issued, as its owner sees it.
type Lent struct {
	Digest   signing.Digest `json:"digest"`
	Grant    string         `json:"grant"` // its id in the contract
	Task     string         `json:"taskId"`
	To       string         `json:"to"` // our name of the contact
	Tools    []string       `json:"tools"`
	Resource string         `json:"resource"`
	Uses     int64          `json:"uses"`
	Left     int64          `json:"left"`
	Until    time.Time      `json:"until"`
	Off      string         `json:"off,omitempty"` // why no call by it is taken any more
}

// LentTools lists what others may call of ours; all says also what ended.
func (g *Gateway) LentTools(ctx context.Context, by Caller, all bool) (out []Lent, err error) {
	if err := by.Person(); err != nil {
		return nil, err
	}
	out = []Lent{}
	err = g.view(ctx, func(t *turn) error {
		rows, err := tokens.All(t.Tx)
		if err != nil {
			return err
		}
		for _, r := range rows {
			k, d, err := t.token(r.V)
			if err != nil {
				return err
			}
			if k.Issuer != g.Agent.DID() {
				continue
			}
			v, err := t.lent(r.V, k, d)
			if err != nil {
				return err
			}
			if all || v.Off == "" {
				out = append(out, v)
			}
		}
		sort.Slice(out, func(i, j int) bool { return out[i].Until.Before(out[j].Until) })
		return nil
	})
	return out, err
}

func (t *turn) lent(r tokenRow, k *manifest.CapabilityToken, d signing.Digest) (Lent, error) {
	row, err := t.row(r.Task)
	if err != nil {
		return Lent{}, err
	}
	l, err := t.ledger([]policy.Account{policy.GrantAccount(row.Key, k.CapabilityID), policy.LinkAccount(row.Key, d)})
	v := Lent{Digest: d, Grant: k.CapabilityID.String(), Task: row.Key.ID.String(), To: t.trust.Contacts[row.Peer].Name, Tools: k.AllowedTools, Resource: k.Resource.String(),
		Uses: k.MaxInvocations, Left: policy.UsesLeft(l, row.Key, k, d), Until: k.ExpiresAt.Time(), Off: r.Off}
	switch {
	case v.Off != "":
	case t.trust.IsRevoked(t.g.Owner, d):
		v.Off = "revoked"
	case row.Task.Outcome(t.now) != "":
		v.Off = "the task ended: " + row.Task.Outcome(t.now)
	case !t.now.Before(v.Until):
		v.Off = "expired"
	case t.trust.Contacts[row.Peer].Blocked:
		v.Off = "the contact is blocked"
	}
	return v, err
}

// TakingBack ends a token of ours. It needs no key, because it narrows; with the
// owner's signed revocation the other side is told until it has acknowledged it (I7).
type TakingBack struct {
	Token      string `json:"token"` // an ending of its digest or of its grant's id
	Reason     string `json:"reason"`
	Revocation string `json:"revocation,omitempty"` // signed, of exactly this token
}

// TakeBack honours no call by a token from this turn on: what was reserved and
// not begun is refused, and nobody is asked about it any more (C2k, C2n).
func (g *Gateway) TakeBack(ctx context.Context, by Caller, in TakingBack) (out Lent, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	if in.Reason == "" || len([]rune(in.Reason)) > 1000 {
		return out, spec.Refuse(spec.Malformed, "/reason", "1 to 1,000 characters")
	}
	var signed manifest.Signed
	if in.Revocation != "" {
		if signed, err = manifest.Open([]byte(in.Revocation), g.keys); err != nil {
			return out, err
		}
	}
	err = g.turn(ctx, func(t *turn) error {
		key, r, err := t.findLent(in.Token)
		if err != nil {
			return err
		}
		k, d, err := t.token(r)
		if err != nil {
			return err
		}
		if !signed.IsZero() {
			if err := t.takenBack(signed, d); err != nil {
				return err
			}
		}
		if err := t.takeBack(key, &r, in.Reason); err != nil {
			return err
		}
		out, err = t.lent(r, k, d)
		return err
	})
	return out, err
}

// takenBack takes the owner's signed word and tells every contact.
func (t *turn) takenBack(s manifest.Signed, token signing.Digest) error {
	r, ok := s.Document().(*manifest.Revocation)
	if !ok || r.Target != "capability-token" || r.TargetDigest != token || r.OwnerDid != t.g.Owner {
		return spec.Refuse(spec.Conflict, "/revocation", "I7: of exactly this token, by its owner")
	}
	v, err := t.trust.Admit(s, t.now)
	if err != nil {
		return err
	}
	if err := t.identity(v); err != nil {
		return err
	}
	return t.tellAll(s)
}

func (t *turn) takeBack(key string, r *tokenRow, why string) error {
	if r.Off == "" {
		r.Off = cut(why, 1000)
		if err := tokens.Put(t.Tx, key, r.Task, *r); err != nil {
			return err
		}
		if err := t.note(r.Task, map[string]string{"token": key, "off": r.Off}); err != nil {
			return err
		}
	}
	rows, err := served.Group(t.Tx, r.Task)
	if err != nil {
		return err
	}
	for _, s := range rows {
		if s.V.State != string(manifest.CallPending) || signing.DigestOf(s.V.Chain[0].Bytes()).String() != key {
			continue
		}
		a, ok, err := asks.Get(t.Tx, s.V.Ask)
		if err != nil || !ok || a.State != string(approval.Waiting) {
			return err
		}
		if err := t.close(&a, approval.Withdrawn, "taken back: "+cut(why, 200)); err != nil {
			return err
		}
		if _, err := t.followCall(a); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) findLent(ref string) (key string, r tokenRow, err error) {
	if len(ref) < 4 {
		return "", r, spec.Refuse(spec.NotFound, "/token", "an ending of at least four characters")
	}
	rows, err := tokens.All(t.Tx)
	if err != nil {
		return "", r, err
	}
	low := strings.ToLower(ref)
	for _, x := range rows {
		k, d, err := t.token(x.V)
		if err != nil {
			return "", r, err
		}
		if k.Issuer != t.g.Agent.DID() || !strings.HasSuffix(d.String(), low) && !strings.HasSuffix(strings.ToLower(k.CapabilityID.String()), low) {
			continue
		}
		if key != "" {
			return "", r, spec.Refuse(spec.Conflict, "/token", "more than one token ends in "+manifest.Display(ref, 40))
		}
		key, r = x.Key, x.V
	}
	if key == "" {
		return "", r, spec.Refuse(spec.NotFound, "/token", "no token of ours ends in "+manifest.Display(ref, 40))
	}
	return key, r, nil
}

// takeBackAll takes back what a contact was granted, in one task or in all with "".
func (t *turn) takeBackAll(peer signing.DID, task, why string) error {
	rows, err := tokens.All(t.Tx)
	if err != nil {
		return err
	}
	for _, r := range rows {
		row, err := t.row(r.V.Task)
		if err != nil {
			return err
		}
		if row.Role != manifest.Requester || row.Peer != peer || task != "" && task != r.V.Task {
			continue
		}
		if err := t.takeBack(r.Key, &r.V, why); err != nil {
			return err
		}
	}
	return nil
}
