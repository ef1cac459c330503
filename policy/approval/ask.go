// Package approval answers one question: what is a person asked, and what
// counts as the answer? An [Ask] is kept, not sent (G2); a gate-decision is
// somebody's signed answer to exactly one ask; [Settle] says what became of it.
//
//	{"type":"sealbridge/ask","protocolVersion":"0.2.0","askId":"apr_…",
//	 "gate":"GATE_CONTRACT_ACCEPT","side":"worker","subject":{…},…}
//
// An ask has no signature: the decision names its digest, and whoever has both
// can see the text that was shown. Nothing here reads a clock: what is not
// handed in is missing, and what is missing is no.
package approval

import (
	"encoding/base64"
	"slices"
	"time"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// TypeAsk is the type of an ask among the documents of a bundle.
const TypeAsk = "sealbridge/ask"

// Ask is one question to one owner, as it was shown (G2).
type Ask struct {
	Type            string          `json:"type" rule:"const=sealbridge/ask"`
	ProtocolVersion string          `json:"protocolVersion" rule:"const=0.2.0"`
	AskID           manifest.AskID  `json:"askId"`
	Gate            manifest.Gate   `json:"gate" rule:"enum=GATE_CONTRACT_ACCEPT|GATE_EXTERNAL_SIDE_EFFECT|GATE_BUDGET_OVERRUN|GATE_SUB_DELEGATION|GATE_DELIVERY_ACCEPT"`
	Side            manifest.Role   `json:"side" rule:"enum=requester|worker"`
	OwnerDid        signing.DID     `json:"ownerDid"` // who is asked
	TaskID          manifest.TaskID `json:"taskId"`
	ManifestDigest  signing.Digest  `json:"manifestDigest"`
	ContractDigest  signing.Digest  `json:"contractDigest"`
	Subject         jcs.Value       `json:"subject" rule:"object"` // in full
	SubjectDigest   signing.Digest  `json:"subjectDigest"`
	Delivery        jcs.Value       `json:"delivery,omitempty" rule:"object"` // of DELIVERY_ACCEPT: the delivery that the subject names
	From            Party           `json:"from"`                             // the other side, as we call it
	Question        string          `json:"question" rule:"len=1..200"`       // our words, first
	Effect          string          `json:"effect" rule:"len=1..500"`         // what a yes does
	Lines           []Line          `json:"lines" rule:"items=0..60"`         // what a yes newly permits (G14)
	Theirs          []Text          `json:"theirs" rule:"items=0..60"`        // where their words stand in subject or delivery
	Risk            []string        `json:"risk" rule:"items=0..8,unique,each.enum=external|external_communication|irreversible|destructive|financial|credential|privacy|legal"`
	Presence        []string        `json:"presence" rule:"items=1..20,each.len=1..64"` // kinds that count for a yes (G10)
	Approvers       []string        `json:"approvers" rule:"items=1..50,each.len=1..100"`
	// Keys of those approvers who are not the owner, by name; absent where only the owner is asked.
	ApproverKeys map[string]signing.DID `json:"approverKeys,omitempty" rule:"items=1..50"`
	Need         int64                  `json:"need" rule:"num=1..50"` // votes (G5)
	StepUp       bool                   `json:"stepUp"`
	Agent        string                 `json:"agent,omitempty" rule:"len=1..100"` // of ours that asks or works; absent for the owner's own command
	Box          *manifest.Isolation    `json:"box,omitempty"`                     // of our own acceptance: what the agent is held in
	Model        string                 `json:"model,omitempty" rule:"enum=door|own|none"`
	PolicyDigest signing.Digest         `json:"policyDigest"`
	Because      string                 `json:"because" rule:"len=1..300"` // the rule that asks
	Ends         signing.Time           `json:"ends"`                      // the deadline of the contract in force
	At           signing.Time           `json:"at"`
	Until        signing.Time           `json:"until"`                   // from this instant on the answer is no (G4)
	Nonce        string                 `json:"nonce" rule:"len=22..22"` // 128 bits, base64url
}

// Party is the other side as a card shows it: by the name that we gave (M8).
type Party struct {
	Name      string      `json:"name" rule:"len=1..100"`
	OwnerDid  signing.DID `json:"ownerDid"`
	Confirmed bool        `json:"confirmed"`
	Finished  int64       `json:"finished" rule:"num=0..1000000000"` // tasks finished with it
}

// Mark says what a line is to the person's authority.
type Mark string

const (
	Newly  Mark = "+" // newly permitted
	Wider  Mark = "~" // wider than at the last yes, or changed
	Cannot Mark = "=" // stays impossible
	Passed Mark = "✓" // a check that passed
	Yours  Mark = "–" // left to the person
)

// Line is one line of the authority difference, in our words. More and Was stand under it.
type Line struct {
	Mark Mark   `json:"mark" rule:"enum=+|~|=|✓|–"`
	Word string `json:"word" rule:"len=1..20"`
	Text string `json:"text" rule:"len=1..1000"`
	More string `json:"more,omitempty" rule:"len=1..1000"`
	Was  string `json:"was,omitempty" rule:"len=1..1000"` // at the last yes
}

// Text is a place where words of the other side stand: data, never ours.
type Text struct {
	Label string `json:"label" rule:"len=1..100"`
	In    string `json:"in" rule:"enum=subject|delivery"`
	Path  string `json:"path" rule:"len=1..500"` // JSON pointer to a text, or to an object that is shown as it is
}

// Digest names the ask for ever; a decision names it.
func (a Ask) Digest() signing.Digest {
	v, err := a.Value()
	if err != nil {
		return signing.Digest{}
	}
	return signing.DigestOf(v.Bytes())
}

// Value is the ask as a document: canonical, held against its own rules.
func (a Ask) Value() (jcs.Value, error) {
	v, err := jcs.Encode(a)
	if err != nil {
		return jcs.Value{}, err
	}
	if _, err := jcs.Parse(v.Bytes()); err != nil {
		return jcs.Value{}, err
	}
	return v, a.check()
}

// Open reads an ask and holds it against what it says of itself.
func Open(v jcs.Value) (a Ask, err error) {
	if err := jcs.Decode(v, &a); err != nil {
		return Ask{}, err
	}
	return a, a.check()
}

func (a Ask) check() error {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(a.Nonce)
	switch at, until := a.At.Time(), a.Until.Time(); {
	case signing.DigestOf(a.Subject.Bytes()) != a.SubjectDigest:
		return spec.Refuse(spec.BadDigest, "/subjectDigest", "G2")
	case !until.After(at) || until.Sub(at) > policy.MaxAskWait || a.Until.After(a.Ends):
		return spec.Refuse(spec.Malformed, "/until", "G4: at most 7 days, not after the deadline")
	case err != nil || len(raw) != 16:
		return spec.Refuse(spec.Malformed, "/nonce", "G2: 128 bits, base64url")
	}
	if a.Gate == manifest.DeliveryGate || !a.Delivery.IsZero() {
		named, _ := a.Subject.At("/delivery")
		if text, _ := named.Text(); a.Delivery.IsZero() || text != signing.DigestOf(a.Delivery.Bytes()).String() {
			return spec.Refuse(spec.BadDigest, "/delivery", "G2: the delivery that the subject names")
		}
	}
	for name := range a.ApproverKeys {
		if !slices.Contains(a.Approvers, name) {
			return spec.Refuse(spec.Malformed, "/approverKeys", "G5: of somebody who is asked")
		}
	}
	for _, t := range a.Theirs {
		if _, ok := a.text(t); !ok {
			return spec.Refuse(spec.Malformed, "/theirs", "a pointer to a text")
		}
	}
	return nil
}

// text follows a pointer into what the other side wrote.
func (a Ask) text(t Text) (string, bool) {
	in := a.Subject
	if t.In == "delivery" {
		in = a.Delivery
	}
	v, ok := in.At(t.Path)
	if !ok {
		return "", false
	}
	if v.Kind() == '{' { // arguments of a call: as they are canonical
		return v.String(), true
	}
	return v.Text()
}

// Short is the id as people type it: its last four characters.
func (a Ask) Short() string {
	id := a.AskID.String()
	return id[max(0, len(id)-4):]
}

// Title is what the work is called by whoever wrote the contract, on one line
// and escaped: data, to be shown behind a rule; "" where the ask has none.
func (a Ask) Title() string {
	for _, t := range a.Theirs {
		if t.Label == "title" {
			text, _ := a.text(t)
			return manifest.Display(text, 60)
		}
	}
	return ""
}

// Decide builds the decision that a person signs with the owner's key (G2).
// Presence is how the person was there (G10); at is when.
func Decide(a Ask, verdict, presence string, at time.Time) manifest.GateDecision {
	if asked := a.At.Time(); at.Before(asked) { // the clock jumped back: what was asked was asked (T4)
		at = asked
	}
	return manifest.GateDecision{
		Type: "sealbridge/gate-decision", ProtocolVersion: manifest.ProtocolVersion,
		AskDigest: a.Digest(), AskID: a.AskID, Gate: a.Gate, TaskID: a.TaskID,
		ContractDigest: a.ContractDigest, SubjectDigest: a.SubjectDigest, OwnerDid: a.OwnerDid,
		Verdict: verdict, Lasts: policy.LastsOnce, Presence: presence, DecidedAt: signing.TimeOf(at),
	}
}
