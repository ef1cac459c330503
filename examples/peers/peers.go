// Package peers verifies the same chain of delegation three ways: by
// Sealbridge, by Biscuit and by UCAN. An owner lets one agent read files below
// docs/public, that agent hands a part on, and so forth; the last one calls. It
// is a module of its own, so that the product needs none of this.
package peers

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"time"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// Chain is a chain with a call at its end, as bytes from a wire.
type Chain interface {
	// Verify decodes everything and says whether the call is allowed.
	Verify() error
	// Signatures that Verify looks at.
	Signatures() int
	// Flip changes one bit of the n-th document, so that Verify must refuse.
	Flip(n int)
}

var (
	noon = time.Date(2031, 3, 1, 12, 0, 0, 0, time.UTC)
	end  = time.Date(2131, 3, 1, 12, 0, 0, 0, time.UTC) // the peers look at the clock themselves
)

// seed is the key of the n-th agent; 0 is the owner of the tool.
func seed(n int) [32]byte { return [32]byte{1, byte(n)} }

// Sealbridge is a chain of capability-tokens and a tool-call.
type Sealbridge struct {
	links [][]byte
	root  []byte
	call  []byte
	n     int
	// Seen remembers chains that held; nil verifies anew each time.
	Seen *policy.Chains
}

// NewSealbridge makes a chain of so many links.
func NewSealbridge(links int) (*Sealbridge, error) {
	resource, err := manifest.ParseResource("mcp://docs/public/*")
	if err != nil {
		return nil, err
	}
	only, err := jcs.Parse([]byte(`{"properties":{"path":{"pattern":"^[a-z./]*$","type":"string"}}}`))
	if err != nil {
		return nil, err
	}
	var parent *signing.Digest
	var wires []jcs.Value
	for n := range links {
		capability, _ := manifest.ParseCapabilityID("cap_docs")
		task, _ := manifest.ParseTaskID(fmt.Sprintf("task_%08d", n))
		t := &manifest.CapabilityToken{Type: "sealbridge/capability-token", ProtocolVersion: manifest.ProtocolVersion, CapabilityID: capability, TaskID: task,
			ManifestDigest: signing.DigestOf([]byte{byte(n)}), Issuer: signing.NewKey(seed(n)).DID(), Audience: signing.NewKey(seed(n + 1)).DID(),
			Resource: resource, AllowedTools: []string{"docs.read"}, ArgConstraints: only, MaxInvocations: 20, ExpiresAt: signing.TimeOf(end), Depth: int64(15 - n), MaxStaleness: 86400,
			Parent: parent, Nonce: base64.RawURLEncoding.EncodeToString(append(make([]byte, 15), byte(n)))}
		v, err := manifest.Sign(t, signing.NewKey(seed(n)), noon)
		if err != nil {
			return nil, err
		}
		digest := v.Digest()
		parent, wires = &digest, append(wires, v.Wire())
	}
	args, err := jcs.Parse([]byte(`{"path":"a/b.txt"}`))
	if err != nil {
		return nil, err
	}
	reads, err := manifest.ParseResource("mcp://docs/public/a/b.txt")
	if err != nil {
		return nil, err
	}
	id, _ := manifest.ParseCallID("call_00000001")
	task, _ := manifest.ParseTaskID(fmt.Sprintf("task_%08d", links-1))
	call, err := manifest.Sign(&manifest.ToolCall{Type: "sealbridge/tool-call", ProtocolVersion: manifest.ProtocolVersion, CallID: id, To: signing.NewKey(seed(0)).DID(),
		Root: signing.DigestOf(wires[0].Bytes()), Links: wires[1:], TaskID: task, Contract: signing.DigestOf(nil), Tool: "docs.read", Resources: []manifest.Resource{reads}, Arguments: args,
		At: signing.TimeOf(noon), ExpiresAt: signing.TimeOf(noon.Add(10 * time.Minute))}, signing.NewKey(seed(links)), noon)
	if err != nil {
		return nil, err
	}
	s := &Sealbridge{root: wires[0].Bytes(), call: call.Wire().Bytes(), n: links}
	for _, w := range wires {
		s.links = append(s.links, w.Bytes())
	}
	return s, nil
}

// VerifyChain reads and holds the links alone, without a call.
func (s *Sealbridge) VerifyChain() error {
	_, err := s.Seen.Open(nil, s.links...)
	return err
}

// Signatures are those of the links and the call.
func (s *Sealbridge) Signatures() int { return s.n + 1 }

// Verify opens the call, holds the chain, and the call against every link.
func (s *Sealbridge) Verify() error {
	signed, err := manifest.Open(s.call, nil)
	if err != nil {
		return err
	}
	call, ok := signed.Document().(*manifest.ToolCall)
	if !ok {
		return fmt.Errorf("no call")
	}
	root, err := jcs.Parse(s.root)
	if err != nil {
		return err
	}
	chain, err := s.Seen.ChainOf(nil, call, root)
	if err != nil {
		return err
	}
	if signed.By() != chain.Token(chain.Len()).Audience {
		return fmt.Errorf("not the audience")
	}
	for n := 1; n <= chain.Len(); n++ {
		t := chain.Token(n)
		only, err := t.Constraints()
		if err != nil {
			return err
		}
		if err := only.Check(call.Arguments); err != nil {
			return err
		}
		if !t.Resource.Covers(call.Resources[0]) || t.AllowedTools[0] != call.Tool || !noon.Before(t.ExpiresAt.Time()) {
			return fmt.Errorf("link %d does not cover the call", n)
		}
	}
	return nil
}

// Flip changes a link: the root, or one inside the call.
func (s *Sealbridge) Flip(n int) {
	if n == 0 {
		s.root[len(s.root)/2] ^= 1
		return
	}
	s.call[len(s.call)*n/s.n] ^= 1
}

// Raw is as many signatures by crypto/ed25519 and nothing else.
type Raw struct {
	n   int
	pub []ed25519.PublicKey
	sig [][]byte
	msg []byte
}

// NewRaw makes the floor for so many signatures.
func NewRaw(signatures int) *Raw {
	r := &Raw{n: signatures, msg: make([]byte, 400)}
	for n := range signatures {
		key := seed(n)
		priv := ed25519.NewKeyFromSeed(key[:])
		r.pub, r.sig = append(r.pub, priv.Public().(ed25519.PublicKey)), append(r.sig, ed25519.Sign(priv, r.msg))
	}
	return r
}

// Verify looks at each signature once.
func (r *Raw) Verify() error {
	for i := range r.sig {
		if !ed25519.Verify(r.pub[i], r.msg, r.sig[i]) {
			return fmt.Errorf("signature %d", i)
		}
	}
	return nil
}
