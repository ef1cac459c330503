package audit

import (
	"errors"
	"slices"
	"sort"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func specOf(err error) *spec.Error {
	var e *spec.Error
	if errors.As(err, &e) {
		return e
	}
	return &spec.Error{Reason: spec.Internal}
}

// ruleIn is the rule's number where a limit begins with one.
func ruleIn(limit string) string {
	rule, _, _ := strings.Cut(limit, ":")
	if len(rule) < 2 || len(rule) > 4 || rule[0] < 'A' || rule[0] > 'Z' || rule[1] < '0' || rule[1] > '9' {
		return ""
	}
	return rule
}

// identify counts what holds by arithmetic and finds the one contract that the
// documents are about.
func (a *audit) identify() {
	a.rep.File, a.rep.Documents = a.o.File, len(a.docs)
	a.rep.Kind = "documents"
	switch {
	case a.bundle:
		a.rep.Kind = "bundle"
	case len(a.docs) == 1:
		a.rep.Kind = a.docs[0].typ
	}
	events := map[signing.Digest]int{}
	found := map[signing.Digest]*document{}
	for _, d := range a.sorted {
		a.arithmetic(d)
		if !d.good() {
			continue
		}
		switch doc := d.signed.Document().(type) {
		case *manifest.TaskManifest:
			found[d.signed.Digest()] = d
		case *manifest.Event:
			events[doc.ManifestDigest]++
			if _, ok := doc.Body.Fact.(manifest.Proposed); ok && found[doc.ManifestDigest] == nil {
				found[doc.ManifestDigest] = d
			}
		}
	}
	best := ""
	for digest, d := range found {
		n := events[digest]
		if b, ok := mustDigest(best); best == "" || ok && (n > events[b] || n == events[b] && digest.String() < best) {
			best = digest.String()
			a.digest = digest
			a.payload, a.m = contractIn(d)
		}
	}
}

func mustDigest(s string) (signing.Digest, bool) {
	d, err := signing.ParseDigest(s)
	return d, err == nil
}

func contractIn(d *document) (payload jcs.Value, m manifest.TaskManifest) {
	switch doc := d.signed.Document().(type) {
	case *manifest.TaskManifest:
		return d.value.Without("signatures"), *doc
	case *manifest.Event:
		p, _ := doc.Body.Fact.(manifest.Proposed)
		m, _ = manifest.ReadManifest(p.Manifest)
		return p.Manifest, m
	}
	return payload, m
}

// arithmetic reports the word of each block (S1–S5), shape and rules.
func (a *audit) arithmetic(d *document) {
	for _, w := range d.words {
		if w.Word == "" {
			a.rep.Signatures++
			continue
		}
		e := specOf(w.Err)
		a.find(Wrong, w.Word, d, e.Path, orText(ruleIn(e.Limit), "S"), "signature block: "+orText(e.Limit, string(w.Word)))
	}
	switch {
	case d.bad():
	case d.typ == "ask" && d.err != nil:
		a.wrong(d, "", d.err)
	case d.err != nil && specOf(d.err).Reason == spec.UnknownType:
		a.find(Note, spec.UnknownType, d, "/type", "S4", "not read by this version: left out of account")
	case d.err != nil:
		a.wrong(d, "", d.err)
	case d.ask == nil && len(d.words) == 0:
		a.find(Note, spec.UnknownType, d, "", "V4", "has no signature: left out of account")
	}
	if d.good() {
		a.rep.Signatures += embedded(d.signed.Document())
	}
}

// embedded is how many blocks inside an event hold by Open already, or are held by the replay.
func embedded(doc manifest.Document) int {
	e, ok := doc.(*manifest.Event)
	if !ok {
		return 0
	}
	switch f := e.Body.Fact.(type) {
	case manifest.Proposed:
		return 1
	case manifest.Delivered:
		if f.Delivery.Receipt != nil {
			if s, err := manifest.OpenValue(*f.Delivery.Receipt, nil); err == nil && !s.IsZero() {
				return 1
			}
		}
	}
	return 0
}

func orText(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// owners are the parties' owner keys; where no contract is, the owner that a single document names.
func (a *audit) owners() []signing.DID {
	if a.m.TaskID.IsZero() {
		if len(a.docs) != 1 || !a.docs[0].good() {
			return nil
		}
		return ownerNamed(a.docs[0].signed)
	}
	out := []signing.DID{a.m.Requester.OwnerDid}
	if a.m.Worker != nil {
		out = append(out, a.m.Worker.OwnerDid)
	}
	return out
}

func ownerNamed(s manifest.Signed) []signing.DID {
	switch d := s.Document().(type) {
	case *manifest.AgentCertificate:
		return []signing.DID{d.OwnerDid}
	case *manifest.Revocation:
		return []signing.DID{d.OwnerDid}
	case *manifest.GateDecision:
		return []signing.DID{d.OwnerDid}
	case *manifest.Invite:
		return []signing.DID{d.OwnerDid}
	case *manifest.ContactRequest:
		return []signing.DID{d.OwnerDid}
	}
	return nil
}

// certify folds the certificates and box-keys of the owners that the contract
// names (I4, I6). A document counts if the keys it needs were good at the time
// that it claims; whether that time is true is claimed, not proven (T5).
func (a *audit) certify() {
	t := manifest.NewTrust(signing.DID{})
	for _, owner := range a.owners() {
		t = t.Put(owner, manifest.Contact{Confirmed: true})
	}
	certs, keys := a.identities()
	a.trusts = append(a.trusts, t)
	for _, c := range certs {
		t = a.fold(t, c)
		for _, k := range keys[c.signed.Digest()] {
			t = a.fold(t, k)
		}
		a.trusts = append(a.trusts, t)
	}
}

// identities are the good certificates by serial, and the box-keys of each by seq.
func (a *audit) identities() (certs []*document, keys map[signing.Digest][]*document) {
	keys = map[signing.Digest][]*document{}
	ours := a.owners()
	seen := map[signing.Digest]bool{}
	for _, d := range a.sorted {
		if !d.good() || seen[d.whole] {
			continue
		}
		seen[d.whole] = true
		switch doc := d.signed.Document().(type) {
		case *manifest.AgentCertificate:
			if slices.Contains(ours, doc.OwnerDid) {
				certs = append(certs, d)
			}
		case *manifest.BoxKey:
			keys[doc.CertificateDigest] = append(keys[doc.CertificateDigest], d)
		}
	}
	sort.Slice(certs, func(i, j int) bool {
		x, y := certs[i].signed.Document().(*manifest.AgentCertificate), certs[j].signed.Document().(*manifest.AgentCertificate)
		if x.Serial != y.Serial {
			return x.Serial < y.Serial
		}
		return certs[i].whole.String() < certs[j].whole.String()
	})
	for _, ks := range keys {
		sort.Slice(ks, func(i, j int) bool {
			x, y := ks[i].signed.Document().(*manifest.BoxKey), ks[j].signed.Document().(*manifest.BoxKey)
			if x.Seq != y.Seq {
				return x.Seq < y.Seq
			}
			return ks[i].whole.String() < ks[j].whole.String()
		})
	}
	return certs, keys
}

func (a *audit) fold(t manifest.Trust, d *document) manifest.Trust {
	v, err := t.Admit(d.signed, signedAt(d.signed))
	if err == nil {
		var next manifest.Trust
		if next, err = t.Apply(v); err == nil {
			d.by, d.used = v, true
			return next
		}
	}
	a.wrong(d, "", err)
	return t
}

// signedAt is the latest time that the signers claim.
func signedAt(s manifest.Signed) (at time.Time) {
	for _, m := range s.Marks() {
		if m.At.Time().After(at) {
			at = m.At.Time()
		}
	}
	return at
}

// admit is S6 for one document: the newest trust that lets it in, or the word of the newest.
func (a *audit) admit(s manifest.Signed) (v manifest.Verified, err error) {
	for i := len(a.trusts) - 1; i >= 0; i-- {
		got, e := a.trusts[i].Admit(s, signedAt(s))
		if e == nil {
			return got, nil
		}
		if err == nil {
			err = e
		}
	}
	return v, err
}

// judge says of every document whether it is evidence of this task, and
// whether who signed it may say it.
func (a *audit) judge() {
	if a.m.TaskID.IsZero() {
		return // no contract: nothing to hold the documents against
	}
	certified := map[signing.DID]bool{}
	for _, d := range a.sorted {
		if !d.good() || d.used {
			continue
		}
		if why := a.foreign(d); why != "" {
			a.find(Note, spec.NotFound, d, "", "V4", why+": left out of account")
			continue
		}
		v, err := a.admit(d.signed)
		switch {
		case err == nil && a.speaks(d, v):
			d.by, d.used = v, true
		case err == nil:
			a.find(Wrong, spec.WrongSigner, d, "/signature/signerDid", "S6", "not the side that may say this")
		case specOf(err).Reason == spec.UnknownKey && !a.bundle && (len(a.docs) == 1 || d.typ == "task-manifest"):
			a.uncertified(d, certified)
		case specOf(err).Reason == spec.UnknownKey && certified[d.signed.By()]:
			// said once for each key
		default:
			certified[d.signed.By()] = true
			a.wrong(d, "", err)
		}
	}
}

// uncertified is no fault of a document that comes alone: it is verified, and
// binds nobody until the certificate is shown.
func (a *audit) uncertified(d *document, once map[signing.DID]bool) {
	d.used = true
	for _, m := range d.signed.Marks() {
		if !once[m.By] {
			once[m.By] = true
			a.find(Absent, spec.UnknownKey, d, "", "I4", "no certificate and box-key for "+m.By.String())
		}
	}
}

// foreign says why a document is not about this task; "" for one that is.
func (a *audit) foreign(d *document) string {
	const other = "of another task"
	switch doc := d.signed.Document().(type) {
	case *manifest.TaskManifest:
		if d.signed.Digest() != a.digest {
			return other
		}
	case *manifest.Event:
		if doc.TaskID != a.m.TaskID || doc.ManifestDigest != a.digest {
			return other
		}
		if _, ok := a.role(doc.Author); !ok {
			return "by a third party"
		}
	case *manifest.UsageReceipt:
		if doc.TaskID != a.m.TaskID || doc.ManifestDigest != a.digest {
			return other
		}
	case *manifest.Acknowledgement:
		if doc.Task != nil && (doc.Task.TaskID != a.m.TaskID || doc.Task.ManifestDigest != a.digest) {
			return other
		}
	case *manifest.GateDecision:
		if doc.TaskID != a.m.TaskID {
			return other
		}
	case *manifest.AgentCertificate, *manifest.BoxKey, *manifest.Revocation:
		if !slices.Contains(a.owners(), named(d.signed)) {
			return "of an owner who is no party"
		}
	}
	if _, ok := a.role(d.signed.By()); !ok && !slices.Contains(a.owners(), d.signed.By()) && d.typ != "task-manifest" {
		return "by a third party"
	}
	return ""
}

func named(s manifest.Signed) signing.DID {
	if k, ok := s.Document().(*manifest.BoxKey); ok {
		return k.OwnerDid
	}
	if o := ownerNamed(s); len(o) > 0 {
		return o[0]
	}
	return signing.DID{}
}

// role is the side whose task agent did is.
func (a *audit) role(did signing.DID) (manifest.Role, bool) {
	switch {
	case did == a.m.Requester.AgentDid:
		return manifest.Requester, true
	case a.m.Worker != nil && did == a.m.Worker.AgentDid:
		return manifest.Worker, true
	}
	return "", false
}

func (a *audit) party(r manifest.Role) manifest.Party {
	if r == manifest.Worker && a.m.Worker != nil {
		return *a.m.Worker
	}
	if r == manifest.Worker {
		return manifest.Party{}
	}
	return a.m.Requester
}

// speaks holds the owner behind the signer against the contract: what an agent
// says of this task it says for the owner that the contract names beside it.
func (a *audit) speaks(d *document, v manifest.Verified) bool {
	switch doc := d.signed.Document().(type) {
	case *manifest.UsageReceipt:
		if r, ok := a.role(v.By()); !ok || r != manifest.Worker {
			return false
		}
	case *manifest.Acknowledgement:
		if r, ok := a.role(v.By()); doc.Task != nil && (!ok || doc.To != a.party(r.Other()).AgentDid) {
			return false
		}
	}
	r, ok := a.role(v.By())
	return !ok || v.Owner() == a.party(r).OwnerDid
}
