package audit

import (
	"fmt"
	"sort"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func sortEvents(es []*event) {
	sort.Slice(es, func(i, j int) bool {
		x, y := es[i], es[j]
		switch {
		case x.e.Seq != y.e.Seq:
			return x.e.Seq < y.e.Seq
		case x.role != y.role:
			return x.role < y.role
		}
		return x.doc.whole.String() < y.doc.whole.String()
	})
}

// heads holds what each side signed for against what is here: a head that is
// named and absent is a tail cut off, one that is another event is a fork or a
// replaced tail (H1, R4).
func (a *audit) heads() {
	var seals []*document
	for _, d := range a.sorted {
		if d.good() {
			if _, ok := isSeal(d.signed.Document()); ok {
				seals = append(seals, d)
				continue
			}
		}
		ack, ok := d.signed.Document().(*manifest.Acknowledgement)
		if !ok || d.by.IsZero() || ack.Task == nil {
			continue
		}
		r, _ := a.role(d.by.By())
		a.head(d, "/task/yours", r.Other(), ack.Task.Yours)
		a.head(d, "/task/mine", r, ack.Task.Mine)
	}
	switch {
	case a.bundle || len(seals) > 0:
		a.seal(seals)
	case len(a.events) > 0: // what is there may hold; whether it is all of it, nobody says
		a.missing("the seal of a bundle", "whoever exported it", "V4", "", "whoever exported it: a bundle")
	}
}

// head holds one named head against the chain of side r.
func (a *audit) head(d *document, path string, r manifest.Role, h *manifest.Head) bool {
	if h == nil {
		return true
	}
	var other *event
	for _, ev := range a.placed(r, h.Seq) {
		if ev.doc.whole == h.Digest {
			return true
		}
		other = ev
	}
	by := a.name(r)
	if other != nil {
		a.find(Wrong, spec.Conflict, d, path, "H1", fmt.Sprintf("%s's event %d is %s here, and %s signed for %s",
			by, h.Seq, other.doc.whole.Short(), a.signer(d), h.Digest.Short()))
	} else {
		a.find(Wrong, spec.NotFound, d, path, "R4", fmt.Sprintf("%s's event %d, %s, is missing; %s signed for it", by, h.Seq, h.Digest.Short(), a.signer(d)))
	}
	a.missing(fmt.Sprintf("%s's event %d", by, h.Seq), by, "R4", d.path+path, fmt.Sprintf("%s: event %d as sent (%s)", by, h.Seq, h.Digest.Short()))
	return false
}

// place is where an event stands; a fork has several at one place.
type place struct {
	role manifest.Role
	seq  int64
}

// placed are the events at one place. There may be an acknowledgement for each
// event, so nothing looks through all.
func (a *audit) placed(r manifest.Role, seq int64) []*event {
	if a.places == nil {
		a.places = make(map[place][]*event, len(a.events))
		for _, ev := range a.events {
			at := place{ev.role, ev.e.Seq}
			a.places[at] = append(a.places[at], ev)
		}
	}
	return a.places[place{r, seq}]
}

func (a *audit) signer(d *document) string {
	if r, ok := a.role(d.by.By()); ok {
		return a.name(r)
	}
	return "the signer"
}

// seal holds the one seal of a bundle: by an agent of the task, over the heads
// that are here and over every other document in its order.
func (a *audit) seal(seals []*document) {
	if len(seals) != 1 {
		a.find(Wrong, spec.VerificationFailed, nil, "/documents", "V4", fmt.Sprintf("%d seals; a bundle without exactly one is incomplete", len(seals)))
		a.missing("the seal of the bundle", "whoever exported it", "V4", "", "whoever exported it: the bundle again")
		return
	}
	d := seals[0]
	ack, _ := isSeal(d.signed.Document())
	r, party := a.role(d.signed.By())
	if d.by.IsZero() || !party {
		a.find(Wrong, spec.WrongSigner, d, "/signature/signerDid", "V4", "the seal is not by an agent of this task")
		return
	}
	a.sealer = r
	var digests []signing.Digest
	for _, other := range a.docs {
		if other != d {
			digests = append(digests, other.whole)
		}
	}
	held := true
	if len(ack.Documents) != 1 || ack.Documents[0] != sealOf(digests) {
		held = false
		a.find(Wrong, spec.BadDigest, d, "/documents/0", "V4", "the documents are not those that were sealed, in their order")
		a.missing("the bundle as it was sealed", a.name(r), "V4", d.path, a.name(r)+": the bundle again")
	}
	held = a.sealedHead(d, "/task/mine", r, ack.Task.Mine) && held
	held = a.sealedHead(d, "/task/yours", r.Other(), ack.Task.Yours) && held
	a.sealed = held
}

// sealedHead is stricter than head: the seal names the very end of a chain.
func (a *audit) sealedHead(d *document, path string, r manifest.Role, h *manifest.Head) bool {
	if !a.head(d, path, r, h) {
		return false
	}
	have := a.task.Head(r)
	if have == nil && h == nil || have != nil && h != nil && *have == *h || a.task.Broken() {
		return true
	}
	a.find(Wrong, spec.Conflict, d, path, "V4", "not the end of "+a.name(r)+"'s chain in this bundle")
	return false
}

// acknowledged says whether the other side signed for r's event of that seq, or a
// later one of the same chain: by an acknowledgement, or by an event that has seen it.
func (a *audit) acknowledged(r manifest.Role, seq int64) bool {
	in := map[signing.Digest]int64{}
	for _, ev := range a.events {
		if ev.role == r {
			in[ev.doc.whole] = ev.e.Seq
		}
	}
	for _, ev := range a.events {
		if ev.role != r && ev.e.Seen != nil && in[*ev.e.Seen] >= seq {
			return true
		}
	}
	for d := range a.evidence() {
		ack, ok := d.signed.Document().(*manifest.Acknowledgement)
		if !ok || d.by.IsZero() || ack.Task == nil || ack.Task.Yours == nil {
			continue
		}
		if by, _ := a.role(d.by.By()); by == r.Other() && in[ack.Task.Yours.Digest] == ack.Task.Yours.Seq && ack.Task.Yours.Seq >= seq {
			return true
		}
	}
	return false
}

// gates looks at what the contract needs where no event says it: both
// signatures, and the decisions of CONTRACT_ACCEPT.
func (a *audit) gates() {
	if a.m.TaskID.IsZero() {
		return
	}
	signed := a.signatures()
	if a.m.Worker == nil { // nothing is missing that could make it bind
		if signed[manifest.Requester] {
			a.rep.Facts.Signed = append(a.rep.Facts.Signed, manifest.Requester)
		}
		a.find(Note, spec.GateOpen, nil, "/worker", "M10", "an open proposal: it names nobody who would do the work and is never binding")
		return
	}
	for _, r := range []manifest.Role{manifest.Requester, manifest.Worker} {
		if signed[r] {
			a.rep.Facts.Signed = append(a.rep.Facts.Signed, r)
		} else {
			a.missing("the "+string(r)+"'s signature under the manifest", a.name(r), "S6", "", a.name(r)+": the signed manifest")
		}
	}
	if len(a.events) > 0 || !a.m.HITLPolicy.Names(manifest.ContractGate) {
		return
	}
	for _, r := range []manifest.Role{manifest.Requester, manifest.Worker} {
		if !a.decidedAlone(r) {
			a.missing("CONTRACT_ACCEPT by the "+string(r)+"'s owner", a.name(r), "G1", "", a.name(r)+": the gate decision")
		}
	}
}

// signatures are the sides that signed the manifest: in its own document, or in proposed and accepted.
func (a *audit) signatures() map[manifest.Role]bool {
	out := map[manifest.Role]bool{}
	for d := range a.evidence() {
		if d.typ == "task-manifest" && d.signed.Digest() == a.digest {
			for _, m := range d.signed.Marks() {
				out[m.Role] = true
			}
		}
	}
	for _, ev := range a.events {
		switch ev.e.Body.Fact.(type) {
		case manifest.Proposed:
			out[manifest.Requester] = true
		case manifest.Accepted:
			out[manifest.Worker] = out[manifest.Worker] || a.task.Accepted() != nil
		}
	}
	return out
}

func (a *audit) decidedAlone(r manifest.Role) bool {
	for _, c := range a.consents {
		if c.Gate == manifest.ContractGate && c.Owner == a.party(r).OwnerDid && c.Lasts == "once" &&
			c.Subject == contractSubject(a.payload, a.task.Passes()) && c.Contract == contractOf(a.digest) {
			return true
		}
	}
	return false
}

// contractOf is the contract digest of a manifest without amendments (H10).
func contractOf(manifestDigest signing.Digest) signing.Digest {
	text, _ := jcs.Text(manifestDigest.String())
	return signing.DigestOf(jcs.List(text).Bytes())
}

// endings says of each ending whether the other side signed for it (R4a).
func (a *audit) endings() (binding bool) {
	binding = true
	for _, e := range a.task.Endings() {
		ok := a.acknowledged(e.By, e.Seq)
		a.rep.Facts.Endings = append(a.rep.Facts.Endings, Ending{e.Kind, e.By, e.Seq, e.At, ok})
		if final := a.task.Endings()[0]; e.By == final.By && !ok {
			binding = false
			other := a.name(e.By.Other())
			what := fmt.Sprintf("%s's acknowledgement of %s", other, e.Kind)
			a.find(Absent, spec.NotFound, nil, "", "R4a", what+" is missing: nothing shows that it arrived")
			a.missing(what, other, "R4a", "", fmt.Sprintf("%s: its acknowledgement of event %d of %s", other, e.Seq, a.name(e.By)))
		}
	}
	return binding
}
