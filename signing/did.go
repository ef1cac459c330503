package signing

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/multiformats/go-multibase"

	"sealbridge/spec"
)

// DID is the did:key of an Ed25519 key: multibase z, multicodec 0xed 0x01, 32
// bytes, a canonical point of prime order, one spelling (I1). It is comparable;
// the zero DID is nobody.
type DID struct{ s string }

const (
	didPrefix = "did:key:"
	didLen    = 56 // did:key:z6Mk and 44 characters more
)

// ParseDID refuses everything that is not the one spelling of a good key.
func ParseDID(s string) (DID, error) {
	if d, ok := known(s); ok {
		return d, nil
	}
	key, err := didKey(s)
	if err != nil {
		return DID{}, err
	}
	p, good := primeOrder(key)
	if !good {
		return DID{}, spec.Refuse(spec.Malformed, "", "did:key: not a key of prime order (I1)")
	}
	d := DID{strings.Clone(s)}
	remember(d, &p)
	return d, nil
}

// didKey is the cheap half: everything but the order of the point.
func didKey(s string) (key [32]byte, err error) {
	bad := func(why string) ([32]byte, error) {
		return key, spec.Refuse(spec.Malformed, "", "did:key: "+why+" (I1)")
	}
	// base58 is quadratic: the length comes first.
	if len(s) != didLen || !strings.HasPrefix(s, didPrefix+"z6Mk") {
		return bad("not an Ed25519 did:key of 56 characters")
	}
	_, raw, err := multibase.Decode(s[len(didPrefix):])
	if err != nil || len(raw) != 34 || raw[0] != 0xed || raw[1] != 0x01 {
		return bad("not an Ed25519 key")
	}
	copy(key[:], raw[2:])
	if spell(key) != s {
		return bad("another spelling")
	}
	return key, nil
}

func spell(key [32]byte) string {
	text, err := multibase.Encode(multibase.Base58BTC, append([]byte{0xed, 0x01}, key[:]...))
	if err != nil {
		panic("signing: base58btc: " + err.Error()) // the encoding is a constant
	}
	return didPrefix + text
}

// DIDOf is the did:key of a public key, refused as ParseDID would.
func DIDOf(pub [32]byte) (DID, error) {
	if _, good := primeOrder(pub); !good {
		return DID{}, spec.Refuse(spec.Malformed, "", "not a key of prime order (I1)")
	}
	return DID{spell(pub)}, nil
}

// Key is the public key. The zero DID has none: that is a panic, because a key
// of nobody must not go on as a value.
func (d DID) Key() (key [32]byte) {
	if d.s == "" {
		panic("signing: key of no DID")
	}
	_, raw, err := multibase.Decode(d.s[len(didPrefix):])
	if err != nil {
		panic("signing: key of no DID") // a DID that is not zero was parsed
	}
	copy(key[:], raw[2:])
	return key
}

func (d DID) String() string               { return d.s }
func (d DID) IsZero() bool                 { return d.s == "" }
func (d DID) MarshalText() ([]byte, error) { return []byte(d.s), nil }

// UnmarshalText is ParseDID; an empty text is the zero DID only in what we stored ourselves.
func (d *DID) UnmarshalText(b []byte) error { return d.ReadText(string(b)) }

// ReadText is ParseDID.
func (d *DID) ReadText(s string) (err error) {
	*d, err = ParseDID(s)
	return err
}

// Digest is sha256: and 64 lower-case hexadecimal digits (D6).
type Digest struct{ s string }

const digestPrefix = "sha256:"

// ParseDigest takes the one spelling.
func ParseDigest(s string) (Digest, error) {
	hx, ok := strings.CutPrefix(s, digestPrefix)
	if !ok || len(hx) != 64 || strings.Trim(hx, "0123456789abcdef") != "" {
		return Digest{}, spec.Refuse(spec.Malformed, "", "a digest: sha256: and 64 lower-case hex digits (D6)")
	}
	return Digest{strings.Clone(s)}, nil
}

// DigestOf is the SHA-256 of b.
func DigestOf(b []byte) Digest { return DigestFrom(sha256.Sum256(b)) }

// DigestFrom names a sum that is there already.
func DigestFrom(sum [32]byte) Digest { return Digest{digestPrefix + hex.EncodeToString(sum[:])} }

// Sum is the 32 bytes.
func (d Digest) Sum() (sum [32]byte) {
	if d.s != "" {
		hex.Decode(sum[:], []byte(d.s[len(digestPrefix):])) //nolint:errcheck // parsed before
	}
	return sum
}

func (d Digest) String() string                { return d.s }
func (d Digest) IsZero() bool                  { return d.s == "" }
func (d Digest) MarshalText() ([]byte, error)  { return []byte(d.s), nil }
func (d *Digest) UnmarshalText(b []byte) error { return d.ReadText(string(b)) }

// ReadText is ParseDigest.
func (d *Digest) ReadText(s string) (err error) {
	*d, err = ParseDigest(s)
	return err
}

// Short is the digest as people see it: eight digits and the last four.
func (d Digest) Short() string {
	if d.s == "" {
		return "–"
	}
	return d.s[7:15] + "…" + d.s[67:]
}

// Time is an instant in RFC 3339 UTC with upper-case T and Z and 0 to 9
// fraction digits (D5); ours have none. It keeps its spelling, so that what was
// read is written again byte for byte. Compare the instants, never the text.
type Time struct{ s string }

// ParseTime refuses offsets, leap seconds and every other spelling.
func ParseTime(s string) (Time, error) {
	good := len(s) >= 20 && len(s) <= 30 && len(s) != 21 && s[10] == 'T' && s[len(s)-1] == 'Z' && (len(s) == 20 || s[19] == '.')
	if good {
		_, err := time.Parse(time.RFC3339Nano, s)
		good = err == nil
	}
	if !good {
		return Time{}, spec.Refuse(spec.Malformed, "", "a time: 2031-03-01T09:00:00Z (D5)")
	}
	return Time{strings.Clone(s)}, nil
}

// TimeOf is t in UTC, cut to whole seconds.
func TimeOf(t time.Time) Time { return Time{t.UTC().Format("2006-01-02T15:04:05Z")} }

// Time is the instant; that of the zero Time is the zero time.
func (t Time) Time() time.Time {
	at, err := time.Parse(time.RFC3339Nano, t.s)
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

func (t Time) String() string                { return t.s }
func (t Time) IsZero() bool                  { return t.s == "" }
func (t Time) MarshalText() ([]byte, error)  { return []byte(t.s), nil }
func (t *Time) UnmarshalText(b []byte) error { return t.ReadText(string(b)) }

// ReadText is ParseTime.
func (t *Time) ReadText(s string) (err error) {
	*t, err = ParseTime(s)
	return err
}

// Before and After compare instants.
func (t Time) Before(u Time) bool { return t.Time().Before(u.Time()) }
func (t Time) After(u Time) bool  { return t.Time().After(u.Time()) }
