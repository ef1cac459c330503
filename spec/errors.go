// Package spec is the law of Sealbridge: its prose, its JSON Schemas, its
// vectors and the closed list of words that may cross a boundary.
//
// It imports nothing of ours, so that everything else can import it.
package spec

import (
	"errors"
	"strings"
)

// Reason is one of the stable words that one gateway, relay or auditor may say
// to another about why something was refused (errors.md, section E). The list
// is closed; what has no word leaves as [Internal], without its text.
type Reason string

const (
	Malformed            Reason = "malformed"
	TooLarge             Reason = "too-large"
	NotCanonical         Reason = "not-canonical"
	UnknownType          Reason = "unknown-type"
	BadDigest            Reason = "bad-digest"
	BadSignature         Reason = "bad-signature"
	WrongSigner          Reason = "wrong-signer"
	WrongContext         Reason = "wrong-context"
	UnknownKey           Reason = "unknown-key"
	CertificateExpired   Reason = "certificate-expired"
	Revoked              Reason = "revoked"
	Stale                Reason = "stale"
	Expired              Reason = "expired"
	Replayed             Reason = "replayed"
	Conflict             Reason = "conflict"
	Fork                 Reason = "fork"
	IllegalTransition    Reason = "illegal-transition"
	PolicyDenied         Reason = "policy-denied"
	Quota                Reason = "quota"
	GateOpen             Reason = "gate-open"
	GateDenied           Reason = "gate-denied"
	GateExpired          Reason = "gate-expired"
	BudgetExhausted      Reason = "budget-exhausted"
	CapabilityDenied     Reason = "capability-denied"
	CapabilityExhausted  Reason = "capability-exhausted"
	DepthExceeded        Reason = "depth-exceeded"
	NotAttenuated        Reason = "not-attenuated"
	UnsupportedIsolation Reason = "unsupported-isolation"
	VerificationFailed   Reason = "verification-failed"
	NotPermitted         Reason = "not-permitted"
	NotFound             Reason = "not-found"
	Unavailable          Reason = "unavailable"
	Internal             Reason = "internal"
)

// Reasons lists every word in the order of errors.md; a test holds the two
// lists together.
func Reasons() []Reason {
	return []Reason{
		Malformed, TooLarge, NotCanonical, UnknownType, BadDigest, BadSignature, WrongSigner, WrongContext,
		UnknownKey, CertificateExpired, Revoked, Stale, Expired, Replayed, Conflict, Fork, IllegalTransition,
		PolicyDenied, Quota, GateOpen, GateDenied, GateExpired, BudgetExhausted, CapabilityDenied,
		CapabilityExhausted, DepthExceeded, NotAttenuated, UnsupportedIsolation, VerificationFailed,
		NotPermitted, NotFound, Unavailable, Internal,
	}
}

// Error is the one error that may cross a boundary: the word, where in the
// input, and the limit that was passed. Whatever is not an *Error leaves as
// [Internal], without its text. Err is for our own log and is never sent.
type Error struct {
	Reason Reason
	Path   string // JSON pointer into the document, "" for the whole
	Limit  string // the bound in words: "192 KiB", "≤ 90 days", "M3"
	Err    error
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Reason))
	if e.Path != "" {
		b.WriteString(": " + e.Path)
	}
	if e.Limit != "" {
		b.WriteString(": " + e.Limit)
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// Refuse returns an *Error with a word, a path and the limit or rule.
func Refuse(r Reason, path, limit string) *Error {
	return &Error{Reason: r, Path: path, Limit: limit}
}

// ReasonOf says which word stands for err: that of the first *Error in its
// chain, [Internal] where there is none, "" for nil.
func ReasonOf(err error) Reason {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return Internal
}

// At returns err with prefix put before its path, for a reader that descends.
func At(prefix string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	c := *e
	c.Path = prefix + c.Path
	return &c
}
