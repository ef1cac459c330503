package task

import (
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// Next is the event that author would say now: seq, prev and seen filled. Its
// at is never before the author's last.
func (t Task) Next(author signing.DID, b manifest.Body, at time.Time) manifest.Event {
	e := manifest.Event{Type: "sealbridge/event", ProtocolVersion: manifest.ProtocolVersion, TaskID: t.key.ID,
		ManifestDigest: t.digest, Author: author, Seq: 1, At: signing.TimeOf(at), Body: b}
	if p, ok := b.Fact.(manifest.Proposed); ok && t.IsZero() {
		var m manifest.TaskManifest
		if jcs.Decode(p.Manifest, &m) == nil {
			e.TaskID, e.ManifestDigest = m.TaskID, signing.DigestOf(p.Manifest.Bytes())
		}
	}
	role, ok := t.RoleOf(author)
	if !ok {
		return e
	}
	if h := t.Head(role); h != nil {
		e.Seq, e.Prev = h.Seq+1, &h.Digest
		c := t.chains[side(role)]
		if last := c.at(c.index(h.Digest)).At; e.At.Time().Before(last.Time()) {
			e.At = last
		}
	}
	if h := t.Head(role.Other()); h != nil {
		e.Seen = &h.Digest
	}
	return e
}

// Legal says whether author may say b now, without saying it.
func (t Task) Legal(author signing.DID, b manifest.Body, at time.Time) error {
	v, err := t.View(t.Next(author, b, at))
	if err != nil {
		return err
	}
	return v.Legal()
}

// View is the task as the author of one event saw it (H3).
type View struct {
	v    view
	n    entry
	last signing.Time // of the author's event before
}

// View is the view of an event that would be its author's next. The event need
// not be signed. Of a task that is not there it is the one before a proposal.
func (t Task) View(e manifest.Event) (View, error) {
	n := entryOf(e, signing.Digest{})
	u, err := t.admit(e, n)
	if err != nil {
		return View{}, err
	}
	role, _ := u.RoleOf(e.Author)
	s := side(role)
	if err := u.gap(s, n); err != nil {
		return View{}, err
	}
	if n.Prev != u.heads[s] || u.breaks[s] != nil {
		return View{}, &TransitionError{Author: role, Seq: n.Seq, Kind: n.Kind, Fork: true, Cause: "H6: not the next of its chain"}
	}
	seen, err := seenIn(n, u.chains[1-s], u.seen[s])
	if err == nil && seen > u.counted[1-s] {
		err = illegal("H1: has seen what does not count")
	}
	if err != nil {
		return View{}, &TransitionError{Author: role, Seq: n.Seq, Kind: n.Kind, Cause: causeOf(err)}
	}
	d, disputed := e.Body.Fact.(manifest.Disputed)
	view := View{v: view{f: &u.f, author: role, seen: seen, broken: disputed && len(d.Enclosed) > 0 && u.breaks[1-s] != nil}, n: n}
	if i := u.chains[s].index(n.Prev); i >= 0 {
		view.last = u.chains[s].at(i).At
	}
	return view, nil
}

// Legal says whether the table has a row for the event in this view; the error
// is a *TransitionError.
func (v View) Legal() error {
	err := error(nil)
	if v.n.At.Time().Before(v.last.Time()) {
		err = illegal("H1: at runs backwards")
	} else {
		_, err = find(v.v, v.n)
	}
	if err != nil {
		return &TransitionError{Author: v.v.author, Seq: v.n.Seq, Kind: v.n.Kind, Cause: causeOf(err)}
	}
	return nil
}

// Role is the author's side.
func (v View) Role() manifest.Role { return v.v.author }

// State is where the task stood for the author.
func (v View) State() State { return v.v.state() }

// InForce is the contract in force for the author.
func (v View) InForce() Contract { return v.v.contract() }

// Delivery is the newest revision that the author knew; nil before the first.
func (v View) Delivery() *Delivery { return v.v.delivery() }

// Ask is one ask as the author knew it, by the digest of its asked event.
func (v View) Ask(event signing.Digest) (Ask, bool) { return v.v.ask(event) }

// Accepted is what the worker's gateway had said for the author; nil before it accepted.
func (v View) Accepted() *Terms {
	if v.v.unseen(manifest.Worker, v.v.f.AcceptedAt) {
		return nil
	}
	return v.v.f.Accepted
}

// Opened says whether the worker's agent may reach a host, for the author (X1).
func (v View) Opened(host string) bool {
	for _, o := range v.v.f.Opened {
		if o.Host == host && !v.v.unseen(manifest.Worker, o.Seq) {
			return true
		}
	}
	return false
}
