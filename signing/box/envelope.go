package box

import (
	"crypto/hpke"
	"strings"
	"sync"

	"sealbridge/signing"
	"sealbridge/spec"
)

// MaxEnvelope is the largest envelope in bytes (D1): what a relay takes in one message.
const MaxEnvelope = 1 << 20

// Version is the v of the envelopes that this package writes and reads.
const Version = 1

// Header is what the relay may read, and what is bound to the sealed bytes (R1).
type Header struct {
	V         int64          // always [Version]
	To        signing.DID    // the recipient's agent
	Kid       signing.Digest // which of its box-keys
	ExpiresAt signing.Time   // ≤ 14 days ahead; judged by who has a clock (R6)
	Commit    signing.Digest // [Commit] of salt and document digest
}

// text is JCS of the header. Every value is ASCII that needs no escape, and the
// names are in order, so the canonical form is this template.
func (h Header) text() string {
	return `{"commit":"` + h.Commit.String() + `","expiresAt":"` + h.ExpiresAt.String() +
		`","kid":"` + h.Kid.String() + `","to":"` + h.To.String() + `","v":1}`
}

// info binds a header to what HPKE seals.
func (h Header) info() []byte { return []byte("sealbridge/0.2.0/envelope\x00" + h.text()) }

func (h Header) check() error {
	switch {
	case h.V != Version:
		return spec.Refuse(spec.Malformed, "/v", "1")
	case h.To.IsZero():
		return spec.Refuse(spec.Malformed, "/to", "required")
	case h.Kid.IsZero():
		return spec.Refuse(spec.Malformed, "/kid", "required")
	case h.ExpiresAt.IsZero():
		return spec.Refuse(spec.Malformed, "/expiresAt", "required")
	case h.Commit.IsZero():
		return spec.Refuse(spec.Malformed, "/commit", "required")
	}
	return nil
}

// Seal seals plain, at most [MaxPlain] bytes, to a key and returns the envelope.
// The header's Kid has to be the key's; its V may be left 0.
func Seal(to PublicKey, h Header, plain []byte) (envelope []byte, err error) {
	if h.V == 0 {
		h.V = Version
	}
	if err := h.check(); err != nil {
		return nil, err
	}
	if to.IsZero() || h.Kid != to.kid {
		return nil, spec.Refuse(spec.UnknownKey, "/kid", "not the name of the key sealed to")
	}
	padded, err := Pad(plain)
	if err != nil {
		return nil, err
	}
	enc, sender, err := hpke.NewSender(to.key, kdf(), aead(), h.info())
	if err != nil {
		return nil, &spec.Error{Reason: spec.Malformed, Path: "/kid", Limit: "the key cannot be sealed to", Err: err}
	}
	sealed, err := sender.Seal(nil, padded)
	if err != nil {
		return nil, &spec.Error{Reason: spec.Internal, Err: err}
	}
	return h.write(enc, sealed), nil
}

// write puts the envelope together in the order of RFC 8785.
func (h Header) write(enc, sealed []byte) []byte {
	out := make([]byte, 0, b64.EncodedLen(len(enc))+b64.EncodedLen(len(sealed))+512)
	out = append(out, `{"box":"`...)
	out = b64.AppendEncode(out, sealed)
	out = append(out, `","commit":"`...)
	out = append(out, h.Commit.String()...)
	out = append(out, `","enc":"`...)
	out = b64.AppendEncode(out, enc)
	out = append(out, `","expiresAt":"`...)
	out = append(out, h.ExpiresAt.String()...)
	out = append(out, `","kid":"`...)
	out = append(out, h.Kid.String()...)
	out = append(out, `","to":"`...)
	out = append(out, h.To.String()...)
	return append(out, `","v":1}`...)
}

// ReadHeader reads an envelope without opening it: all that a relay knows and
// checks. The sealed parts are held against their alphabet and size.
func ReadHeader(envelope []byte) (Header, error) {
	h, _, _, err := read(envelope)
	return h, err
}

