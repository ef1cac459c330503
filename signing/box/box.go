// Package box answers one question: for whose eyes?
//
// It is the only door to crypto/hpke. An envelope (protocol R1) is canonical
// JSON of one fixed shape, at most [MaxEnvelope] bytes:
//
//	{"box":B64,"commit":DIGEST,"enc":B64,"expiresAt":TIME,"kid":DIGEST,"to":DID,"v":1}
//
// enc and box are unpadded base64url of HPKE base mode (RFC 9180) with the
// suite MLKEM768X25519 (X-Wing), HKDF-SHA256, AES-256-GCM, under
//
//	info = "sealbridge/0.2.0/envelope" 0x00 JCS({commit, expiresAt, kid, to, v})
//
// so that a changed header does not open. HPKE says nothing about the sender:
// the document inside is signed. What is sealed is the plaintext [Pad]ded to a
// size class (R2). Files travel as chunks ([SealChunk], R5) and invite blobs
// under a shared secret ([SealUnder], K1).
//
// The package is law: no clock, no disk, no net. HPKE and [GenerateKey] draw
// their own randomness; nothing else does.
package box

import (
	"crypto/hpke"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"sealbridge/signing"
	"sealbridge/spec"
)

// Sizes in bytes of the suite's keys (X-Wing).
const (
	PublicKeySize  = 1216 // ML-KEM-768 encapsulation key, X25519 public key
	PrivateKeySize = 32   // the seed that both halves are derived from
	encSize        = 1120 // ML-KEM-768 ciphertext, X25519 ephemeral key
	tagSize        = 16   // AES-256-GCM
)

func kem() hpke.KEM   { return hpke.MLKEM768X25519() }
func kdf() hpke.KDF   { return hpke.HKDFSHA256() }
func aead() hpke.AEAD { return hpke.AES256GCM() }

// b64 is the one spelling of bytes in text: base64url without padding. Strict
// refuses loose trailing bits; decode refuses CR and LF too.
var b64 = base64.RawURLEncoding.Strict()

// decode reads text into exactly size bytes (any number for -1). The reader of
// encoding/base64 skips CR and LF, so the length has to agree as well.
func decode(text string, size int) ([]byte, bool) {
	b, err := b64.DecodeString(text)
	if err != nil || b64.EncodedLen(len(b)) != len(text) || size >= 0 && len(b) != size {
		return nil, false
	}
	return b, true
}

// PublicKey is the key of a box-key document (R2). The zero value is no key.
type PublicKey struct {
	key   hpke.PublicKey
	bytes string
	kid   signing.Digest
}

// ParsePublicKey reads [PublicKeySize] bytes and refuses what the suite does.
func ParsePublicKey(b []byte) (PublicKey, error) {
	if len(b) != PublicKeySize {
		return PublicKey{}, spec.Refuse(spec.Malformed, "", "a box key has 1216 bytes")
	}
	k, err := kem().NewPublicKey(b)
	if err != nil {
		return PublicKey{}, &spec.Error{Reason: spec.Malformed, Limit: "not a key of MLKEM768X25519", Err: err}
	}
	return PublicKey{key: k, bytes: string(b), kid: signing.DigestFrom(sha256.Sum256(b))}, nil
}

// ParsePublicKeyText reads the one spelling of a key in a document: 1622
// characters of unpadded base64url.
func ParsePublicKeyText(s string) (PublicKey, error) {
	b, ok := decode(s, PublicKeySize)
	if !ok {
		return PublicKey{}, spec.Refuse(spec.Malformed, "", "a box key is 1622 characters of unpadded base64url")
	}
	return ParsePublicKey(b)
}

// Bytes returns a copy of the [PublicKeySize] bytes.
func (p PublicKey) Bytes() []byte { return []byte(p.bytes) }

// String is the spelling of the key in a document.
func (p PublicKey) String() string { return b64.EncodeToString([]byte(p.bytes)) }

// Kid is the name of the key: SHA-256 of its bytes (R2).
func (p PublicKey) Kid() signing.Digest { return p.kid }

// IsZero says that there is no key.
func (p PublicKey) IsZero() bool { return p.key == nil }

// PrivateKey opens what was sealed to its public half. The zero value is no key.
type PrivateKey struct {
	key  hpke.PrivateKey
	seed [PrivateKeySize]byte
	pub  PublicKey
}

// GenerateKey makes a new key.
func GenerateKey() (PrivateKey, error) {
	k, err := kem().GenerateKey()
	if err != nil {
		return PrivateKey{}, fmt.Errorf("generating a box key: %w", err)
	}
	seed, err := k.Bytes()
	if err != nil {
		return PrivateKey{}, fmt.Errorf("reading a new box key: %w", err)
	}
	return ParsePrivateKey(seed)
}

// ParsePrivateKey reads the [PrivateKeySize] bytes of a seed.
func ParsePrivateKey(seed []byte) (PrivateKey, error) {
	if len(seed) != PrivateKeySize {
		return PrivateKey{}, spec.Refuse(spec.Malformed, "", "a private box key has 32 bytes")
	}
	k, err := kem().NewPrivateKey(seed)
	if err != nil {
		return PrivateKey{}, &spec.Error{Reason: spec.Malformed, Limit: "not a key of MLKEM768X25519", Err: err}
	}
	pub, err := ParsePublicKey(k.PublicKey().Bytes())
	if err != nil {
		return PrivateKey{}, err
	}
	return PrivateKey{key: k, seed: [PrivateKeySize]byte(seed), pub: pub}, nil
}

// Bytes returns the seed: the secret itself, for a key file and nothing else.
func (p PrivateKey) Bytes() []byte { return p.seed[:] }

// Public returns the other half.
func (p PrivateKey) Public() PublicKey { return p.pub }

// IsZero says that there is no key.
func (p PrivateKey) IsZero() bool { return p.key == nil }

// String and GoString name the key and never show it.
func (p PrivateKey) String() string   { return "box.PrivateKey(" + p.pub.kid.String() + ")" }
func (p PrivateKey) GoString() string { return p.String() }
