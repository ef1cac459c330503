package audit

import (
	"errors"
	"slices"
	"strings"

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
	a.handed()
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
	case d.hidden != nil:
		a.rep.Signatures++
		a.rep.Proven = append(a.rep.Proven, Entry{What: "some " + d.typ + " was signed, payload " + d.hidden.PayloadDigest.Short(), By: d.hidden.SignerDid.String(), Rule: "V5", Path: d.path})
		a.find(Note, spec.NotFound, d, "/redacted", "V5", "its text was left out: who signed what digest is proven, nothing else")
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
		case specOf(err).Reason == spec.UnknownKey && a.holders[d.signed.By()] && (d.typ == "tool-call" || d.typ == "tool-result"):
			a.find(Absent, spec.UnknownKey, d, "", "I4", "no certificate and box-key for "+d.signed.By().String())
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
	case *manifest.Claim: // M10: of whoever an open proposal went to, who is no party of anything yet
		return "a claim on an open proposal, never binding"
	case *manifest.AgentCertificate, *manifest.ApproverCertificate, *manifest.BoxKey, *manifest.Revocation:
		if !slices.Contains(a.pinned(), named(d.signed)) {
			return "of an owner who is no party"
		}
		return ""
	case *manifest.ToolCall:
		if !under(doc, a.handedOver) {
			return "a call under a token of another task"
		}
		return ""
	case *manifest.ToolResult:
		if by := d.signed.By(); by != a.m.Requester.AgentDid && by != a.called[doc.Call] {
			return "an answer by somebody who was not asked"
		}
		return ""
	case *manifest.CapabilityToken:
		if !a.handedOver[d.whole] {
			return "a token that was not granted in this task"
		}
	}
	if c, ok := d.signed.Approver(); ok && slices.Contains(a.owners(), c.OwnerDid) {
		return ""
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
