package manifest

import (
	"strings"
	"time"

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
	"sealbridge/event":             read[Event],
	"sealbridge/agent-certificate": read[AgentCertificate],
	"sealbridge/box-key":           read[BoxKey],
	"sealbridge/revocation":        read[Revocation],
	"sealbridge/invite":            read[Invite],
	"sealbridge/contact-request":   read[ContactRequest],
	"sealbridge/acknowledgement":   read[Acknowledgement],
	"sealbridge/refusal":           read[Refusal],
	"sealbridge/history-request":   read[HistoryRequest],
	"sealbridge/gate-decision":     read[GateDecision],
	"sealbridge/usage-receipt":     read[UsageReceipt],
	"sealbridge/artifact-keys":     read[ArtifactKeys],
}

func typed(name string) signing.Context { return signing.Context(signing.ContextPrefix + name) }

func (*TaskManifest) context() signing.Context     { return signing.RequesterManifest }
func (*Event) context() signing.Context            { return typed("event") }
func (*AgentCertificate) context() signing.Context { return typed("agent-certificate") }
func (*BoxKey) context() signing.Context           { return typed("box-key") }
func (*Revocation) context() signing.Context       { return typed("revocation") }
func (*Invite) context() signing.Context           { return typed("invite") }
func (*ContactRequest) context() signing.Context   { return typed("contact-request") }
func (*Acknowledgement) context() signing.Context  { return typed("acknowledgement") }
func (*Refusal) context() signing.Context          { return typed("refusal") }
func (*HistoryRequest) context() signing.Context   { return typed("history-request") }
func (*GateDecision) context() signing.Context     { return typed("gate-decision") }
func (*UsageReceipt) context() signing.Context     { return typed("usage-receipt") }
func (*ArtifactKeys) context() signing.Context     { return typed("artifact-keys") }

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
	pair, isManifest := v.Member("signatures")
	block, isTyped := v.Member("signature")
	switch {
	case isManifest && isTyped:
		return []BlockWord{bad(spec.Malformed, "", "both signature and signatures")}
	case isManifest:
		return checkManifest(v, pair, k)
	case isTyped:
		return []BlockWord{checkTyped(v, block, k)}
	}
	return nil
}

func bad(r spec.Reason, path, limit string) BlockWord {
	return BlockWord{Word: r, Err: spec.Refuse(r, path, limit)}
}

func checkTyped(v, block jcs.Value, k *signing.Keys) BlockWord {
	member, _ := v.Member("type")
	typ, _ := member.Text()
	c, ok := signing.ContextFor(typ)
	if !ok {
		return bad(spec.UnknownType, "/type", "S4")
	}
	return checkBlock(v.Without("signature"), block, c, "/signature", k)
}

func checkManifest(v, pair jcs.Value, k *signing.Keys) (out []BlockWord) {
	payload := v.Without("signatures")
	for name, block := range pair.Members() {
		role, c := Requester, signing.RequesterManifest
		switch name {
		case "requesterSignature":
		case "workerSignature":
			role, c = Worker, signing.WorkerManifest
		default:
			out = append(out, bad(spec.Malformed, "/signatures/"+name, "unknown member"))
			continue
		}
		w := checkBlock(payload, block, c, "/signatures/"+name, k)
		w.Role = role
		if w.Word == "" && !isParty(payload, role, w.Signer) {
			w.Word, w.Err = spec.WrongSigner, spec.Refuse(spec.WrongSigner, "/signatures/"+name+"/signerDid", "S6")
		}
		out = append(out, w)
	}
	return out
}

func checkBlock(payload, block jcs.Value, c signing.Context, path string, k *signing.Keys) BlockWord {
	signer, _ := block.At("/signerDid")
	text, _ := signer.Text()
	w := BlockWord{Signer: text}
	b, err := signing.ReadBlock(block)
	if err == nil {
		w.At = b.SignedAt
		err = k.Verify(payload, c, b)
	}
	if err != nil {
		w.Word, w.Err = spec.ReasonOf(err), spec.At(path, err)
	}
	return w
}

func isParty(payload jcs.Value, role Role, signer string) bool {
	for _, who := range []string{"ownerDid", "agentDid"} {
		v, ok := payload.At("/" + string(role) + "/" + who)
		if text, _ := v.Text(); ok && text == signer {
			return true
		}
	}
	return false
}

