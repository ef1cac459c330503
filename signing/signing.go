// Package signing answers one question: who said it? There is one rule for
// every document (protocol section 3): a block of exactly five members, whose
// signing input is the canonical block without its signature plus the context.
// Who, when, what and as what are all under the signature.
package signing

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"time"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Context is the domain a document is signed in: sealbridge/0.2.0/ and a name
// from the closed list of S4. It is chosen by what the receiver expects.
type Context string

const ContextPrefix = "sealbridge/0.2.0/"

const (
	RequesterManifest Context = ContextPrefix + "task-manifest/requester"
	WorkerManifest    Context = ContextPrefix + "task-manifest/worker"
)

// names is the closed list of S4.
var names = strings.Fields(`agent-certificate approver-certificate box-key key-rotation revocation invite
	contact-request relay-hello relay-binding custody-receipt checkpoint event acknowledgement refusal
	history-request gate-decision delegation-pass capability-token tool-call tool-result usage-receipt
	artifact-keys claim policy-consent`)

// Types lists every document type of S4 with one signature, as sealbridge/NAME.
func Types() []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = "sealbridge/" + n
	}
	return out
}

// ContextFor returns the context of a document's type; ok is false off the closed list.
func ContextFor(typ string) (Context, bool) {
	name, ok := strings.CutPrefix(typ, "sealbridge/")
	if !ok {
		return "", false
	}
	for _, n := range names {
		if n == name {
			return Context(ContextPrefix + n), true
		}
	}
	return "", false
}

// Canonicalization is the only value of that member.
const Canonicalization = "RFC8785-JCS"

// Block is exactly these five members (S).
type Block struct {
	SignerDid        DID       `json:"signerDid"`
	Canonicalization string    `json:"canonicalization" rule:"const=RFC8785-JCS"`
	PayloadDigest    Digest    `json:"payloadDigest"`
	SignedAt         Time      `json:"signedAt"`
	Signature        Signature `json:"signature"`
}

// ReadBlock reads a block; any other member or spelling is malformed.
func ReadBlock(v jcs.Value) (b Block, err error) {
	err = jcs.Decode(v, &b)
	return b, err
}

// Signature is ed25519: and 86 characters of unpadded base64url, the one
// spelling that re-encodes to itself (D6).
type Signature struct{ s string }

const signaturePrefix = "ed25519:"

// SignatureFrom spells a signature.
func SignatureFrom(sig [64]byte) Signature {
	return Signature{signaturePrefix + base64.RawURLEncoding.EncodeToString(sig[:])}
}

// Bytes is the signature itself.
func (s Signature) Bytes() (out [64]byte) {
	raw, _ := base64.RawURLEncoding.Strict().DecodeString(strings.TrimPrefix(s.s, signaturePrefix))
	copy(out[:], raw)
	return out
}

func (s Signature) String() string               { return s.s }
func (s Signature) IsZero() bool                 { return s.s == "" }
func (s Signature) MarshalText() ([]byte, error) { return []byte(s.s), nil }

func (s *Signature) UnmarshalText(b []byte) error { return s.ReadText(string(b)) }

// ReadText takes the one spelling: of the 516 bits of 86 characters the last four are 0.
func (s *Signature) ReadText(text string) error {
	body, ok := strings.CutPrefix(text, signaturePrefix)
	ok = ok && len(body) == 86 && strings.IndexByte("AQgw", body[85]) >= 0
	for i := 0; ok && i < len(body); i++ {
		c := body[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_'
	}
	if !ok {
		return spec.Refuse(spec.Malformed, "", "a signature: ed25519: and 86 characters of base64url (D6)")
	}
	*s = Signature{strings.Clone(text)}
	return nil
}

// Signer holds a private key, or asks whoever does.
type Signer interface {
	DID() DID
	Sign(input []byte) ([64]byte, error)
}

type key struct {
	did  DID
	priv ed25519.PrivateKey
}

// NewKey is a Signer in memory, from a 32-byte seed.
func NewKey(seed [32]byte) Signer {
	priv := ed25519.NewKeyFromSeed(seed[:])
	return key{DID{spell([32]byte(priv[32:]))}, priv}
}

func (k key) DID() DID                            { return k.did }
func (k key) Sign(input []byte) ([64]byte, error) { return [64]byte(ed25519.Sign(k.priv, input)), nil }

// Sign makes the block of payload in context c (S1–S3).
func Sign(payload jcs.Value, c Context, by Signer, at time.Time) (Block, error) {
	b := Block{SignerDid: by.DID(), Canonicalization: Canonicalization, PayloadDigest: DigestOf(payload.Bytes()), SignedAt: TimeOf(at)}
	sig, err := by.Sign(input(c, b))
	if err != nil {
		return Block{}, err
	}
	b.Signature = SignatureFrom(sig)
	return b, nil
}

// input is S3: the canonical block without its signature, with the context.
// The members are in canonical order and none of them needs an escape.
func input(c Context, b Block) []byte {
	return []byte(`{"canonicalization":"` + b.Canonicalization + `","context":"` + string(c) +
		`","payloadDigest":"` + b.PayloadDigest.s + `","signedAt":"` + b.SignedAt.s + `","signerDid":"` + b.SignerDid.s + `"}`)
}
