package manifest

import (
	"bytes"
	"strings"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// reader reads one type of document whose signature holds.
type reader func(jcs.Value) (Document, error)

func read[T any, P interface {
	*T
	Document
	check() error
}](v jcs.Value) (Document, error) {
	d := P(new(T))
	if err := jcs.Decode(v, d); err != nil {
		return nil, err
	}
	return d, d.check()
}

// readers is the list of what this version reads; the relay's own documents are read by package relay.
var readers = map[string]reader{
	"sealbridge/event":                read[Event],
	"sealbridge/agent-certificate":    read[AgentCertificate],
	"sealbridge/approver-certificate": read[ApproverCertificate],
	"sealbridge/box-key":              read[BoxKey],
	"sealbridge/revocation":           read[Revocation],
	"sealbridge/invite":               read[Invite],
	"sealbridge/contact-request":      read[ContactRequest],
	"sealbridge/acknowledgement":      read[Acknowledgement],
	"sealbridge/refusal":              read[Refusal],
	"sealbridge/history-request":      read[HistoryRequest],
	"sealbridge/gate-decision":        read[GateDecision],
	"sealbridge/usage-receipt":        read[UsageReceipt],
	"sealbridge/delegation-pass":      read[DelegationPass],
	"sealbridge/artifact-keys":        read[ArtifactKeys],
	"sealbridge/claim":                read[Claim],
	"sealbridge/policy-consent":       read[PolicyConsent],
	"sealbridge/capability-token":     read[CapabilityToken],
	"sealbridge/tool-call":            read[ToolCall],
	"sealbridge/tool-result":          read[ToolResult],
}

func typed(name string) signing.Context { return signing.Context(signing.ContextPrefix + name) }

func (*TaskManifest) context() signing.Context        { return signing.RequesterManifest }
func (*Event) context() signing.Context               { return typed("event") }
func (*AgentCertificate) context() signing.Context    { return typed("agent-certificate") }
func (*ApproverCertificate) context() signing.Context { return typed("approver-certificate") }
func (*BoxKey) context() signing.Context              { return typed("box-key") }
func (*Revocation) context() signing.Context          { return typed("revocation") }
func (*Invite) context() signing.Context              { return typed("invite") }
func (*ContactRequest) context() signing.Context      { return typed("contact-request") }
func (*Acknowledgement) context() signing.Context     { return typed("acknowledgement") }
func (*Refusal) context() signing.Context             { return typed("refusal") }
func (*HistoryRequest) context() signing.Context      { return typed("history-request") }
func (*GateDecision) context() signing.Context        { return typed("gate-decision") }
func (*UsageReceipt) context() signing.Context        { return typed("usage-receipt") }
func (*DelegationPass) context() signing.Context      { return typed("delegation-pass") }
func (*ArtifactKeys) context() signing.Context        { return typed("artifact-keys") }
func (*Claim) context() signing.Context               { return typed("claim") }
func (*PolicyConsent) context() signing.Context       { return typed("policy-consent") }
func (*CapabilityToken) context() signing.Context     { return typed("capability-token") }
func (*ToolCall) context() signing.Context            { return typed("tool-call") }
func (*ToolResult) context() signing.Context          { return typed("tool-result") }

// BlockWord is what arithmetic says of one signature block; Word is "" for a good one.
type BlockWord struct {
	Role   Role // of a TaskManifest
	Signer string
	At     signing.Time
	Word   spec.Reason
	Err    error
}

// Blocks is the arithmetic of every block of v (section 3), before any typed
// reading, so that each block has its own word. No block at all is no answer.
func Blocks(v jcs.Value, k *signing.Keys) []BlockWord {
	t := top(v)
	return t.blocks(v, k)
}

// members are those that the arithmetic looks at, found in one walk.
type members struct{ signature, signatures, typ, requester, worker jcs.Value }

func top(v jcs.Value) (t members) {
	for name, m := range v.Members() {
		switch name {
		case "signature":
			t.signature = m
		case "signatures":
			t.signatures = m
		case "type":
			t.typ = m
		case string(Requester):
			t.requester = m
		case string(Worker):
			t.worker = m
		}
	}
	return t
}

func (t *members) blocks(v jcs.Value, k *signing.Keys) []BlockWord {
	switch isManifest, isTyped := !t.signatures.IsZero(), !t.signature.IsZero(); {
	case isManifest && isTyped:
		return []BlockWord{bad(spec.Malformed, "", "both signature and signatures")}
	case isManifest:
		return t.checkManifest(v, k)
	case isTyped:
		return []BlockWord{t.checkTyped(v, k)}
	}
	return nil
}

func bad(r spec.Reason, path, limit string) BlockWord {
	return BlockWord{Word: r, Err: spec.Refuse(r, path, limit)}
}

func (t *members) checkTyped(v jcs.Value, k *signing.Keys) BlockWord {
	typ, _ := t.typ.Text()
	c, ok := signing.ContextFor(typ)
	if !ok {
		return bad(spec.UnknownType, "/type", "S4")
	}
	return checkBlock(signing.DigestOf(v.BytesWithout("signature")), t.signature, c, "/signature", k)
}

func (t *members) checkManifest(v jcs.Value, k *signing.Keys) (out []BlockWord) {
	digest := signing.DigestOf(v.BytesWithout("signatures"))
	for name, block := range t.signatures.Members() {
		role, party, c := Requester, t.requester, signing.RequesterManifest
		switch name {
		case "requesterSignature":
		case "workerSignature":
			role, party, c = Worker, t.worker, signing.WorkerManifest
		default:
			out = append(out, bad(spec.Malformed, "/signatures", "unknown member"))
			continue
		}
		w := checkBlock(digest, block, c, "/signatures/"+name, k)
		w.Role = role
		if w.Word == "" && !isParty(party, w.Signer) {
			w.Word, w.Err = spec.WrongSigner, spec.Refuse(spec.WrongSigner, "/signatures/"+name+"/signerDid", "S6")
		}
		out = append(out, w)
	}
	return out
}

func checkBlock(payload signing.Digest, block jcs.Value, c signing.Context, path string, k *signing.Keys) BlockWord {
	signer, _ := block.Member("signerDid")
	text, _ := signer.Text()
	w := BlockWord{Signer: text}
	b, err := signing.ReadBlock(block)
	if err == nil {
		w.At = b.SignedAt
		err = k.VerifyDigest(payload, c, b)
	}
	if err != nil {
		w.Word, w.Err = spec.ReasonOf(err), spec.At(path, err)
	}
	return w
}

func isParty(party jcs.Value, signer string) bool {
	for name, who := range party.Members() {
		if text, ok := who.Text(); ok && text == signer && (name == "ownerDid" || name == "agentDid") {
			return true
		}
	}
	return false
}

// Open reads a document from the wire: size, strictness, arithmetic, shape and
// rules, in that order (D2). It needs no state; floods end here.
func Open(wire []byte, k *signing.Keys) (Signed, error) {
	limits := jcs.DocumentLimits
	asManifest := bytes.HasPrefix(wire, manifestStart)
	if asManifest {
		limits = jcs.ManifestLimits
	}
	v, err := jcs.ParseWithin(wire, limits)
	if err != nil {
		return Signed{}, err
	}
	return open(v, asManifest, k)
}

// manifestStart is how every manifest begins: the first of its required members.
var manifestStart = []byte(`{"budget":`)

// OpenValue is Open for a value that is canonical already, such as a document inside another.
func OpenValue(v jcs.Value, k *signing.Keys) (Signed, error) { return open(v, false, k) }

// OpenWords is OpenValue and [Blocks] with the arithmetic done once.
func OpenWords(v jcs.Value, k *signing.Keys) (Signed, []BlockWord, error) {
	t := top(v)
	words := t.blocks(v, k)
	s, err := t.open(v, words, false, k)
	return s, words, err
}

// open reads v; measured says that it is within the limits of a manifest.
func open(v jcs.Value, measured bool, k *signing.Keys) (Signed, error) {
	t := top(v)
	return t.open(v, t.blocks(v, k), measured, k)
}

func (t *members) open(v jcs.Value, words []BlockWord, measured bool, k *signing.Keys) (Signed, error) {
	switch {
	case v.Kind() != '{':
		return Signed{}, spec.Refuse(spec.Malformed, "", "an object")
	case len(words) == 0:
		return Signed{}, spec.Refuse(spec.Malformed, "/signature", "missing")
	}
	s := Signed{wire: v}
	for _, w := range words {
		if w.Word != "" {
			return Signed{}, w.Err
		}
		by, err := signing.ParseDID(w.Signer)
		if err != nil {
			return Signed{}, err
		}
		s.marks = append(s.marks, Mark{w.Role, by, w.At})
	}
	err := s.read(t.typ, measured)
	if e, ok := s.doc.(*Event); ok && err == nil {
		err = openProposal(e, k)
	}
	if d, ok := s.doc.(*GateDecision); ok && err == nil {
		err = s.openApproval(d, k)
	}
	if err != nil {
		return Signed{}, err
	}
	return s, nil
}

// read reads the document whose member "type" is typ; a manifest has none.
func (s *Signed) read(typ jcs.Value, measured bool) (err error) {
	if typ.IsZero() {
		if !measured {
			if _, err := jcs.ParseWithin(s.wire.Bytes(), jcs.ManifestLimits); err != nil {
				return err
			}
		}
		m, err := readManifest(s.wire)
		if err != nil {
			return err
		}
		s.doc = &m
		for _, b := range []*signing.Block{m.Signatures.RequesterSignature, m.Signatures.WorkerSignature} {
			if b != nil {
				s.digest = b.PayloadDigest // each block was held against it
			}
		}
		return nil
	}
	name, _ := typ.Text()
	r, ok := readers[name]
	if !ok {
		return spec.Refuse(spec.UnknownType, "/type", "not read by this version")
	}
	s.digest = signing.DigestOf(s.wire.Bytes())
	if s.doc, err = r(s.wire.Without("signature")); err == nil {
		err = namesSigner(s.doc, s.By())
	}
	return err
}

// openProposal holds the requester's block inside a proposed event: its
// arithmetic, and that the event is about the contract that it carries.
func openProposal(e *Event, k *signing.Keys) error {
	p, ok := e.Body.Fact.(Proposed)
	if !ok {
		return nil
	}
	m, err := OpenManifest(p.Manifest, p.Signature, Requester, k)
	switch {
	case err != nil:
		return spec.At("/body", err)
	case p.Signature.PayloadDigest != e.ManifestDigest:
		return spec.Refuse(spec.BadDigest, "/manifestDigest", "S8")
	case m.TaskID != e.TaskID:
		return refuse("/taskId", "H: that of the manifest")
	case m.Requester.AgentDid != e.Author:
		return spec.Refuse(spec.WrongSigner, "/author", "S6: the requester's agent")
	}
	return nil
}

// ReadManifest reads a manifest, signed or not, and holds it against M1–M8.
func ReadManifest(v jcs.Value) (m TaskManifest, err error) {
	if _, err := jcs.ParseWithin(v.Bytes(), jcs.ManifestLimits); err != nil {
		return m, err
	}
	return readManifest(v)
}

func readManifest(v jcs.Value) (m TaskManifest, err error) {
	if err := jcs.Decode(v, &m); err != nil {
		return m, err
	}
	return m, m.check()
}

// namesSigner holds the members that name the author against who signed (S6).
func namesSigner(d Document, by signing.DID) error {
	wrong := func(member string, named signing.DID) error {
		if named == by {
			return nil
		}
		return spec.Refuse(spec.WrongSigner, "/"+member, "S6")
	}
	switch d := d.(type) {
	case *Event:
		return wrong("author", d.Author)
	case *AgentCertificate:
		return wrong("ownerDid", d.OwnerDid)
	case *ApproverCertificate:
		return wrong("ownerDid", d.OwnerDid)
	case *Invite:
		return wrong("ownerDid", d.OwnerDid)
	case *ContactRequest:
		return wrong("ownerDid", d.OwnerDid)
	case *BoxKey:
		return wrong("agentDid", d.AgentDid)
	case *UsageReceipt:
		return wrong("agentDid", d.AgentDid)
	case *ArtifactKeys:
		return wrong("agentDid", d.AgentDid)
	case *DelegationPass:
		return wrong("agentDid", d.AgentDid)
	case *Revocation:
		return wrong("ownerDid", d.OwnerDid)
	case *PolicyConsent:
		return wrong("ownerDid", d.OwnerDid)
	case *CapabilityToken:
		return wrong("issuer", d.Issuer)
	case *GateDecision:
		if d.CertificateDigest == nil {
			return wrong("ownerDid", d.OwnerDid)
		}
	}
	return nil
}

// TypeName is a document's type without its prefix; task-manifest for a manifest.
func TypeName(v jcs.Value) string {
	member, ok := v.Member("type")
	if !ok {
		return "task-manifest"
	}
	text, _ := member.Text()
	return strings.TrimPrefix(text, "sealbridge/")
}
