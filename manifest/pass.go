package manifest

import (
	"encoding/base64"
	"slices"
	"time"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Limits of a chain of delegation. A contract states at most five steps
// (maxDelegationDepth), so a proposal brings five passes at most.
const (
	MaxPasses    = 5
	maxPassHosts = 100      // a pass goes to every descendant
	maxChildSize = 64 << 10 // bytes of a child manifest: both sides keep it with the parent's state
)

// Bounds are what a contract holds its worker to on every axis on which a child
// must stay within its parent (P1), as a contract and a pass state them alike.
type Bounds struct {
	Depth       int64        `json:"depth" rule:"num=0..5"` // how often the work may be handed on
	Deadline    signing.Time `json:"deadline"`
	Limits      Meters       `json:"limits"`
	Isolation   string       `json:"isolationLevel" rule:"enum=subprocess_restricted|oci_container|wasm|microvm"`
	Fallback    bool         `json:"allowSubprocessFallback"`
	Network     string       `json:"networkAccess" rule:"enum=none|allowlist_only"`
	Hosts       []string     `json:"allowedHosts" rule:"items=0..100,each.len=1..253"`
	Files       string       `json:"filesystemScope" rule:"enum=ephemeral_workspace_only|read_only_inputs"`
	Gates       []Gate       `json:"requiredGates" rule:"items=0..5,unique,each.enum=GATE_CONTRACT_ACCEPT|GATE_EXTERNAL_SIDE_EFFECT|GATE_BUDGET_OVERRUN|GATE_SUB_DELEGATION|GATE_DELIVERY_ACCEPT"`
	Mode        string       `json:"mode" rule:"enum=schema_only|automated_checks|human_in_the_loop|hybrid"`
	Receipt     bool         `json:"requireUsageReceipt"`
	Attestation bool         `json:"requireExecutionAttestation"`
}

// BoundsOf reads a contract's bounds.
func BoundsOf(m TaskManifest) Bounds {
	s := m.SandboxPolicy
	return Bounds{
		Depth: m.Permissions.MaxDelegationDepth, Deadline: m.Deadline, Limits: m.Budget.Limits(),
		Isolation: s.IsolationLevel, Fallback: s.AllowSubprocessFallback != nil && *s.AllowSubprocessFallback,
		Network: s.NetworkAccess, Hosts: append([]string{}, s.AllowedHosts...), Files: s.FilesystemScope,
		Gates: append([]Gate{}, m.HITLPolicy.RequiredGates...),
		Mode:  m.Verification.Mode, Receipt: m.Verification.RequireUsageReceipt, Attestation: m.Verification.RequireExecutionAttestation,
	}
}

// Equal says whether two bounds are the same, member for member and in order.
func (b Bounds) Equal(c Bounds) bool {
	same := slices.Equal(b.Hosts, c.Hosts) && slices.Equal(b.Gates, c.Gates) && b.Deadline.Time().Equal(c.Deadline.Time())
	b.Hosts, b.Gates, b.Deadline = nil, nil, signing.Time{}
	c.Hosts, c.Gates, c.Deadline = nil, nil, signing.Time{}
	return same && b.scalars() == c.scalars()
}

func (b Bounds) scalars() [10]any {
	return [10]any{b.Depth, b.Limits, b.Isolation, b.Fallback, b.Network, b.Files, b.Mode, b.Receipt, b.Attestation}
}

// DelegationPass lets the worker of one contract hand a part on (P2). The
// requester's agent signs it for the worker's agent, its audience. It states
// the contract's bounds, so that a descendant can hold a child against them
// without the contract itself.
type DelegationPass struct {
	Type            string          `json:"type" rule:"const=sealbridge/delegation-pass"`
	ProtocolVersion string          `json:"protocolVersion" rule:"const=0.2.0"`
	TaskID          TaskID          `json:"taskId"`
	ManifestDigest  signing.Digest  `json:"manifestDigest"`
	AgentDid        signing.DID     `json:"agentDid"` // of the requester, who signs
	Audience        signing.DID     `json:"audience"` // the worker's agent
	Parent          *signing.Digest `json:"parent"`   // the pass above, or null for the root
	Bounds
	Tokens []signing.Digest `json:"tokens" rule:"items=0..50,unique"` // capability tokens that go along
	Nonce  string           `json:"nonce" rule:"len=22..22"`          // of the root: 128 bits, base64url
	Owners []signing.Digest `json:"owners" rule:"items=2..6,unique"`  // of every owner so far, the root's first
	At     signing.Time     `json:"at"`
}

// Link is the pass's place in its chain.
func (p *DelegationPass) Link() Link {
	return Link{p.TaskID, p.ManifestDigest, p.AgentDid, p.Audience, p.Parent, p.Deadline, p.Depth}
}

// PassFor is the pass that goes with a contract, unsigned: below the pass above
// it, or with a nonce of its own at the root (P2). digest is the contract's.
func PassFor(m TaskManifest, digest signing.Digest, above Signed, nonce string, at time.Time) (p DelegationPass, err error) {
	if m.Worker == nil {
		return p, refuse("/worker", "P2: named")
	}
	p = DelegationPass{Type: "sealbridge/delegation-pass", ProtocolVersion: ProtocolVersion, TaskID: m.TaskID, ManifestDigest: digest,
		AgentDid: m.Requester.AgentDid, Audience: m.Worker.AgentDid, Bounds: BoundsOf(m), Tokens: []signing.Digest{}, Nonce: nonce, At: signing.TimeOf(at)}
	if above.IsZero() {
		p.Owners = []signing.Digest{OwnerMark(nonce, m.Requester.OwnerDid)}
	} else {
		up, ok := above.Document().(*DelegationPass)
		if !ok {
			return p, spec.Refuse(spec.UnknownType, "/parent", "P2: a delegation-pass")
		}
		parent := above.Digest()
		p.Parent, p.Nonce, p.Owners = &parent, up.Nonce, slices.Clone(up.Owners)
	}
	p.Owners = append(p.Owners, OwnerMark(p.Nonce, m.Worker.OwnerDid))
	return p, nil
}

// OwnerMark is how a pass names an owner: SHA-256(root nonce ‖ owner DID).
// Whoever holds the nonce can ask whether one owner is in the chain (P3);
// nobody reads from it who else is.
func OwnerMark(nonce string, owner signing.DID) signing.Digest {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(nonce)
	if err != nil || owner.IsZero() {
		return signing.Digest{}
	}
	return signing.DigestOf(append(raw, owner.String()...))
}

func (p *DelegationPass) check() error {
	switch {
	case p.Depth < 1:
		return refuse("/depth", "P2: 1 to 5")
	case p.AgentDid == p.Audience:
		return refuse("/audience", "P2: another agent")
	case !isBase64(p.Nonce, 16):
		return refuse("/nonce", "P2: 128 bits, base64url")
	case (p.Parent == nil) != (len(p.Owners) == 2):
		return refuse("/owners", "P2: two at the root, one more for each step")
	case int64(len(p.Owners))-2+p.Depth > MaxPasses:
		return refuse("/depth", "P2: five steps in all")
	case !p.At.Before(p.Deadline):
		return refuse("/deadline", "P2: after at")
	}
	return spec.At("", SandboxPolicy{NetworkAccess: p.Network, AllowedHosts: p.Hosts}.checkHosts())
}

// Child is a part of the work that its worker would hand on (G11): the contract
// that it would propose, without signatures, and the pass that goes with it.
type Child struct {
	Manifest jcs.Value  `json:"manifest" rule:"object"`
	Pass     *jcs.Value `json:"pass"` // a signed delegation-pass where the child has depth, else null
}

// Digest names the child contract (S8).
func (c Child) Digest() signing.Digest { return signing.DigestOf(c.Manifest.Bytes()) }

// Contract reads the child manifest.
func (c Child) Contract() (m TaskManifest, err error) {
	err = jcs.Decode(c.Manifest, &m)
	return m, err
}

// check holds a child against the task that it would be a part of, as far as
// that needs no state: whose it is, and that it is a contract at all.
func (c Child) check(e *Event) error {
	if len(c.Manifest.Bytes()) > maxChildSize {
		return spec.Refuse(spec.TooLarge, "/body/child/manifest", "P1: 64 KiB at most")
	}
	m, err := ReadManifest(c.Manifest)
	switch {
	case err != nil:
		return spec.At("/body/child/manifest", err)
	case m.Signatures != nil:
		return refuse("/body/child/manifest/signatures", "P1: a payload has none")
	case m.ParentTaskID == nil || *m.ParentTaskID != e.TaskID:
		return refuse("/body/child/manifest/parentTaskId", "P1: this task")
	case m.Worker == nil:
		return refuse("/body/child/manifest/worker", "P1: named")
	case m.Requester.AgentDid != e.Author:
		return refuse("/body/child/manifest/requester/agentDid", "P1: whoever asks")
	case (c.Pass != nil) != (m.Permissions.MaxDelegationDepth > 0):
		return refuse("/body/child/pass", "P2: exactly with depth")
	case c.Pass != nil:
		return checkParts("/body/child/pass", []jcs.Value{*c.Pass}, "delegation-pass")
	}
	return nil
}

// Introduction is an agent of an owner as a third owner knows it: what it is
// certified by, and the key that its mail is sealed to (C7).
type Introduction struct {
	Certificate SignedPart `json:"certificate"`
	BoxKey      SignedPart `json:"boxKey"`
}

func (i *Introduction) check(path string) error {
	switch {
	case i == nil:
		return nil
	case !isSigned(i.Certificate, "agent-certificate"):
		return refuse(path+"/certificate", "C7: a signed agent-certificate")
	case !isSigned(i.BoxKey, "box-key"):
		return refuse(path+"/boxKey", "C7: a signed box-key")
	}
	return nil
}

// Agent is the certificate inside an introduction; its own signature holds.
func (i Introduction) Agent() (c AgentCertificate, err error) {
	s, err := OpenValue(i.Certificate, nil)
	if err != nil {
		return c, err
	}
	d, ok := s.Document().(*AgentCertificate)
	if !ok {
		return c, refuse("/certificate", "C7: an agent-certificate")
	}
	return *d, nil
}
