// Package task answers one question: what state follows? [Apply] folds the
// events of one task (protocol section 6), judging each in its author's view.
//
// A [Task] is the set of events that were applied, kept as little as the fold
// needs, and what they come to. Equal sets are equal tasks, whatever the order
// of arrival (L1). What an honest pair of gateways says is counted as it comes,
// in constant work an event; a break (H6) counts the set again from its
// beginning.
package task

import (
	"slices"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// Task is the fold of a set of events: a value, equal for equal sets, in any
// order of arrival (L1). It goes through encoding/json and comes back equal.
type Task struct {
	key     manifest.TaskKey
	digest  signing.Digest // of the original manifest
	payload jcs.Value      // the original manifest, without signatures
	passes  []jcs.Value    // that came with it, from the root down; never written
	agents  [2]signing.DID
	read    *manifest.TaskManifest // payload, read once; never written

	chains  [2]chain
	f       fold
	counted [2]int64 // how many events of each side count
	seen    [2]int64 // what the last of them had seen of the other side
	heads   [2]signing.Digest
	breaks  [2]*Break
}

// IsZero says whether no event was applied.
func (t Task) IsZero() bool { return t.digest.IsZero() }

// Key names the task for us: the requester's owner and the task id (M11).
func (t Task) Key() manifest.TaskKey { return t.key }

// State is where the task stands; endings and breaks stand beside it.
func (t Task) State() State { return t.f.State }

// Payload is the original manifest in canonical form, without signatures.
func (t Task) Payload() jcs.Value { return t.payload }

// Passes are the delegation-passes that came with the proposal, from the root down (P2).
func (t Task) Passes() []jcs.Value { return kept(t.passes) }

// ManifestDigest is the digest of the original manifest, for ever (S8).
func (t Task) ManifestDigest() signing.Digest { return t.digest }

// Manifest is the original. What it points to is shared: it is only read.
func (t Task) Manifest() (m manifest.TaskManifest) {
	if t.read != nil {
		m = *t.read
	}
	return m
}

// Contract is the manifest in force, with the amendments of its line in it, and its digest (H10).
func (t Task) Contract() (manifest.TaskManifest, signing.Digest) {
	return t.ContractAs(t.InForce())
}

// InForce is the contract in force.
func (t Task) InForce() Contract {
	if len(t.f.Line) == 0 {
		return Contract{}
	}
	return t.f.Line[len(t.f.Line)-1]
}

// ContractAs is the manifest with what c changes.
func (t Task) ContractAs(c Contract) (manifest.TaskManifest, signing.Digest) {
	m := t.Manifest()
	m.Deadline, m.Verification.MaxRetries = c.Deadline, c.MaxRetries
	m.Budget.MaxInputTokens, m.Budget.MaxOutputTokens = c.Limits.InputTokens, c.Limits.OutputTokens
	m.Budget.MaxToolInvocations, m.Budget.MaxWallClockSeconds = c.Limits.ToolInvocations, c.Limits.WallClockSeconds
	grants := []manifest.Grant{}
	for _, g := range m.Permissions.GrantedCapabilities {
		if !slices.Contains(c.Withdrawn, g.CapabilityID) {
			grants = append(grants, g)
		}
	}
	m.Permissions.GrantedCapabilities = grants
	return m, c.Digest
}

// RoleOf says which side the agent works for; ok is false for a third one.
func (t Task) RoleOf(agent signing.DID) (manifest.Role, bool) {
	for s, a := range t.agents {
		if !a.IsZero() && a == agent {
			return roles[s], true
		}
	}
	return "", false
}

// ProposedAt is the requester's claim of when it proposed; the zero Time before.
func (t Task) ProposedAt() signing.Time {
	if t.chains[0].len() == 0 {
		return signing.Time{}
	}
	return t.chains[0].at(0).At
}

// Agent is the task agent of a side; the zero DID where the manifest names none.
func (t Task) Agent(r manifest.Role) signing.DID { return t.agents[side(r)] }

// Head is a side's newest event that counts; nil before the first.
func (t Task) Head(r manifest.Role) *manifest.Head {
	n := t.counted[side(r)]
	if n == 0 {
		return nil
	}
	return &manifest.Head{Seq: n, Digest: t.heads[side(r)]}
}

// Held says whether the event was applied, whether or not it counts.
func (t Task) Held(r manifest.Role, event signing.Digest) bool {
	return t.chains[side(r)].index(event) >= 0
}

// Usage is the worker's newest figures; nil before the first.
func (t Task) Usage() *manifest.Usage { return t.f.Usage }

// Accepted is what the worker's gateway said of box and model; nil before it accepted.
func (t Task) Accepted() *Terms { return t.f.Accepted }

// Limits are the four meters of the contract in force.
func (t Task) Limits() manifest.Meters { return t.InForce().Limits }

// Deadline is that of the contract in force.
func (t Task) Deadline() time.Time { return t.InForce().Deadline.Time() }

// Asks are the questions between the owners, the requester's first, each side's in order.
func (t Task) Asks() []Ask { return kept(t.f.Asks) }

// Ask is one ask, by the digest of its asked event.
func (t Task) Ask(event signing.Digest) (Ask, bool) {
	for _, a := range t.f.Asks {
		if a.Event == event {
			return a, true
		}
	}
	return Ask{}, false
}

// Lapsed says whether an open ask builds on a contract no longer in force (H9).
func (t Task) Lapsed(a Ask) bool { return a.Status == AskOpen && a.Base != t.InForce().Digest }

// Delivery is the newest revision; nil before the first.
func (t Task) Delivery() *Delivery {
	if n := len(t.f.Deliveries); n > 0 {
		d := t.f.Deliveries[n-1]
		return &d
	}
	return nil
}

// Deliveries are all revisions, in order.
func (t Task) Deliveries() []Delivery { return kept(t.f.Deliveries) }

// Stopped says whether the worker said its last word after the requester had ended the task (B3).
func (t Task) Stopped() bool { return t.f.StoppedAt != 0 }

// Children are the delegated children, in order.
func (t Task) Children() []Child { return kept(t.f.Children) }

// Opened are the hosts that the worker's agent may reach, in order (X1).
func (t Task) Opened() []Opened { return kept(t.f.Opened) }

// Granted are the digests of the tokens that the requester handed over, in order (C2).
func (t Task) Granted() []signing.Digest { return kept(t.f.Granted) }

// Disputes are both sides' disputed events, the requester's first.
func (t Task) Disputes() []Dispute { return kept(t.f.Disputes) }

// Endings are the endings that were said, the requester's first.
func (t Task) Endings() []Ending {
	var out []Ending
	for _, e := range t.f.Ends {
		if e != nil {
			out = append(out, *e)
		}
	}
	return out
}

// Break is why a side's chain counts only in part; nil for a whole chain (H6).
func (t Task) Break(r manifest.Role) *Break { return t.breaks[side(r)] }

// Broken says whether either chain broke.
func (t Task) Broken() bool { return t.breaks[0] != nil || t.breaks[1] != nil }

// Decision is the digest of the gate-decision that came with a counted event; zero for none.
func (t Task) Decision(r manifest.Role, event signing.Digest) signing.Digest {
	c := t.chains[side(r)]
	if i := c.index(event); i >= 0 {
		return c.at(i).Decision
	}
	return signing.Digest{}
}
