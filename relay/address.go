package relay

import (
	"encoding/base32"
	"net"
	"net/url"
	"strings"

	"sealbridge/signing"
	"sealbridge/spec"
)

// Address is where a relay is and who it is.
type Address struct {
	URL string // what is dialled: scheme://host[:port]
	DID signing.DID
}

// ParseAddress reads wss://host/z6Mk… or tls://host:port/z6Mk…; ws:// and
// nats:// only on loopback (R3).
func ParseAddress(s string) (Address, error) {
	bad := func(why string) (Address, error) {
		return Address{}, spec.Refuse(spec.Malformed, "/endpoint", why)
	}
	u, err := url.Parse(s)
	if err != nil || len(s) > 300 || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Opaque != "" {
		return bad("a relay address: wss://host/z6Mk…")
	}
	switch u.Scheme {
	case "wss", "tls":
	case "ws", "nats":
		if !loopback(u.Hostname()) {
			return bad("wss:// or tls:// (plain only on loopback, R3)")
		}
	default:
		return bad("wss:// or tls://")
	}
	if (u.Scheme == "tls" || u.Scheme == "nats") && u.Port() == "" {
		return bad("a port is needed")
	}
	did, err := signing.ParseDID("did:key:" + strings.TrimPrefix(u.Path, "/"))
	if err != nil {
		return bad("the relay's identity after the host: /z6Mk…")
	}
	a := Address{u.Scheme + "://" + u.Host, did}
	if a.String() != s {
		return bad("another spelling of " + a.String())
	}
	return a, nil
}

// String is the one spelling, the text to hand out.
func (a Address) String() string {
	if a.DID.IsZero() {
		return a.URL
	}
	return a.URL + "/" + strings.TrimPrefix(a.DID.String(), "did:key:")
}

// TLS says whether what is dialled is under TLS.
func (a Address) TLS() bool {
	return strings.HasPrefix(a.URL, "wss://") || strings.HasPrefix(a.URL, "tls://")
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Token is a key as a NATS user key: U and 55 characters. It stands for a DID
// in subjects; the zero Token is nobody.
type Token struct{ s string }

const userPrefix = 20 << 3 // the byte that becomes the U

var b32 = base32.StdEncoding.WithPadding(base32.NoPadding)

// TokenOf is the token of a DID.
func TokenOf(d signing.DID) Token { return TokenOfKey(d.Key()) }

// TokenOfKey is the token of a public key.
func TokenOfKey(pub [32]byte) Token {
	raw := append([]byte{userPrefix}, pub[:]...)
	sum := crc16(raw)
	return Token{b32.EncodeToString(append(raw, byte(sum), byte(sum>>8)))}
}

// ParseToken takes the one spelling. Whether the key in it is good is said by [Token.DID].
func ParseToken(s string) (Token, error) {
	raw, err := b32.DecodeString(s)
	if len(s) == 56 && err == nil && len(raw) == 35 && TokenOfKey([32]byte(raw[1:33])).s == s {
		return Token{s}, nil
	}
	return Token{}, spec.Refuse(spec.Malformed, "", "a user key: U and 55 characters")
}

// Key is the public key.
func (t Token) Key() (key [32]byte) {
	if raw, err := b32.DecodeString(t.s); err == nil && len(raw) == 35 {
		copy(key[:], raw[1:33])
	}
	return key
}

// DID is the key as a did:key; a key that is not of prime order has none (I1).
func (t Token) DID() (signing.DID, error) { return signing.DIDOf(t.Key()) }

func (t Token) String() string               { return t.s }
func (t Token) IsZero() bool                 { return t.s == "" }
func (t Token) MarshalText() ([]byte, error) { return []byte(t.s), nil }
func (t *Token) UnmarshalText(b []byte) (err error) {
	*t, err = ParseToken(string(b))
	return err
}

// crc16 is CRC-16/XMODEM, as in NATS keys.
func crc16(b []byte) (sum uint16) {
	for _, c := range b {
		sum ^= uint16(c) << 8
		for range 8 {
			if sum&0x8000 != 0 {
				sum = sum<<1 ^ 0x1021
			} else {
				sum <<= 1
			}
		}
	}
	return sum
}
