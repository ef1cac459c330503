package relay

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"sealbridge/signing"
	"sealbridge/spec"
)

// GetRequest asks for the mail of a mailbox after a sequence, waiting for the first.
type GetRequest struct {
	After    uint64 `json:"after"`
	Max      int    `json:"max"`
	MaxBytes int    `json:"maxBytes"`
	WaitMs   int64  `json:"waitMs"`
}

// AckRequest lets the relay forget everything up to a sequence; the tag shows that
// the same envelope is meant, also after the relay lost its store.
type AckRequest struct {
	UpTo uint64 `json:"upTo"`
	Tag  string `json:"tag"`
}

// Key is the current box-key of a mailbox: a document that the relay does not read (R2).
type Key struct {
	Of  Token  `json:"of,omitzero"`   // in a question
	Kid string `json:"kid,omitempty"` // sha256:…
	Doc []byte `json:"doc,omitempty"`
}

// List says who may put into a mailbox (R3b); it replaces the one before.
type List struct {
	Allow   []Token  `json:"allow"`
	Tickets []string `json:"tickets"` // [TicketHash] of each
}

// Chunk names a chunk or a transfer.
type Chunk struct {
	From Token  `json:"from,omitzero"`
	ID   string `json:"id"`
	N    int    `json:"n"`
}

// Have lists the chunks that are there, first and last of each run.
type Have struct {
	Have  [][2]int `json:"have"`
	Count int      `json:"count"`
}

// Runs writes rising numbers as first and last of each run.
func Runs(ns []int) [][2]int {
	runs := [][2]int{}
	for _, n := range ns {
		if last := len(runs) - 1; last >= 0 && runs[last][1] == n-1 {
			runs[last][1] = n
		} else {
			runs = append(runs, [2]int{n, n})
		}
	}
	return runs
}

// Headers of a request with a body that is not JSON.
const (
	HeaderTicket  = "Sb-Ticket" // 22 characters base64url
	HeaderID      = "Sb-Id"
	HeaderN       = "Sb-N"
	HeaderTo      = "Sb-To"
	HeaderExpires = "Sb-Expires"
)