// read takes an envelope apart by its one shape. What it accepts, write would
// have written: a member more, less or elsewhere, a space, an escape or another
// spelling of a value is refused. It costs one pass and no JSON reader.
func read(envelope []byte) (h Header, enc, sealed []byte, err error) {
	if len(envelope) > MaxEnvelope {
		return Header{}, nil, nil, spec.Refuse(spec.TooLarge, "", "1 MiB")
	}
	s := scanner{rest: string(envelope)}
	boxText := s.member(`{"box":"`, "/box")
	commit := s.member(`,"commit":"`, "/commit")
	encText := s.member(`,"enc":"`, "/enc")
	expires := s.member(`,"expiresAt":"`, "/expiresAt")
	kid := s.member(`,"kid":"`, "/kid")
	to := s.member(`,"to":"`, "/to")
	s.end(`,"v":1}`, "/v")
	if s.err != nil {
		return Header{}, nil, nil, s.err
	}
	h.V = Version
	if h.Commit, err = signing.ParseDigest(commit); err != nil {
		return Header{}, nil, nil, spec.At("/commit", err)
	}
	if h.ExpiresAt, err = signing.ParseTime(expires); err != nil {
		return Header{}, nil, nil, spec.At("/expiresAt", err)
	}
	if h.Kid, err = signing.ParseDigest(kid); err != nil {
		return Header{}, nil, nil, spec.At("/kid", err)
	}
	if h.To, err = signing.ParseDID(to); err != nil {
		return Header{}, nil, nil, spec.At("/to", err)
	}
	enc, ok := decode(encText, encSize)
	if !ok {
		return Header{}, nil, nil, spec.Refuse(spec.Malformed, "/enc", "1494 characters of unpadded base64url")
	}
	sealed, ok = decode(boxText, -1)
	if !ok || !isClass(len(sealed)-tagSize) {
		return Header{}, nil, nil, spec.Refuse(spec.Malformed, "/box", "unpadded base64url of a size class and a tag")
	}
	return h, enc, sealed, nil
}

// scanner walks the fixed shape; the first thing out of place ends it.
type scanner struct {
	rest string
	err  error
}

// member expects open and returns the text up to the next quote. Text with a
// backslash or a control character is not what any of our parsers takes.
func (s *scanner) member(open, path string) string {
	if s.err != nil {
		return ""
	}
	rest, ok := strings.CutPrefix(s.rest, open)
	text, rest, found := strings.Cut(rest, `"`)
	if !ok || !found {
		s.err = spec.Refuse(spec.Malformed, path, "not the shape of an envelope")
		return ""
	}
	s.rest = rest
	return text
}

func (s *scanner) end(want, path string) {
	if s.err == nil && s.rest != want {
		s.err = spec.Refuse(spec.Malformed, path, "not the shape of an envelope")
	}
}

// Keyring holds our private keys by name: the current one and those that may
// still be sealed to (R2). It may be used by many goroutines at once. The zero
// value is empty and opens nothing.
type Keyring struct {
	mu   sync.RWMutex // guards keys
	keys map[signing.Digest]PrivateKey
}

// NewKeyring returns a Keyring that holds keys.
func NewKeyring(keys ...PrivateKey) *Keyring {
	r := new(Keyring)
	for _, k := range keys {
		r.Add(k)
	}
	return r
}

// Add takes one more key.
func (r *Keyring) Add(k PrivateKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keys == nil {
		r.keys = make(map[signing.Digest]PrivateKey)
	}
	if !k.IsZero() {
		r.keys[k.pub.kid] = k
	}
}

// Forget drops a key: from then on nothing sealed to it can be opened here.
func (r *Keyring) Forget(kid signing.Digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.keys, kid)
}

// Holds says whether the key is there.
func (r *Keyring) Holds(kid signing.Digest) bool {
	_, ok := r.key(kid)
	return ok
}

func (r *Keyring) key(kid signing.Digest) (PrivateKey, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	k, ok := r.keys[kid]
	return k, ok
}

// Open opens an envelope that was sealed to a key of ours. It answers
// unknown-key for another kid and malformed for everything that does not open;
// neither is told to the sender (section 15). The header's time is not judged.
func (r *Keyring) Open(envelope []byte) (Header, []byte, error) {
	h, enc, sealed, err := read(envelope)
	if err != nil {
		return Header{}, nil, err
	}
	k, ok := r.key(h.Kid)
	if !ok {
		return Header{}, nil, spec.Refuse(spec.UnknownKey, "/kid", "not a key of ours")
	}
	to, err := hpke.NewRecipient(enc, k.key, kdf(), aead(), h.info())
	if err != nil {
		return Header{}, nil, &spec.Error{Reason: spec.Malformed, Path: "/enc", Limit: "does not open", Err: err}
	}
	padded, err := to.Open(nil, sealed)
	if err != nil {
		return Header{}, nil, &spec.Error{Reason: spec.Malformed, Path: "/box", Limit: "does not open", Err: err}
	}
	plain, err := Unpad(padded)
	if err != nil {
		return Header{}, nil, spec.At("/box", err)
	}
	return h, plain, nil
}
