// Package policy answers one question: may this happen? [Contract] is the law
// alone, the same at both owners and at an auditor. [Policy.Decide] is Contract
// made narrower by the owner's rules; it never allows what Contract denies.
//
// A denial is a result, not an error. Nothing here reads a clock or a file:
// whatever was not handed in is missing, and what is missing is refused.
package policy

import (
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/signing"
	"sealbridge/spec"
)

// Outcome is the answer; the zero value refuses.
type Outcome int

const (
	Deny  Outcome = iota
	Allow         // at the cost of Moves
	Hold          // until a person has said yes to Gate
)

func (o Outcome) String() string {
	switch o {
	case Allow:
		return "allow"
	case Hold:
		return "hold"
	}
	return "deny"
}

// Case is all that a decision may look at.
type Case struct {
	Event     manifest.Event // a draft of ours, or a fact; seq, prev and seen filled
	Rehearsal bool           // nothing is said: what a proposal has to follow may still be ahead
	Parent    task.Task      // for a proposal of our own: the task that it is a part of
	Role      manifest.Role  // our own side in this task; "" for an auditor
	By        signing.DID    // who says it: the author
	Task      task.Task      // as it stands before the event
	Ledger    Ledger         // at least Accounts(…)
	Consents  []Consent      // verified decisions about this task
	At        time.Time      // of this gateway, inside its turn (T2)
	Zone      *time.Location // in which a contact\'s day begins and ends (B8); nil: UTC

	// For Decide only: what the law does not look at.
	Caller          string   // our agent's name, "" for the owner's own command
	Contact         Contact  // the other side
	Files           []string // absolute paths that would leave, links resolved
	NamedFiles      []string // those of Files that a person named
	Isolation       []string // levels that this gateway's runners enforce
	Wished          bool     // no person of ours said it: an agent would like it, or a meter ran out
	Filters         bool     // this gateway holds its agent to the hosts of a contract (X3)
	ClaimedIsEnough bool     // the requester's draft said that a claimed isolation will do (X6)

	Together manifest.GroupKind // others are asked for the same: said by the requester, or our own group's (P4)
	Group    *Group             // of a task of ours: what belongs to it
	Opens    bool               // the proposal is an open one, which is no contract (M10)
}

// Contact is what our owner calls the other side.
type Contact struct {
	Name      string
	Owner     signing.DID
	Confirmed bool // a person compared the six words (K2)
	Blocked   bool
}

// Decision is the answer with its reason.
type Decision struct {
	Outcome Outcome
	Rule    string // "G1", or the name of a rule of the policy
	Index   int    // of that rule in its section, from 0; -1 where Section is ""
	Section string // incoming, outgoing, tools, checks, ask; "" where the law decided
	Reason  spec.Reason
	Path    string // JSON pointer into the event's body or manifest
	Limit   string
	Have    string   // of a denial: the value that was compared; "" where none was
	Most    string   // and the one that it was held against
	Gate    *Gate    // of a Hold
	Consent *Consent // of an Allow that needed one: its decision belongs into the event
	Moves   []Move   // of an Allow
	Day     []Move   // of a Hold: what a yes will reserve of the rule's day (B8)
}

// Gate is the question that a Hold waits for (G2).
type Gate struct {
	Gate     manifest.Gate
	Side     manifest.Role
	Owner    signing.DID    // who must have said yes
	Contract signing.Digest // in force when it is asked
	Subject  signing.Digest
	Added    bool // the manifest does not name this gate, our policy does (G1)

	// Filled by Decide.
	Who      []string               // names in Policy.People
	Keys     map[string]signing.DID // of those of Who who are not the owner
	Need     int                    // votes (G5)
	Presence []string               // kinds that count (G10)
	StepUp   bool
	Until    time.Time // never later than the task's deadline (G4)
}

// Consent is a person's yes, verified: the gate-decision's signature, role and
// certificate held, its verdict is allow, and its quorum is full.
type Consent struct {
	Gate      manifest.Gate
	AskDigest signing.Digest
	Contract  signing.Digest
	Subject   signing.Digest
	Owner     signing.DID
	Decision  signing.Digest     // of the signed gate-decision
	Lasts     string             // once or standing
	Grant     *manifest.Standing // of a standing one: what it was said of
	Presence  string             // how its person was there; of our own owner's standing yes
	Until     time.Time          // zero: recorded already, stays good (T2)
}

// satisfies says whether k is a yes to exactly this gate (G1, G2).
func (k Consent) satisfies(g Gate, at time.Time) bool {
	return k.Gate == g.Gate && k.Owner == g.Owner && !k.Owner.IsZero() &&
		k.Contract == g.Contract && !k.Contract.IsZero() &&
		k.Subject == g.Subject && !k.Subject.IsZero() &&
		!k.Decision.IsZero() && k.Lasts == LastsOnce &&
		(k.Until.IsZero() || at.Before(k.Until))
}

// LastsOnce is used up by the act that it allows (G6).
const LastsOnce = "once"

func deny(rule string, r spec.Reason, path, limit string) Decision {
	return Decision{Rule: rule, Index: -1, Reason: r, Path: path, Limit: limit}
}

// Err is the denial as the one error that may leave the gateway; nil for an Allow.
func (d Decision) Err() error {
	switch d.Outcome {
	case Allow:
		return nil
	case Hold:
		return spec.Refuse(spec.GateOpen, d.Path, string(d.Gate.Gate))
	}
	limit := d.Limit
	if limit == "" {
		limit = d.Rule
	}
	return spec.Refuse(d.Reason, d.Path, limit)
}
