package task

import (
	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// Contract is a contract in force or once in force: the manifest's limits with
// the amendments of its line (H10).
type Contract struct {
	Digest     signing.Digest
	Deadline   signing.Time
	MaxRetries int64
	Limits     manifest.Meters
	Withdrawn  []manifest.CapabilityID
	Amendments []signing.Digest // in order

	By  manifest.Role // whose yes put it in force; "" for the manifest itself
	Seq int64         // of that yes
}

// AskStatus is what became of an ask.
type AskStatus string

const (
	AskOpen AskStatus = "open"
	AskYes  AskStatus = "yes"
	AskNo   AskStatus = "no"
)

// Ask is one question to the other owner (H9).
type Ask struct {
	By        manifest.Role
	Seq       int64
	Event     signing.Digest // of the asked event: its name
	At        signing.Time
	Base      signing.Digest // contract it builds on
	Amendment *manifest.Amendment
	Change    signing.Digest  // of the amendment
	Child     signing.Digest  // of the child manifest, or zero
	Part      *manifest.Child // the child; it is only read
	Decision  signing.Digest  // the asker's gate-decision, or zero

	Status         AskStatus
	Answer         signing.Digest // of the answered event, or zero
	AnswerSeq      int64
	AnswerDecision signing.Digest
	Reason         string // of a no
}

// Ending is one side's ending. Endings stand beside the state and beside each other (H4).
type Ending struct {
	Kind     manifest.Kind
	By       manifest.Role
	Seq      int64
	Event    signing.Digest
	At       signing.Time
	Reason   string
	Decision signing.Digest
	Delivery signing.Digest // of completed and rejected
}

// Delivery is one revision that was delivered; its text is in the event.
type Delivery struct {
	Event    signing.Digest
	Digest   signing.Digest // of the delivery's canonical JSON
	Contract signing.Digest
	Revision int64
	Seq      int64
	At       signing.Time
}

// Child is one delegated child (B3).
type Child struct {
	Manifest signing.Digest
	Reserved manifest.Meters
	Seq      int64
	Decision signing.Digest // of the worker's owner, or zero
}

// Opened is a host that the worker's agent may reach (X1).
type Opened struct {
	Host     string
	Seq      int64
	Decision signing.Digest // of the worker's owner, or zero
}

// Dispute is one disputed event (H12).
type Dispute struct {
	By    manifest.Role
	Seq   int64
	Event signing.Digest
	At    signing.Time
}

// fold is what a set of counted events comes to.
type fold struct {
	Created signing.Time
	Grants  []manifest.CapabilityID

	State      State
	AcceptedAt int64 // seq of accepted
	StartedAt  int64
	TurnAt     int64 // seq of the last delivered
	BackAt     int64 // seq of the last rejected that gave the turn back
	StoppedAt  int64
	Accepted   *Terms
	Line       []Contract // the manifest, then each amendment that was in force
	Asks       []Ask      // in the order of side, then seq
	Deliveries []Delivery
	Children   []Child
	Opened     []Opened  // in order
	Disputes   []Dispute // in the order of side, then seq
	Ends       [2]*Ending
	Usage      *manifest.Usage  // the worker's newest word
	Granted    []signing.Digest // tokens, in order
}

func side(r manifest.Role) int {
	if r == manifest.Requester {
		return 0
	}
	return 1
}

// start is the fold before its first event.
func start(m manifest.TaskManifest, digest signing.Digest) fold {
	f := fold{Created: m.CreatedAt, Line: []Contract{{
		Digest: contractDigest(digest, nil), Deadline: m.Deadline,
		MaxRetries: m.Verification.MaxRetries, Limits: m.Budget.Limits(),
	}}}
	for _, g := range m.Permissions.GrantedCapabilities {
		f.Grants = append(f.Grants, g.CapabilityID)
	}
	return f
}

// contractDigest is the SHA-256 of the JCS of [manifestDigest, amendment digests…] (H10).
func contractDigest(m signing.Digest, amendments []signing.Digest) signing.Digest {
	list := make([]jcs.Value, 0, 1+len(amendments))
	for _, d := range append([]signing.Digest{m}, amendments...) {
		v, _ := jcs.Text(d.String())
		list = append(list, v)
	}
	return signing.DigestOf(jcs.List(list...).Bytes())
}

// amended is c with one more amendment.
func (c Contract) amended(original signing.Digest, a Ask, by manifest.Role, seq int64) Contract {
	n := c
	n.By, n.Seq = by, seq
	n.Amendments = append(kept(c.Amendments), a.Change)
	n.Digest = contractDigest(original, n.Amendments)
	if a.Amendment.Budget != nil {
		n.Limits = *a.Amendment.Budget
	}
	if a.Amendment.Deadline != nil {
		n.Deadline = *a.Amendment.Deadline
	}
	if a.Amendment.MaxRetries != nil {
		n.MaxRetries = *a.Amendment.MaxRetries
	}
	n.Withdrawn = kept(append(kept(c.Withdrawn), a.Amendment.Withdraw...))
	return n
}

// apply is the effect of an event that was judged, without judging. It never
// writes into a slice that another Task may hold.
func (f fold) apply(r row, by manifest.Role, n entry, original signing.Digest) fold {
	switch r.effect {
	case moves:
		f.State = r.to
	case ends:
		f.Ends[side(by)] = &Ending{Kind: n.Kind, By: by, Seq: n.Seq, Event: n.Digest, At: n.At,
			Reason: n.Reason, Decision: n.Decision, Delivery: n.Of}
	}
	if n.Usage != nil {
		f.Usage = n.Usage
	}
	switch n.Kind {
	case manifest.KindAccepted:
		f.AcceptedAt, f.Accepted = n.Seq, n.Accepted
	case manifest.KindStarted:
		f.StartedAt = n.Seq
	case manifest.KindGranted:
		f.Granted = append(kept(f.Granted), n.Tokens...)
	case manifest.KindProgressed:
		if n.Opens != "" {
			f.Opened = append(kept(f.Opened), Opened{n.Opens, n.Seq, n.Decision})
		}
	case manifest.KindDelegated:
		f.Children = append(kept(f.Children), Child{n.Doc, *n.Reserved, n.Seq, n.Decision})
	case manifest.KindAsked:
		f.Asks = insertSide(f.Asks, Ask{By: by, Seq: n.Seq, Event: n.Digest, At: n.At, Base: n.Of, Amendment: n.Amendment,
			Change: n.Change, Child: n.Doc, Part: n.Part, Decision: n.Decision, Status: AskOpen}, Ask.place)
	case manifest.KindAnswered:
		f = f.answer(by, n, original)
	case manifest.KindDelivered:
		f.TurnAt = n.Seq
		f.Deliveries = append(kept(f.Deliveries), Delivery{n.Digest, n.Doc, n.Of, n.Revision, n.Seq, n.At})
	case manifest.KindRejected:
		if n.Yes {
			f.BackAt = n.Seq
		}
	case manifest.KindStopped:
		f.StoppedAt = n.Seq
	case manifest.KindDisputed:
		f.Disputes = insertSide(f.Disputes, Dispute{by, n.Seq, n.Digest, n.At}, Dispute.place)
	}
	return f
}

func (f fold) answer(by manifest.Role, n entry, original signing.Digest) fold {
	f.Asks = kept(f.Asks)
	for i := range f.Asks {
		a := &f.Asks[i]
		if a.Event != n.Of {
			continue
		}
		a.Status, a.Answer, a.AnswerSeq, a.AnswerDecision, a.Reason = AskNo, n.Digest, n.Seq, n.Decision, n.Reason
		if n.Yes {
			a.Status = AskYes
		}
		if n.Yes && a.Amendment != nil {
			f.Line = append(kept(f.Line), f.Line[len(f.Line)-1].amended(original, *a, by, n.Seq))
		}
	}
	return f
}

// place orders what two chains said, whichever came first: side, then seq.
func (a Ask) place() (int, int64)     { return side(a.By), a.Seq }
func (d Dispute) place() (int, int64) { return side(d.By), d.Seq }

func insertSide[T any](list []T, x T, place func(T) (int, int64)) []T {
	s, q := place(x)
	i := len(list)
	for i > 0 {
		ps, pq := place(list[i-1])
		if ps < s || ps == s && pq < q {
			break
		}
		i--
	}
	out := make([]T, 0, len(list)+1)
	return append(append(append(out, list[:i]...), x), list[i:]...)
}