// TicketHash is what a relay keeps of a ticket: SHA-256 in hex of its 16
// bytes, "" for what is no ticket.
func TicketHash(ticket string) string {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(ticket)
	if err != nil || len(raw) != 16 {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// Check bounds a list.
func (l List) Check() error {
	if len(l.Allow) > MaxAllowed {
		return spec.Refuse(spec.TooLarge, "/allow", strconv.Itoa(MaxAllowed))
	}
	if len(l.Tickets) > MaxTickets {
		return spec.Refuse(spec.TooLarge, "/tickets", strconv.Itoa(MaxTickets))
	}
	for _, t := range l.Tickets {
		if len(t) != 64 || !GoodID(t) {
			return spec.Refuse(spec.Malformed, "/tickets", "64 hex digits")
		}
	}
	return nil
}

// Check bounds a box-key.
func (k Key) Check() error {
	if len(k.Doc) == 0 || len(k.Doc) > MaxKey {
		return spec.Refuse(spec.TooLarge, "/doc", "8 KiB")
	}
	_, err := signing.ParseDigest(k.Kid)
	return spec.At("/kid", err)
}

// Read decodes a JSON request strictly.
func Read(body []byte, into any) error {
	if len(body) > MaxRequest {
		return spec.Refuse(spec.TooLarge, "", "128 KiB")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return &spec.Error{Reason: spec.Malformed, Err: err}
	}
	if d.More() {
		return spec.Refuse(spec.Malformed, "", "nothing after the value (D1)")
	}
	return nil
}

// Write encodes a request or an answer of this package.
func Write(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("relay: " + err.Error()) // our own structs
	}
	return b
}

// Failure is an error on the wire.
type Failure struct {
	Word    spec.Reason `json:"error"`
	Path    string      `json:"path,omitempty"`
	Limit   string      `json:"limit,omitempty"`
	RetryMs int64       `json:"retryMs,omitempty"`
}

// FailureOf is what a relay says of an error: its word, path and limit.
func FailureOf(err error, retry time.Duration) Failure {
	var e *spec.Error
	f := Failure{Word: spec.ReasonOf(err), RetryMs: retry.Milliseconds()}
	if errors.As(err, &e) {
		f.Path, f.Limit = e.Path, e.Limit
	}
	return f
}

// Failed reads an answer: the error in it, or nil. A word that is not ours is
// unavailable.
func Failed(answer []byte) error {
	if len(answer) == 0 {
		return spec.Refuse(spec.Unavailable, "", "empty answer")
	}
	if !bytes.HasPrefix(answer, []byte(`{"error":`)) {
		return nil
	}
	var f Failure
	if json.Unmarshal(answer, &f) != nil {
		return spec.Refuse(spec.Unavailable, "", "unreadable answer")
	}
	for _, r := range spec.Reasons() {
		if r == f.Word {
			return &spec.Error{Reason: r, Path: f.Path, Limit: f.Limit}
		}
	}
	return spec.Refuse(spec.Unavailable, "", "unknown word")
}

// Mail is one envelope in a mailbox.
type Mail struct {
	Seq      uint64
	At       time.Time // when the relay took it, to the millisecond
	From     Token     // who put it: a hint; the sealed bytes say who wrote it
	Envelope []byte
}

// Tag is the start of an envelope's digest, as in an ack.
func Tag(envelope []byte) string {
	sum := sha256.Sum256(envelope)
	return hex.EncodeToString(sum[:TagBytes])
}

const mailHead = 8 + 8 + 56 + 4

// EncodeBatch writes 0x01 ‖ count u32 ‖ more u8 ‖ (seq u64 ‖ atMs u64 ‖ from 56 ‖ len u32 ‖ bytes)*.
func EncodeBatch(ms []Mail, more bool) []byte {
	n := 6
	for _, m := range ms {
		n += mailHead + len(m.Envelope)
	}
	out := append(make([]byte, 0, n), 1)
	out = binary.BigEndian.AppendUint32(out, uint32(len(ms)))
	if more {
		out = append(out, 1)
	} else {
		out = append(out, 0)
	}
	for _, m := range ms {
		out = binary.BigEndian.AppendUint64(out, m.Seq)
		out = binary.BigEndian.AppendUint64(out, uint64(m.At.UnixMilli()))
		out = append(out, m.From.s...)
		out = binary.BigEndian.AppendUint32(out, uint32(len(m.Envelope)))
		out = append(out, m.Envelope...)
	}
	return out
}

// DecodeBatch is the inverse; sequences must rise. The envelopes share b.
func DecodeBatch(b []byte) (ms []Mail, more bool, err error) {
	bad := spec.Refuse(spec.Malformed, "", "an answer to get")
	if len(b) < 6 || b[0] != 1 || b[5] > 1 {
		return nil, false, bad
	}
	count, more := binary.BigEndian.Uint32(b[1:]), b[5] == 1
	for b = b[6:]; len(b) > 0; {
		if len(b) < mailHead {
			return nil, false, bad
		}
		m := Mail{Seq: binary.BigEndian.Uint64(b), At: time.UnixMilli(int64(binary.BigEndian.Uint64(b[8:]))).UTC()}
		if m.From, err = ParseToken(string(b[16:72])); err != nil {
			return nil, false, bad
		}
		size := binary.BigEndian.Uint32(b[72:])
		if b = b[mailHead:]; uint64(size) > uint64(len(b)) || size > MaxEnvelope {
			return nil, false, bad
		}
		if len(ms) > 0 && m.Seq <= ms[len(ms)-1].Seq {
			return nil, false, bad
		}
		m.Envelope, b = b[:size:size], b[size:]
		ms = append(ms, m)
	}
	if uint32(len(ms)) != count {
		return nil, false, bad
	}
	return ms, more, nil
}
