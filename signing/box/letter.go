package box

import (
	"crypto/sha256"
	"encoding/hex"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Salt is 128 bits that the sender draws for each letter, written as 32
// lower-case hex digits. It keeps a commit from being guessed (R1).
type Salt struct{ s string }

// SaltFrom makes a Salt of 16 random bytes.
func SaltFrom(b [16]byte) Salt { return Salt{hex.EncodeToString(b[:])} }

// ParseSalt reads the one spelling of a Salt.
func ParseSalt(s string) (Salt, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 16 || hex.EncodeToString(b) != s {
		return Salt{}, spec.Refuse(spec.Malformed, "", "32 lower-case hex digits")
	}
	return Salt{s}, nil
}

func (s Salt) String() string { return s.s }

// IsZero says that there is no salt.
func (s Salt) IsZero() bool { return s.s == "" }

// MarshalText writes the 32 hex digits.
func (s Salt) MarshalText() ([]byte, error) {
	if s.IsZero() {
		return nil, spec.Refuse(spec.Malformed, "", "a letter needs a salt")
	}
	return []byte(s.s), nil
}

// UnmarshalText reads them.
func (s *Salt) UnmarshalText(b []byte) (err error) {
	*s, err = ParseSalt(string(b))
	return err
}

// Letter is what an envelope holds (R1).
type Letter struct {
	From              signing.DID     `json:"from"` // signer of the document
	To                signing.DID     `json:"to"`   // ourselves
	Salt              Salt            `json:"salt"`
	CertificateDigest *signing.Digest `json:"certificateDigest"` // of the sender's agent-certificate; null if it has none yet
	Document          jcs.Value       `json:"document"`
}

// letterLimits let a document of full size and depth fit inside.
var letterLimits = jcs.Limits{
	Bytes:  jcs.DocumentLimits.Bytes + 1<<10,
	Depth:  jcs.DocumentLimits.Depth + 1,
	Values: jcs.DocumentLimits.Values + 8,
	Number: jcs.DocumentLimits.Number,
}

// Plain writes the letter as canonical JSON: what [Seal] takes.
func (l Letter) Plain() ([]byte, error) {
	v, err := jcs.Encode(l)
	if err != nil {
		return nil, err
	}
	if len(v.String()) > letterLimits.Bytes {
		return nil, spec.Refuse(spec.TooLarge, "/document", "256 KiB")
	}
	return v.Bytes(), nil
}

// ReadLetter reads what [Keyring.Open] returned: canonical, exactly these
// members. The document is not judged.
func ReadLetter(plain []byte) (Letter, error) {
	v, err := jcs.ParseWithin(plain, letterLimits)
	if err != nil {
		return Letter{}, err
	}
	var l Letter
	if err := jcs.Decode(v, &l); err != nil {
		return Letter{}, err
	}
	return l, nil
}

// Commit is what stands in the clear for a document nobody else may know (R1):
// SHA-256 over 48 bytes, the 16 bytes of the salt and then the 32 bytes of the
// document's digest (S8). A zero salt or digest has no commit.
func Commit(salt Salt, document signing.Digest) signing.Digest {
	if salt.IsZero() || document.IsZero() {
		return signing.Digest{}
	}
	raw, err := hex.DecodeString(salt.s)
	if err != nil {
		return signing.Digest{}
	}
	sum := document.Sum()
	return signing.DigestFrom(sha256.Sum256(append(raw, sum[:]...)))
}

// Check holds a letter against the header it came under: the same recipient,
// and a commit to this document.
func (l Letter) Check(h Header, document signing.Digest) error {
	if l.To != h.To {
		return spec.Refuse(spec.Malformed, "/to", "not the recipient of the envelope")
	}
	if c := Commit(l.Salt, document); c.IsZero() || c != h.Commit {
		return spec.Refuse(spec.BadDigest, "/commit", "R1")
	}
	return nil
}
