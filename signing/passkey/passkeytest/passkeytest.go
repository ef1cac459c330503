// Package passkeytest stands in for a person's authenticator in tests: it signs
// what it is told, as it is told, also what no honest one would.
package passkeytest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"sealbridge/signing/passkey"
)

// Authenticator holds one passkey. Its signatures are the same each time.
type Authenticator struct {
	Credential passkey.Credential
	sign       func(message []byte) []byte
}

// New is a passkey of ES256 made from seed, for an origin and its host.
func New(seed byte, rpID, origin string) *Authenticator {
	raw := make([]byte, 32)
	raw[31] = seed
	priv, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
	if err != nil {
		panic(err) // a seed of 0
	}
	point, err := priv.PublicKey.Bytes()
	if err != nil {
		panic(err)
	}
	cose := append([]byte{0xa5, 0x01, 0x02, 0x03, 0x26, 0x20, 0x01, 0x21, 0x58, 0x20}, point[1:33]...)
	cose = append(append(cose, 0x22, 0x58, 0x20), point[33:]...)
	return &Authenticator{credential(seed, cose, rpID, origin), func(message []byte) []byte {
		sum := sha256.Sum256(message)
		sig, err := priv.Sign(nil, sum[:], crypto.SHA256) // RFC 6979: no chance
		if err != nil {
			panic(err)
		}
		return sig
	}}
}

// NewEdDSA is the same with an Ed25519 key.
func NewEdDSA(seed byte, rpID, origin string) *Authenticator {
	priv := ed25519.NewKeyFromSeed(append(make([]byte, 31), seed))
	cose := append([]byte{0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 0x20}, priv.Public().(ed25519.PublicKey)...)
	return &Authenticator{credential(seed, cose, rpID, origin), func(message []byte) []byte { return ed25519.Sign(priv, message) }}
}

func credential(seed byte, cose []byte, rpID, origin string) passkey.Credential {
	return passkey.Credential{ID: Base64([]byte{'p', 'a', 's', 's', seed}), Key: Base64(cose), RpID: rpID, Origin: origin}
}

// Ceremony is everything that an assertion says; the zero members are filled with the honest ones.
type Ceremony struct {
	Type, Origin, RpID string
	Extra              string // further members of the client data: `,"topOrigin":"…"`
	Flags              byte
}

// Assert signs a challenge as an honest browser and authenticator do.
func (a *Authenticator) Assert(challenge [32]byte) passkey.Assertion {
	return a.AssertAs(challenge, Ceremony{})
}

// AssertAs signs a challenge and says whatever c says.
func (a *Authenticator) AssertAs(challenge [32]byte, c Ceremony) passkey.Assertion {
	fill := func(have *string, honest string) {
		if *have == "" {
			*have = honest
		}
	}
	fill(&c.Type, "webauthn.get")
	fill(&c.Origin, a.Credential.Origin)
	fill(&c.RpID, a.Credential.RpID)
	fill(&c.Extra, `,"crossOrigin":false`)
	if c.Flags == 0 {
		c.Flags = 0x05
	}
	client := fmt.Appendf(nil, `{"type":%s,"challenge":%q,"origin":%s%s}`, text(c.Type), Base64(challenge[:]), text(c.Origin), c.Extra)
	rp := sha256.Sum256([]byte(c.RpID))
	return a.Raw(client, append(rp[:], c.Flags, 0, 0, 0, 7))
}

// Raw signs any client data and authenticator data.
func (a *Authenticator) Raw(client, data []byte) passkey.Assertion {
	sum := sha256.Sum256(client)
	return passkey.Assertion{ClientDataJSON: Base64(client), AuthenticatorData: Base64(data), Signature: Base64(a.sign(append(append([]byte{}, data...), sum[:]...)))}
}

func text(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// Base64 is unpadded base64url.
func Base64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