// Open reads a document from the wire: size, strictness, arithmetic, shape and
// rules, in that order (D2). It needs no state; floods end here.
func Open(wire []byte, k *signing.Keys) (Signed, error) {
	v, err := jcs.Parse(wire)
	if err != nil {
		return Signed{}, err
	}
	return OpenValue(v, k)
}

// OpenValue is Open for a value that is canonical already, such as a document inside another.
func OpenValue(v jcs.Value, k *signing.Keys) (Signed, error) {
	if v.Kind() != '{' {
		return Signed{}, spec.Refuse(spec.Malformed, "", "an object")
	}
	words := Blocks(v, k)
	if len(words) == 0 {
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
	return s, s.read()
}

func (s *Signed) read() (err error) {
	member, isTyped := s.wire.Member("type")
	if !isTyped {
		m, err := ReadManifest(s.wire)
		s.doc, s.digest = &m, signing.DigestOf(s.wire.Without("signatures").Bytes())
		return err
	}
	typ, _ := member.Text()
	r, ok := readers[typ]
	if !ok {
		return spec.Refuse(spec.UnknownType, "/type", "not read by this version")
	}
	s.digest = signing.DigestOf(s.wire.Bytes())
	if s.doc, err = r(s.wire.Without("signature")); err == nil {
		err = namesSigner(s.doc, s.By())
	}
	return err
}

// ReadManifest reads a manifest, signed or not, and holds it against M1–M8.
func ReadManifest(v jcs.Value) (m TaskManifest, err error) {
	if len(v.String()) > jcs.ManifestLimits.Bytes {
		return m, spec.Refuse(spec.TooLarge, "", "192 KiB")
	}
	if _, err := jcs.ParseWithin(v.Bytes(), jcs.ManifestLimits); err != nil {
		return m, err
	}
	if err := jcs.Decode(v, &m); err != nil {
		return m, err
	}
	return m, m.check()
}

// Sign says d by a key of ours: its bytes are what Open reads. It counts as
// verified because we know ourselves; whose it is, [Trust.Admit] says again.
func Sign(d Document, by signing.Signer, at time.Time) (Verified, error) {
	payload, err := jcs.Encode(d)
	if err != nil {
		return Verified{}, err
	}
	block, err := signing.Sign(payload, d.context(), by, at)
	if err != nil {
		return Verified{}, err
	}
	v, err := jcs.Encode(block)
	if err != nil {
		return Verified{}, err
	}
	s, err := OpenValue(payload.With("signature", v), nil)
	return Verified{Signed: s}, err
}

// SignManifest makes one side's block for a contract, and the payload that it is over.
func SignManifest(m TaskManifest, role Role, by signing.Signer, at time.Time) (signing.Block, jcs.Value, error) {
	m.Signatures = nil
	payload, err := jcs.Encode(m)
	if err != nil {
		return signing.Block{}, payload, err
	}
	if _, err := ReadManifest(payload); err != nil {
		return signing.Block{}, payload, err
	}
	b, err := signing.Sign(payload, manifestContext(role), by, at)
	return b, payload, err
}

func manifestContext(role Role) signing.Context {
	if role == Worker {
		return signing.WorkerManifest
	}
	return signing.RequesterManifest
}

// Assemble is the manifest with the blocks that are there: what a bundle shows.
func Assemble(payload jcs.Value, requester, worker *signing.Block) (jcs.Value, error) {
	pair, err := jcs.Encode(SignaturePair{requester, worker})
	if err != nil {
		return jcs.Value{}, err
	}
	return payload.With("signatures", pair), nil
}

// OpenManifest reads the payload and one side's block inside a proposed or accepted event.
func OpenManifest(payload jcs.Value, b signing.Block, role Role, k *signing.Keys) (TaskManifest, error) {
	if _, ok := payload.Member("signatures"); ok {
		return TaskManifest{}, spec.Refuse(spec.Malformed, "/signatures", "a payload has none")
	}
	if err := k.Verify(payload, manifestContext(role), b); err != nil {
		return TaskManifest{}, spec.At("/signature", err)
	}
	if !isParty(payload, role, b.SignerDid.String()) {
		return TaskManifest{}, spec.Refuse(spec.WrongSigner, "/signature/signerDid", "S6")
	}
	m, err := ReadManifest(payload)
	return m, spec.At("/manifest", err)
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
	case *Revocation:
		return wrong("ownerDid", d.OwnerDid)
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
