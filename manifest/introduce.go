package manifest

import (
	"slices"
	"time"

	"sealbridge/signing"
	"sealbridge/spec"
)

// Introduced says that an owner is known for tasks of others alone (C7): no
// invite was redeemed and no words can be compared.
func (c Contact) Introduced() bool { return len(c.For) > 0 && c.Invite.IsZero() }

// IntroduceFor pins an owner and its agent for one task, as an event of a
// contact introduced them (C7). Whoever is a contact already stays what it is;
// documents that are newer than what we have count by their own rules (I4).
func (t Trust) IntroduceFor(task string, in Introduction, at time.Time) (Trust, signing.DID, error) {
	cert, err := in.Agent()
	if err != nil {
		return t, signing.DID{}, err
	}
	owner := cert.OwnerDid
	c, known := t.Contacts[owner]
	switch {
	case owner == t.Self:
		return t, owner, spec.Refuse(spec.Conflict, "/certificate", "C7: another owner than ourselves")
	case known && !c.Introduced():
		return t, owner, nil
	case c.Blocked:
		return t, owner, spec.Refuse(spec.NotPermitted, "", "K3")
	}
	out := t
	if !known {
		if out, err = t.Introduce(owner, InviteID{}, in.Certificate, in.BoxKey, at); err != nil {
			return t, owner, err
		}
		c = out.Contacts[owner]
	}
	if !slices.Contains(c.For, task) {
		c.For = append(slices.Clone(c.For), task)
	}
	return out.Put(owner, c), owner, nil
}

// Dismiss ends what owners were introduced for; who was here for nothing else is forgotten.
func (t Trust) Dismiss(task string) Trust {
	for owner, c := range t.Contacts {
		if !slices.Contains(c.For, task) {
			continue
		}
		c.For = slices.DeleteFunc(slices.Clone(c.For), func(s string) bool { return s == task })
		if len(c.For) == 0 && c.Invite.IsZero() && !c.Confirmed {
			t = t.Remove(owner)
			continue
		}
		if len(c.For) == 0 {
			c.For = nil
		}
		t = t.Put(owner, c)
	}
	return t
}
