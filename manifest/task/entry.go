package task

import (
	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// entry is what the fold keeps of one event: its place in the chains and what a
// later event may refer to. Texts, files and outputs stay in the journal.
type entry struct {
	Seq    int64          `json:"seq"`
	Digest signing.Digest `json:"digest"`
	Prev   signing.Digest `json:"prev,omitzero"`
	Seen   signing.Digest `json:"seen,omitzero"`
	At     signing.Time   `json:"at"`
	Kind   manifest.Kind  `json:"kind"`

	Bad       string              `json:"bad,omitempty"`      // why the event is illegal in every view
	Of        signing.Digest      `json:"of,omitzero"`        // asked, delivered: the contract; answered, delegated: the event; rejected, completed: the delivery
	Doc       signing.Digest      `json:"doc,omitzero"`       // delivered: of the delivery; asked, delegated: of the child
	Yes       bool                `json:"yes,omitempty"`      // answered: yes; rejected: again
	Revision  int64               `json:"revision,omitempty"` // delivered
	Amendment *manifest.Amendment `json:"amendment,omitempty"`
	Change    signing.Digest      `json:"change,omitzero"`  // asked: digest of the amendment
	Part      *manifest.Child     `json:"part,omitempty"`   // asked: the child, whose digest is Doc
	Tokens    []signing.Digest    `json:"tokens,omitempty"` // granted
	Reserved  *manifest.Meters    `json:"reserved,omitempty"`
	Usage     *manifest.Usage     `json:"usage,omitempty"`
	Decision  signing.Digest      `json:"decision,omitzero"` // of the gate-decision that came with it
	Reason    string              `json:"reason,omitempty"`  // declined, failed, cancelled, answered: in the author's words
	Accepted  *Terms              `json:"accepted,omitempty"`
	Opens     string              `json:"opens,omitempty"`    // progressed: a host
	Enclosed  []signing.Digest    `json:"enclosed,omitempty"` // disputed: the events that break the other chain
}

// Terms are what the worker's gateway said when it accepted (X6).
type Terms struct {
	At        signing.Time       `json:"at"`
	Isolation manifest.Isolation `json:"isolation"`
	Model     string             `json:"model"`
	Providers []string           `json:"providers,omitempty"`
}

// DigestOf is the SHA-256 of the canonical JSON of a body of an event that has
// no signature of its own: a delivery, an amendment. Zero if it has no canonical form.
func DigestOf(part any) signing.Digest {
	v, err := jcs.Encode(part)
	if err != nil {
		return signing.Digest{}
	}
	return signing.DigestOf(v.Bytes())
}

func digestOfValue(v *jcs.Value) signing.Digest {
	if v == nil || v.IsZero() {
		return signing.Digest{}
	}
	return signing.DigestOf(v.Bytes())
}

// entryOf reads an event. It judges only what is illegal in every view.
func entryOf(e manifest.Event, digest signing.Digest) entry {
	n := entry{Seq: e.Seq, Digest: digest, At: e.At}
	if e.Prev != nil {
		n.Prev = *e.Prev
	}
	if e.Seen != nil {
		n.Seen = *e.Seen
	}
	if e.Body.Fact == nil {
		n.Bad = "no body"
		return n
	}
	n.Kind = e.Body.Fact.Kind()
	n.read(e.Body.Fact)
	return n
}

func (n *entry) read(f manifest.Fact) {
	switch b := f.(type) {
	case manifest.Proposed:
		n.Decision = digestOfValue(b.Decision)
	case manifest.Accepted:
		n.Decision = digestOfValue(b.Decision)
		n.Accepted = &Terms{n.At, b.Isolation, b.Model, kept(b.Providers)}
	case manifest.Declined:
		n.Reason = b.Reason
	case manifest.Granted:
		for _, t := range b.Tokens {
			n.Tokens = append(n.Tokens, signing.DigestOf(t.Bytes()))
		}
	case manifest.Progressed:
		n.Usage = &b.Usage
		if b.Opens != nil {
			n.Opens, n.Decision = b.Opens.Host, digestOfValue(b.Opens.Decision)
		}
	case manifest.Delegated:
		n.Of, n.Doc, n.Reserved, n.Decision = b.Answer, b.Child, &b.Reserved, digestOfValue(b.Decision)
	case manifest.Asked:
		n.readAsk(b)
	case manifest.Answered:
		n.Of, n.Yes, n.Reason, n.Decision = b.Ask, b.Yes, b.Reason, digestOfValue(b.Decision)
	case manifest.Delivered:
		n.Of, n.Doc, n.Revision, n.Usage = b.Delivery.Contract, DigestOf(b.Delivery), b.Delivery.Revision, &b.Usage
		if n.Doc.IsZero() {
			n.Bad = "no canonical form"
		}
	case manifest.Rejected:
		n.Of, n.Yes = b.Delivery, b.Again
	case manifest.Completed:
		n.Of, n.Decision = b.Delivery, digestOfValue(b.Decision)
	case manifest.Failed:
		n.Usage, n.Reason = &b.Usage, b.Reason
	case manifest.Cancelled:
		n.Reason = b.Reason
	case manifest.Stopped:
		n.Usage = &b.Usage
	}
}

func (n *entry) readAsk(b manifest.Asked) {
	n.Of, n.Decision = b.Contract, digestOfValue(b.Decision)
	switch {
	case (b.Amendment == nil) == (b.Child == nil):
		n.Bad = "neither or both of amendment and child"
	case b.Child != nil:
		n.Part, n.Doc = b.Child, b.Child.Digest()
	default:
		a := *b.Amendment
		a.Withdraw = kept(a.Withdraw)
		n.Amendment, n.Change = &a, DigestOf(*b.Amendment)
		if n.Change.IsZero() {
			n.Bad = "no canonical form"
		}
	}
}

// kept is a copy of s; nil for an empty one, so that equal tasks stay equal through JSON.
func kept[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return append([]T(nil), s...)
}
