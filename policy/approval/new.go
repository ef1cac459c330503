package approval

import (
	"encoding/base64"
	"time"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Terms are what an ask needs beside the case: names that we gave, and what the
// gateway looked up. Only ID, Nonce, Policy and Contact are required.
type Terms struct {
	ID        manifest.AskID
	Nonce     [16]byte       // of chance; others see only its digest
	Policy    signing.Digest // in force (G12)
	Contact   string         // our name for the other side; the same as policy.Case.Contact.Name
	Confirmed bool           // a person compared the six words
	Finished  int64          // tasks finished with the contact
	Agent     string         // our agent that works, or that asked
	Because   string         // the rule's place, "policy.yaml:14"; "" for the contract alone

	Left     Left                   // what is left today for the contact
	Last     *manifest.TaskManifest // the last contract with this contact that got a yes on this side
	Delivery *manifest.Delivery     // DELIVERY_ACCEPT: the delivery itself
	Usage    *manifest.Usage        // DELIVERY_ACCEPT: as it was delivered
	Chosen   []string               // what another system left open and this gateway chose (J6)
	Third    string                 // SUB_DELEGATION: our name for the owner who would do the part; "" where we have none
	Above    int                    // passes above this task: owners of whom nobody tells us
	Reach    policy.Reach           // EXTERNAL_SIDE_EFFECT: what the owner's rules say of the host
	Offered  []string               // files that leave, as the person named them; the proposal's own names if nil
	Open     []string               // whom an open proposal goes to (M10); nil for a contract
	Together *Together              // others are asked for the same (P4); nil for a task that stands alone
}

// Left is what a rule's day still holds for a contact after this contract, of
// what the rule bounds.
type Left []LeftOf

// LeftOf is one figure of a day.
type LeftOf struct {
	Of           string // tasks, input tokens, …
	After, Limit int64
}

// LeftToday reads from a held decision what its rule's day holds after a yes.
func LeftToday(d policy.Decision, l policy.Ledger) Left {
	var out Left
	limit := map[policy.Account]int64{}
	for _, m := range d.Day {
		word := dayWords[m.Account.Kind]
		switch {
		case m.Op == policy.SetLimit:
			limit[m.Account] = m.Amount
		case m.Op == policy.Reserve && word != "":
			b := l.Of(m.Account)
			out = append(out, LeftOf{word, limit[m.Account] - b.Committed - b.Reserved() - m.Amount, limit[m.Account]})
		}
	}
	return out
}

var dayWords = map[policy.AccountKind]string{policy.DayTasks: "tasks", policy.DayInput: "input tokens", policy.DayOutput: "output tokens", policy.DayCalls: "tool calls"}

// New makes the ask for a held case: d is what [policy.Policy.Decide] said of
// c. An error is a fault of ours; nothing may be asked then.
func New(c policy.Case, d policy.Decision, x Terms) (Ask, error) {
	g := d.Gate
	if d.Outcome != policy.Hold || g == nil || c.Event.Body.Fact == nil {
		return Ask{}, spec.Refuse(spec.Internal, "", "G2: nothing is held")
	}
	subject := policy.Subject(c)
	if subject.IsZero() || signing.DigestOf(subject.Bytes()) != g.Subject {
		return Ask{}, spec.Refuse(spec.Internal, "/subjectDigest", "G2: the subject in full")
	}
	m, err := contractOf(c)
	if err != nil {
		return Ask{}, err
	}
	at := signing.TimeOf(c.At)
	a := Ask{
		Type: TypeAsk, ProtocolVersion: manifest.ProtocolVersion,
		AskID: x.ID, Gate: g.Gate, Side: g.Side, OwnerDid: g.Owner,
		TaskID: m.TaskID, ManifestDigest: c.Event.ManifestDigest, ContractDigest: g.Contract,
		Subject: subject, SubjectDigest: g.Subject,
		From:     Party{Name: orText(x.Contact, c.Contact.Name, "a contact"), OwnerDid: otherOwner(m, g.Side), Confirmed: x.Confirmed, Finished: x.Finished},
		Presence: g.Presence, Approvers: g.Who, ApproverKeys: g.Keys, Need: int64(g.Need), StepUp: g.StepUp,
		PolicyDigest: x.Policy, Because: because(d, x.Because),
		Ends: m.Deadline, At: at, Until: until(at, g.Until, m.Deadline),
		Nonce: base64.RawURLEncoding.EncodeToString(x.Nonce[:]),
	}
	a.Agent = cut(c.Caller, 100)
	if f, ok := c.Event.Body.Fact.(manifest.Accepted); ok {
		a.Box, a.Model = &f.Isolation, f.Model
	}
	w := words{a: &a, m: m, x: x, who: manifest.Display(a.From.Name, 64)}
	if err := w.say(c); err != nil {
		return Ask{}, err
	}
	a.Question, a.Effect = cut(a.Question, 200), cut(a.Effect, 500)
	_, err = a.Value()
	return a, err
}

// contractOf is the manifest in force, or the one proposed.
func contractOf(c policy.Case) (m manifest.TaskManifest, err error) {
	if p, ok := c.Event.Body.Fact.(manifest.Proposed); ok {
		err = jcs.Decode(p.Manifest, &m)
		return m, err
	}
	m, _ = c.Task.Contract()
	return m, nil
}

func otherOwner(m manifest.TaskManifest, side manifest.Role) signing.DID {
	if side == manifest.Requester && m.Worker != nil {
		return m.Worker.OwnerDid
	}
	return m.Requester.OwnerDid
}

// until is never later than a week, nor than the deadline (G4), in whole seconds.
func until(at signing.Time, want time.Time, deadline signing.Time) signing.Time {
	end := want
	if week := at.Time().Add(policy.MaxAskWait); end.After(week) {
		end = week
	}
	if end.After(deadline.Time()) {
		end = deadline.Time()
	}
	return signing.TimeOf(end)
}

func because(d policy.Decision, place string) string {
	by := "the contract names this gate"
	if d.Gate.Added {
		by = "your rule " + quoted(d.Rule)
	}
	if d.Gate.Added && place != "" {
		return by + ", " + place
	}
	if place != "" {
		return by + ", and " + place
	}
	return by
}

func orText(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// cut keeps a text within n characters; escapes make a short title long.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// Bounds of a card: what a person can read in a sitting. The whole can be opened under its digest.
const (
	maxLines  = 60
	maxTheirs = 60
	maxLine   = 1000 // characters of a line
	maxNames  = 900  // characters of file names in one line
)
