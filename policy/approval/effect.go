package approval

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/spec"
)

// EffectCase is one act outside that waits for a person: a call of a tool of
// ours, or a host (G2). It is no event: what it lets happen happens here.
type EffectCase struct {
	Task    task.Task
	Held    policy.Decision // a Hold, with its gate
	Effect  policy.Effect
	Effects []string // what the owner said that it does; empty: nobody said
	Any     bool     // no template says what it reaches (C1a)
	Left    int64    // uses that are left after this one
	At      time.Time
}

// NewEffect makes the ask for an act outside.
func NewEffect(c EffectCase, x Terms) (Ask, error) {
	g := c.Held.Gate
	if c.Held.Outcome != policy.Hold || g == nil || g.Gate != manifest.EffectGate {
		return Ask{}, spec.Refuse(spec.Internal, "", "G2: nothing is held")
	}
	subject := policy.EffectInFull(c.Effect)
	if subject.IsZero() || signing.DigestOf(subject.Bytes()) != g.Subject {
		return Ask{}, spec.Refuse(spec.Internal, "/subjectDigest", "G2: the subject in full")
	}
	m, _ := c.Task.Contract()
	at := signing.TimeOf(c.At)
	a := Ask{
		Type: TypeAsk, ProtocolVersion: manifest.ProtocolVersion,
		AskID: x.ID, Gate: g.Gate, Side: g.Side, OwnerDid: g.Owner,
		TaskID: m.TaskID, ManifestDigest: c.Task.ManifestDigest(), ContractDigest: g.Contract,
		Subject: subject, SubjectDigest: g.Subject,
		From:     Party{Name: orText(x.Contact, "a contact"), OwnerDid: otherOwner(m, g.Side), Confirmed: x.Confirmed, Finished: x.Finished},
		Presence: g.Presence, Approvers: g.Who, ApproverKeys: g.Keys, Need: int64(g.Need), StepUp: g.StepUp,
		PolicyDigest: x.Policy, Because: because(c.Held, x.Because),
		Ends: m.Deadline, At: at, Until: until(at, g.Until, m.Deadline),
		Nonce: base64.RawURLEncoding.EncodeToString(x.Nonce[:]),
	}
	w := words{a: &a, m: m, x: x, who: manifest.Display(a.From.Name, 64)}
	w.a.Risk, w.a.Lines, w.a.Theirs = []string{}, []Line{}, []Text{}
	w.effect(c)
	a.Question, a.Effect = cut(a.Question, 200), cut(a.Effect, 500)
	_, err := a.Value()
	return a, err
}

// effect asks our owner whether one call of the other side's agent may reach a tool of hers.
func (w *words) effect(c EffectCase) {
	tool := manifest.Display(c.Effect.Tool, 120)
	w.a.Question = fmt.Sprintf("Let %s's agent use your %s once?", w.who, tool)
	w.a.Effect = "Your gateway hands exactly the arguments below to your tool, once, and sends its answer to " + w.who + "."
	on := manifest.Display(strings.Join(c.Effect.Resources, ", "), 800)
	if c.Any {
		on = "whatever the arguments below say"
	}
	w.line(Newly, "call", tool+" on "+on)
	does := "nobody said what it does outside"
	if len(c.Effects) > 0 {
		does = manifest.Display(strings.Join(c.Effects, ", "), 200)
	}
	w.line(Newly, "does", does)
	w.line(Yours, "left", count(c.Left)+" uses of this grant after this one")
	w.line(Cannot, "cannot", "call it a second time with this yes, or with other arguments")
	w.risk("external")
	for _, word := range c.Effects {
		if slices.Contains(risks, word) && !slices.Contains(w.a.Risk, word) {
			w.risk(word)
		}
	}
	w.a.Theirs = append(w.a.Theirs, Text{"arguments", "subject", "/effect/arguments"})
}

// risks are the words that a card knows.
var risks = strings.Fields("external external_communication irreversible destructive financial credential privacy legal")
