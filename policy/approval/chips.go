package approval

import (
	"fmt"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// chips is the Chips approval.request and four members of ours. Chips' objects
// are open, so its readers pass over what they do not know.
type chips struct {
	V              int           `json:"v"`
	Type           string        `json:"type"`
	ID             string        `json:"id"`
	Ts             signing.Time  `json:"ts"`
	WorkspaceID    string        `json:"workspace_id"`
	RunID          string        `json:"run_id"`
	IdempotencyKey string        `json:"idempotency_key"`
	Actor          chipsActor    `json:"actor"`
	ApprovalID     string        `json:"approval_id"`
	Action         chipsAction   `json:"action"`
	Question       string        `json:"question"`
	Effect         string        `json:"effect"`
	Lasts          string        `json:"lasts"`
	Preview        chipsPreview  `json:"preview"`
	Risk           []string      `json:"risk"`
	Sources        []chipsSource `json:"sources"`
	ExpiresIn      int64         `json:"expires_in"`
	Fallback       string        `json:"fallback"`
	Approvers      []string      `json:"approvers"`
	Editable       bool          `json:"editable"`

	AskID         manifest.AskID  `json:"askId"`
	TaskID        manifest.TaskID `json:"taskId"`
	Gate          manifest.Gate   `json:"gate"`
	SubjectDigest signing.Digest  `json:"subjectDigest"`
	State         Outcome         `json:"state"`
}

type chipsActor struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
}

type chipsAction struct {
	Kind         string     `json:"kind"`
	Input        chipsInput `json:"input"`
	External     bool       `json:"external"`
	Irreversible bool       `json:"irreversible"`
}

type chipsInput struct {
	TaskID         manifest.TaskID `json:"taskId"`
	ManifestDigest signing.Digest  `json:"manifestDigest"`
	Gate           manifest.Gate   `json:"gate"`
	Subject        signing.Digest  `json:"subject"`
}

type chipsPreview struct {
	Format string `json:"format"`
	Body   string `json:"body"`
	Title  string `json:"title"`
}

type chipsSource struct {
	Kind  string `json:"kind"`
	Label string `json:"label"`
}

// Chips is the ask in the Chips approval.request shape (G14), with taskId,
// gate, subjectDigest and state. It shows; it decides nothing. What Chips would
// leave open is said: once, deny, the owner, not editable.
func Chips(a Ask, state Outcome) jcs.Value {
	c := chips{
		V: 1, Type: "approval.request", Ts: a.At, Lasts: "once", Fallback: "deny", Approvers: []string{"owner"},
		ID: ulid("evt_", "event", a.Digest().String()), WorkspaceID: ulid("ws_", "workspace", a.OwnerDid.String()),
		RunID: ulid("run_", "run", a.TaskID.String()), ApprovalID: approvalID(a.AskID),
		// with the ask's own id: what is asked a second time is another question, and
		// a key that Chips has seen is lost without a word
		IdempotencyKey: fmt.Sprintf("sb:%s:%s:%s:%s", a.TaskID, a.Gate, a.AskID, a.SubjectDigest.String()[7:23]),
		Actor:          chipsActor{"system", "system"},
		Action: chipsAction{Kind: kind(a), Input: chipsInput{a.TaskID, a.ManifestDigest, a.Gate, a.SubjectDigest},
			External: has(a.Risk, "external"), Irreversible: has(a.Risk, "irreversible")},
		Question: a.Question, Effect: a.Effect,
		Preview: chipsPreview{"plain", View(a, 0), manifest.Display(a.Question, 190)},
		Risk:    a.Risk,
		Sources: []chipsSource{{"external", manifest.Display(a.From.Name, 100)}, {"internal", manifest.Display(a.Because, 190)}},
		// of the ask, not of the moment: the same ask is the same text
		ExpiresIn: max(1, int64(a.Until.Time().Sub(a.At.Time())/time.Second)),
		AskID:     a.AskID, TaskID: a.TaskID, Gate: a.Gate, SubjectDigest: a.SubjectDigest, State: state,
	}
	if r := []rune(c.Preview.Body); len(r) > 150_000 {
		c.Preview.Body = string(r[:150_000]) + "…"
	}
	v, err := jcs.Encode(c)
	if err != nil {
		return jcs.EmptyObject
	}
	return v
}

func has(list []string, x string) bool {
	for _, y := range list {
		if x == y {
			return true
		}
	}
	return false
}

// kind is the dotted verb that an owner's rules may name. It is never renamed
// and never a stranger's to choose.
func kind(a Ask) string {
	switch {
	case a.Gate == manifest.DeliveryGate:
		return "sealbridge.delivery.accept"
	case a.Gate == manifest.BudgetGate:
		return "sealbridge.budget.amend"
	case a.Gate == manifest.EffectGate:
		return "sealbridge.effect.call"
	case a.Gate == manifest.SubGate:
		return "sealbridge.task.subdelegate"
	case isAmendment(a):
		return "sealbridge.contract.amend"
	case a.Side == manifest.Requester:
		return "sealbridge.contract.propose"
	}
	return "sealbridge.contract.accept"
}

func isAmendment(a Ask) bool {
	_, ok := a.Subject.Member("amendment")
	return ok
}

// approvalID is the ask's own id where it has the shape of a ULID.
func approvalID(id manifest.AskID) string {
	tail := strings.TrimPrefix(id.String(), "apr_")
	if manifest.IsULID(tail) {
		return id.String()
	}
	return ulid("apr_", "ask", id.String())
}

func ulid(prefix, what, of string) string { return manifest.DerivedID(prefix, "chips/"+what, of) }
