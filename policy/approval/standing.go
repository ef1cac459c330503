package approval

import (
	"fmt"
	"slices"
	"time"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// CanStand says why a yes to this ask cannot be a standing one; nil if it can
// (G6). Never for a delivery, an amendment or what is handed on; never for what
// a model provider reads, moves money, destroys, cannot be undone or hands out a credential; never where
// more than one person or a fresh presence is asked for each time.
func CanStand(a Ask) error {
	no := func(why string) error { return spec.Refuse(spec.NotPermitted, "", "G6: no standing yes "+why) }
	switch {
	case a.Gate != manifest.ContractGate || isAmendment(a):
		return no("to anything but a new contract")
	case a.StepUp || a.Need > 1:
		return no("where each one is to be decided again, or by several people")
	case !a.From.Confirmed:
		return no("to a contact that nobody confirmed")
	case a.Model == "door":
		return no("where a model provider reads the inputs: each yes says which")
	case a.Agent == "":
		return no("to yourself: it is for an agent of yours")
	}
	for _, r := range []string{"financial", "destructive", "irreversible", "credential"} {
		if slices.Contains(a.Risk, r) {
			return no("to what is " + r)
		}
	}
	return nil
}

// StandingFor is the grant that a standing yes to this ask means: contracts no
// wider than this one, so many of them, until an instant. It is a function of
// what was asked, so that nobody can sign a wider one.
func StandingFor(a Ask, uses int64, from, until time.Time) (manifest.Standing, error) {
	if err := CanStand(a); err != nil {
		return manifest.Standing{}, err
	}
	payload, _ := a.Subject.Member("manifest")
	var m manifest.TaskManifest
	if err := jcs.Decode(payload, &m); err != nil {
		return manifest.Standing{}, err
	}
	s := manifest.Standing{Gate: a.Gate, Side: a.Side, Contact: a.From.OwnerDid, Agent: a.Agent, TaskType: m.Task.TaskType,
		Each: m.Budget.Limits(), Total: times(m.Budget.Limits(), uses), Files: int64(len(m.IO.InputArtifacts)),
		Seconds: int64(m.Deadline.Time().Sub(m.CreatedAt.Time()) / time.Second), Retries: m.Verification.MaxRetries, Mode: m.Verification.Mode, Over: m.Budget.OnOverrun,
		Receipt: m.Verification.RequireUsageReceipt, Attest: m.Verification.RequireExecutionAttestation,
		Gates: m.HITLPolicy.RequiredGates, Level: m.SandboxPolicy.IsolationLevel, Scope: m.SandboxPolicy.FilesystemScope,
		Model: "any", Uses: uses, From: signing.TimeOf(from), Until: signing.TimeOf(until)}
	for _, f := range m.IO.InputArtifacts {
		s.Bytes += f.SizeBytes
	}
	if a.Side == manifest.Worker {
		s.Box, s.Model = a.Box, a.Model
	}
	if err := s.Covers(m, a.OwnerDid); err != nil {
		return s, err
	}
	v, err := jcs.Encode(s)
	if err == nil {
		err = jcs.Decode(v, &manifest.Standing{})
	}
	return s, err
}

// times is a total within what a meter can say.
func times(m manifest.Meters, n int64) manifest.Meters {
	return manifest.Meters{InputTokens: min(m.InputTokens*n, 100_000_000), OutputTokens: min(m.OutputTokens*n, 100_000_000),
		ToolInvocations: min(m.ToolInvocations*n, 100_000), WallClockSeconds: min(m.WallClockSeconds*n, 604_800)}
}

// DecideStanding builds the standing decision that a person signs over a grant.
func DecideStanding(a Ask, s manifest.Standing, presence string, at time.Time) manifest.GateDecision {
	d := Decide(a, Allow, presence, at)
	d.Lasts, d.SubjectDigest = manifest.LastsStanding, s.Subject()
	return d
}

// Stand says what a standing decision over a grant comes to: the consent for
// every contract within it, or the word why it is none. The grant must be the
// one that the ask means ([StandingFor]).
func Stand(a Ask, v manifest.Verified, s manifest.Standing, at time.Time) (policy.Consent, error) {
	if !at.Before(a.Until.Time()) {
		return policy.Consent{}, spec.Refuse(spec.GateExpired, "/decidedAt", "G4")
	}
	want, err := StandingFor(a, s.Uses, s.From.Time(), s.Until.Time())
	if err != nil {
		return policy.Consent{}, err
	}
	if want.Subject() != s.Subject() {
		return policy.Consent{}, spec.Refuse(spec.PolicyDenied, "/standing", "G6: wider than what was asked")
	}
	digest := a.Digest()
	d, err := countsAs(a, digest, v, at, s.Subject(), manifest.LastsStanding)
	switch {
	case err != nil:
		return policy.Consent{}, err
	case d.Verdict != Allow:
		return policy.Consent{}, spec.Refuse(spec.Malformed, "/verdict", "G6: a no stands for itself")
	case !s.At(at):
		return policy.Consent{}, spec.Refuse(spec.Malformed, "/standing/from", "G6: in force when it is said")
	}
	return policy.Consent{Gate: a.Gate, AskDigest: digest, Contract: a.ContractDigest, Subject: s.Subject(), Owner: a.OwnerDid,
		Decision: v.Digest(), Lasts: manifest.LastsStanding, Grant: &s, Presence: d.Presence}, nil
}

// AnswersStanding is Answers for a standing decision: about this ask and the grant.
func AnswersStanding(a Ask, digest signing.Digest, d manifest.GateDecision, s manifest.Standing) error {
	return answersAs(a, digest, d, s.Subject())
}

// Sentence says what a standing yes will mean, in our words, before it is signed
// (G6). who is the other side by our name, times in loc.
func Sentence(s manifest.Standing, who string, loc *time.Location) []string {
	who = manifest.Display(who, 64)
	agent := quoted(manifest.Display(s.Agent, 60))
	first := fmt.Sprintf("Until %s, and at most %s, %s works for %s without asking you again.", when(s.Until.Time(), loc), often(s.Uses), agent, who)
	if s.Side == manifest.Requester {
		first = fmt.Sprintf("Until %s, and at most %s, %s sends tasks to %s without asking you again.", when(s.Until.Time(), loc), often(s.Uses), agent, who)
	}
	out := []string{first + " The first is this one.",
		"Each: at most " + meters(s.Each) + "; " + fmt.Sprintf("at most %s, %s; done within %s; %s at most.", plural(s.Files, "file"), size(s.Bytes), span(time.Duration(s.Seconds)*time.Second), plural(s.Retries, "retry")),
		"All together: at most " + meters(s.Total) + ", as agreed."}
	if s.Box != nil {
		held := "boxed by this gateway (" + box(s.Box.Level) + ")"
		if s.Box.Enforced != "gateway" {
			held = "NOT boxed by this gateway"
		}
		out = append(out, "It runs "+held+", model: "+s.Model+".")
	}
	kind := "Only tasks that state no type."
	if s.TaskType != "" {
		kind = "Only tasks of the type " + quoted(manifest.Display(s.TaskType, 60)) + "."
	}
	return append(out, kind+" Title, goal and files can be others each time; you do not see them before.",
		"It pays nobody, grants no tool, reaches no host, hands nothing on, and is no yes to a delivery or a change. Your policy narrows it as always. Take it back: gate revoke.")
}

func often(n int64) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return count(n) + " times"
}

func plural(n int64, one string) string {
	switch {
	case n == 1:
		return "1 " + one
	case one == "retry":
		return count(n) + " retries"
	}
	return count(n) + " " + one + "s"
}
