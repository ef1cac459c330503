package manifest

import (
	"encoding/json"
	"strings"

	"sealbridge/signing"
	"sealbridge/spec"
)

// Role is one of the two sides of a task.
type Role string

const (
	Requester Role = "requester"
	Worker    Role = "worker"
)

// Other is the other side.
func (r Role) Other() Role {
	if r == Requester {
		return Worker
	}
	return Requester
}

// shape is the pattern of one family of ids: ^prefix[a-zA-Z0-9_-]{min,max}$.
type shape interface {
	bounds() (prefix string, min, max int)
}

type (
	taskShape       struct{}
	askShape        struct{}
	inviteShape     struct{}
	capabilityShape struct{}
	callShape       struct{}
	criterionShape  struct{}
	checkShape      struct{}
)

func (taskShape) bounds() (string, int, int)       { return "task_", 8, 64 }
func (askShape) bounds() (string, int, int)        { return "apr_", 8, 64 }
func (inviteShape) bounds() (string, int, int)     { return "inv_", 8, 64 }
func (capabilityShape) bounds() (string, int, int) { return "cap_", 4, 64 }
func (callShape) bounds() (string, int, int)       { return "call_", 8, 64 }
func (criterionShape) bounds() (string, int, int)  { return "ac_", 1, 32 }
func (checkShape) bounds() (string, int, int)      { return "chk_", 1, 32 }

// ID is an id behind its prefix (D7): matched against the pattern, compared
// exactly, never read for meaning. The zero ID is none.
type ID[S shape] struct{ s string }

type (
	TaskID       = ID[taskShape]
	AskID        = ID[askShape]
	InviteID     = ID[inviteShape]
	CapabilityID = ID[capabilityShape]
	CallID       = ID[callShape]
	CriterionID  = ID[criterionShape]
	CheckID      = ID[checkShape]
)

// ParseTaskID and its like take an id that matches its pattern.
func ParseTaskID(s string) (TaskID, error)             { return parseID[taskShape](s) }
func ParseAskID(s string) (AskID, error)               { return parseID[askShape](s) }
func ParseInviteID(s string) (InviteID, error)         { return parseID[inviteShape](s) }
func ParseCapabilityID(s string) (CapabilityID, error) { return parseID[capabilityShape](s) }
func ParseCallID(s string) (CallID, error)             { return parseID[callShape](s) }
func ParseCriterionID(s string) (CriterionID, error)   { return parseID[criterionShape](s) }
func ParseCheckID(s string) (CheckID, error)           { return parseID[checkShape](s) }

func parseID[S shape](s string) (id ID[S], err error) {
	prefix, lo, hi := S.bounds(*new(S))
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok || len(rest) < lo || len(rest) > hi || !onlyIDLetters(rest) {
		return id, spec.Refuse(spec.Malformed, "", "an id: "+prefix+"…")
	}
	return ID[S]{strings.Clone(s)}, nil
}

func onlyIDLetters(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

const idLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

func (id ID[S]) String() string                { return id.s }
func (id ID[S]) IsZero() bool                  { return id.s == "" }
func (id ID[S]) MarshalText() ([]byte, error)  { return []byte(id.s), nil }
func (id *ID[S]) UnmarshalText(b []byte) error { return id.ReadText(string(b)) }

// ReadText takes a text that matches the pattern.
func (id *ID[S]) ReadText(s string) (err error) {
	*id, err = parseID[S](s)
	return err
}

// MarshalJSON and UnmarshalJSON serve what we store ourselves, where "" is the zero ID.
func (id ID[S]) MarshalJSON() ([]byte, error) { return json.Marshal(id.s) }
func (id *ID[S]) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if s == "" {
		*id = ID[S]{}
		return nil
	}
	return id.UnmarshalText([]byte(s))
}

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// IsULID says whether s has the 26 characters of a ULID, which are 128 bits and no more.
func IsULID(s string) bool {
	return len(s) == 26 && s[0] <= '7' && strings.Trim(s, crockford) == ""
}

// DerivedID is an id for a system that wants ULIDs of its own: a prefix and 128
// bits of a digest over what is named and which one. It is the same every time
// and at every gateway, and carries no time.
func DerivedID(prefix, what, of string) string {
	sum := signing.DigestOf([]byte("sealbridge/" + what + "\x00" + of)).Sum()
	out := make([]byte, 26)
	bit := -2 // 26 characters of 5 bits are 130: the first has three
	for i := range out {
		n := 0
		for range 5 {
			n <<= 1
			if bit >= 0 && sum[bit/8]&(0x80>>(bit%8)) != 0 {
				n |= 1
			}
			bit++
		}
		out[i] = crockford[n]
	}
	return prefix + string(out)
}

// Gate is one of the five human gates of a TaskManifest (G1).
type Gate string

const (
	ContractGate Gate = "GATE_CONTRACT_ACCEPT"
	EffectGate   Gate = "GATE_EXTERNAL_SIDE_EFFECT"
	BudgetGate   Gate = "GATE_BUDGET_OVERRUN"
	SubGate      Gate = "GATE_SUB_DELEGATION"
	DeliveryGate Gate = "GATE_DELIVERY_ACCEPT"
)

// TaskKey names a task for us (M11): the pair of requester's owner and taskId.
type TaskKey struct {
	Owner signing.DID `json:"owner"`
	ID    TaskID      `json:"id"`
}

func (k TaskKey) String() string { return k.Owner.String() + "/" + k.ID.String() }
