// Package passkey answers one question: was a person there? A passkey signs a
// challenge after its authenticator looked at the person (WebAuthn level 3);
// whoever has the certified public key can check that offline, for ever.
//
// A [Credential] is the public half, bound to one web origin. An [Assertion] is
// one ceremony's outcome. [Credential.Check] holds one against the other for one
// challenge; it reads nothing else, so that it says the same at the console, at
// the other owner and at an auditor.
//
//	challenge          32 bytes: the digest of what is decided
//	clientDataJSON     {"type":"webauthn.get","challenge":…,"origin":"http://localhost:7811",…}, by the browser
//	authenticatorData  SHA-256(rpId) ‖ flags ‖ counter, 37 bytes
//	signature          over authenticatorData ‖ SHA-256(clientDataJSON)
//
// Keys are COSE, ES256 and EdDSA, in the one spelling that CTAP2 prescribes, so
// there is no general reader of CBOR here to be fooled.
package passkey

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"

	"sealbridge/signing"
	"sealbridge/spec"
)

// Limits, each with its reason.
const (
	// maxID of a credential's id in bytes: the most that WebAuthn lets an authenticator choose.
	maxID = 1023
	// maxClientData in bytes: browsers write about 150; an origin has at most 300.
	maxClientData = 2048
	// authenticatorData in bytes: we ask for no extension, and an assertion has no key in it.
	authenticatorData = 37
)

// Credential is a passkey's public half as a certificate binds it. The zero Credential checks nothing.
type Credential struct {
	ID     string `json:"id" rule:"len=2..1364"`    // base64url of 1 to 1023 bytes: how a browser finds it again
	Key    string `json:"key" rule:"len=56..103"`   // base64url of the COSE key
	Origin string `json:"origin" rule:"len=8..300"` // scheme, host and port; https, or http on localhost
	RpID   string `json:"rpId" rule:"len=3..253"`   // the origin's host, or a domain above it
}

// Valid says whether the credential can be bound: every member in its one
// spelling, a good key, and an id of a relying party that fits the origin.
func (c Credential) Valid() error {
	if id, ok := decode(c.ID); !ok || len(id) == 0 || len(id) > maxID {
		return spec.Refuse(spec.Malformed, "/id", "G10: base64url of 1 to 1023 bytes")
	}
	if _, err := c.key(); err != nil {
		return spec.At("/key", err)
	}
	host, ok := hostOf(c.Origin)
	if !ok {
		return spec.Refuse(spec.Malformed, "/origin", "G10: https://host, or http://localhost, with its port")
	}
	if !under(host, c.RpID) {
		return spec.Refuse(spec.Malformed, "/rpId", "G10: the origin's host or a domain above it")
	}
	return nil
}

func (c Credential) key() (key, error) {
	raw, ok := decode(c.Key)
	if !ok {
		return nil, spec.Refuse(spec.Malformed, "", "G10: base64url")
	}
	return parseKey(raw)
}

// key is a public key of either kind.
type key interface {
	holds(message, signature []byte) bool
}

type (
	es256 struct{ *ecdsa.PublicKey }
	eddsa struct{ ed25519.PublicKey }
)

// The two keys, byte by byte (RFC 9052 in the order of CTAP2): {1: 2, 3: -7,
// -1: 1, -2: x, -3: y} and {1: 1, 3: -8, -1: 6, -2: x}.
var (
	es256Head = []byte{0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20}
	es256Mid  = []byte{0x22, 0x58, 0x20}
	eddsaHead = []byte{0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 0x20}
)

// parseKey reads a COSE key; each has one spelling, and its point is on the curve.
func parseKey(raw []byte) (key, error) {
	refused := spec.Refuse(spec.Malformed, "", "G10: a COSE key of ES256 or EdDSA")
	if x, ok := bytes.CutPrefix(raw, eddsaHead); ok && len(x) == 32 {
		if _, err := signing.DIDOf([32]byte(x)); err != nil { // canonical and of prime order, as I1
			return nil, refused
		}
		return eddsa{bytes.Clone(x)}, nil
	}
	x, ok := bytes.CutPrefix(raw, es256Head)
	if !ok || len(x) != 32+len(es256Mid)+32 || !bytes.Equal(x[32:32+len(es256Mid)], es256Mid) {
		return nil, refused
	}
	point := append(append([]byte{4}, x[:32]...), x[32+len(es256Mid):]...)
	pub, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		return nil, refused
	}
	return es256{pub}, nil
}

func (k es256) holds(message, signature []byte) bool {
	sum := sha256.Sum256(message)
	return ecdsa.VerifyASN1(k.PublicKey, sum[:], signature)
}

func (k eddsa) holds(message, signature []byte) bool {
	return ed25519.Verify(k.PublicKey, message, signature)
}

// decode reads the one spelling of unpadded base64url.
func decode(text string) ([]byte, bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return raw, err == nil && base64.RawURLEncoding.EncodeToString(raw) == text
}

// Code names a passkey and the key that will speak for it, for a person to type
// from one screen into another: sixty bits of a digest of both, in three groups.
// Whoever would put another passkey under the code has to find one of the same
// digest while the person types.
func (c Credential) Code(holder signing.DID) string {
	const letters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	sum := sha256.Sum256([]byte("sealbridge/0.2.0/passkey\x00" + c.ID + "\x00" + c.Key + "\x00" + c.Origin + "\x00" + c.RpID + "\x00" + holder.String()))
	var out []byte
	for i := range 12 {
		if i > 0 && i%4 == 0 {
			out = append(out, '-')
		}
		out = append(out, letters[sum[i]&31])
	}
	return string(out)
}
