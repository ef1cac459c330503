package policy

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Contract is the law alone: may the author say this, in its own view, under
// the contract in force there? It is the same at both owners and at an auditor,
// but for what each holds: the ledger that it moves, and whether a missing yes
// can still be asked for (Hold, to the author's own gateway) or not (Deny).
func Contract(c Case) Decision {
	l, d := read(c)
	if d != nil {
		return *d
	}
	return l.decide()
}

func (l *law) decide() Decision {
	if d := l.judge(); d != nil {
		return *d
	}
	return l.gates(l.required())
}

// law is one case, read: the author's view and the contract in force there.
type law struct {
	Case
	fact     manifest.Fact
	view     task.View
	author   manifest.Role
	own      bool // our own side says it
	contract task.Contract
	m        manifest.TaskManifest // with the amendments in force
	payload  jcs.Value             // of the original
	passes   []jcs.Value           // that came with it
}

// read opens the case; a Decision only where that fails.
func read(c Case) (*law, *Decision) {
	l := &law{Case: c, fact: c.Event.Body.Fact}
	if l.fact == nil || c.By != c.Event.Author || c.By.IsZero() || c.At.IsZero() {
		return nil, denied("S6", spec.WrongSigner, "/author", "")
	}
	if c.Event.At.Time().After(c.At.Add(MaxAhead)) {
		return nil, denied("H8", spec.Unavailable, "/at", "60 s ahead of this clock")
	}
	var err error
	if l.view, err = c.Task.View(c.Event); err == nil {
		err = l.view.Legal()
	}
	var gap *task.GapError
	switch {
	case errors.As(err, &gap):
		return nil, denied("H1", spec.Unavailable, "", "an event before it")
	case err != nil:
		return nil, denied("H6", spec.ReasonOf(err), pathOf(err), limitOf(err))
	}
	l.author, l.contract = l.view.Role(), l.view.InForce()
	l.own = c.Role == l.author
	if p, ok := l.fact.(manifest.Proposed); ok {
		l.payload, l.passes = p.Manifest, p.Passes
		if err := jcs.Decode(p.Manifest, &l.m); err != nil {
			return nil, denied("M1", spec.Malformed, "/body/manifest", "")
		}
		return l, nil
	}
	l.payload, l.passes = c.Task.Payload(), c.Task.Passes()
	l.m, _ = c.Task.ContractAs(l.contract)
	return l, nil
}

func denied(rule string, r spec.Reason, path, limit string) *Decision {
	d := deny(rule, r, path, limit)
	return &d
}

// values names what a denial compared.
func (d *Decision) values(have, most string) *Decision {
	d.Have, d.Most = have, most
	return d
}

// figures are the four meters on one line.
func figures(m manifest.Meters) string {
	out := make([]string, 0, 4)
	for _, x := range Meters() {
		out = append(out, string(x)+" "+count(x.Of(m)))
	}
	return strings.Join(out, ", ")
}

func specError(err error) (e *spec.Error) {
	if !errors.As(err, &e) {
		return &spec.Error{Reason: spec.Internal}
	}
	return e
}

func pathOf(err error) string  { return specError(err).Path }
func limitOf(err error) string { return specError(err).Limit }

// judge holds what the event says against the contract; nil where nothing is wrong.
func (l *law) judge() *Decision {
	switch f := l.fact.(type) {
	case manifest.Proposed:
		if err := l.m.ValidAt(l.At); err != nil {
			return denied("M1", spec.ReasonOf(err), "/body/manifest"+pathOf(err), limitOf(err))
		}
		if d := unsupported(l.m); d != nil {
			return d
		}
		return l.judgePasses(f.Passes)
	case manifest.Accepted:
		return l.judgeAccepted(f)
	case manifest.Declined:
		if f.Counter != nil {
			if _, err := manifest.CounterOf(l.m, *f.Counter); err != nil {
				return denied("G7", spec.ReasonOf(err), "/body/counter"+pathOf(err), limitOf(err))
			}
		}
	case manifest.Granted:
		return l.judgeGranted(f)
	case manifest.Delegated:
		return l.judgeDelegated(f)
	case manifest.Asked:
		return l.judgeAsked(f)
	case manifest.Answered:
		return l.judgeAnswered(f)
	case manifest.Progressed:
		return l.judgeOpens(f)
	case manifest.Delivered:
		return l.judgeDelivered(f)
	case manifest.Rejected:
		return l.judgeReport(f.Report, f.Delivery)
	case manifest.Completed:
		return l.judgeCompleted(f)
	}
	return nil
}

// judgeAccepted: the box is at least what the contract asks for, and a claimed
// one is enough only where the requester said so (X6).
func (l *law) judgeAccepted(f manifest.Accepted) *Decision {
	if !l.At.Before(l.contract.Deadline.Time()) && l.own {
		return denied("M1", spec.Expired, "/deadline", "")
	}
	if d := unsupported(l.m); d != nil {
		return d
	}
	if d := l.judgePasses(l.Task.Passes()); d != nil {
		return d
	}
	if !l.isolates(f.Isolation.Level) {
		return denied("P1", spec.UnsupportedIsolation, "/body/isolation/level", "at least "+l.m.SandboxPolicy.IsolationLevel).values(f.Isolation.Level, l.m.SandboxPolicy.IsolationLevel)
	}
	if l.Role == manifest.Requester && f.Isolation.Enforced != enforcedByGateway && !l.ClaimedIsEnough {
		return denied("X6", spec.UnsupportedIsolation, "/body/isolation/enforced", "gateway").values(f.Isolation.Enforced, enforcedByGateway)
	}
	return nil
}

const enforcedByGateway = "gateway"

func (l *law) isolates(level string) bool { return Suffices(level, l.m.SandboxPolicy) != TooLittle }

// Fit is how a level compares to the one that a contract asks for.
type Fit int

const (
	TooLittle Fit = iota
	InStead       // the subprocess that the contract lets stand in for what it asks for (X10)
	Enough        // at least the level itself
)

// Suffices compares a level to the one that a contract asks for.
func Suffices(level string, s manifest.SandboxPolicy) Fit {
	switch {
	case isolates(level, s.IsolationLevel):
		return Enough
	case s.AllowSubprocessFallback != nil && *s.AllowSubprocessFallback && level == "subprocess_restricted":
		return InStead
	}
	return TooLittle
}

// Holds says that work held as have is held at least as it was said: at the
// level, and enforced if that was said.
func Holds(have, said manifest.Isolation) bool {
	return isolates(have.Level, said.Level) && (have.Enforced == enforcedByGateway || have.Enforced == said.Enforced)
}

// isolates is the order of P1; levels that do not compare do not hold for each other.
func isolates(have, want string) bool {
	over := map[string][]string{
		"subprocess_restricted": {"subprocess_restricted"},
		"oci_container":         {"subprocess_restricted", "oci_container"},
		"microvm":               {"subprocess_restricted", "oci_container", "microvm"},
		"wasm":                  {"subprocess_restricted", "wasm"},
	}
	for _, w := range over[have] {
		if w == want {
			return true
		}
	}
	return false
}

// unsupported refuses what this version cannot hold the other side to: it fails closed.
func unsupported(m manifest.TaskManifest) *Decision {
	if d := grantable(m); d != nil {
		return d
	}
	s := m.SandboxPolicy
	switch {
	case s.IsolationLevel == "microvm":
		return denied("X6", spec.UnsupportedIsolation, "/sandboxPolicy/isolationLevel", "wasm or below")
	}
	return hosts(s)
}

// judgeAsked holds what our own side would ask for; what the other side asks
// for is held where it gets its yes, and an ask that cannot be gets a no. An
// amendment must fit what was spent already (H10).
func (l *law) judgeAsked(f manifest.Asked) *Decision {
	switch {
	case !l.own:
		return nil
	case f.Child != nil:
		return l.judgeChild(*f.Child, "/body/child")
	case f.Amendment.Deadline != nil && !f.Amendment.Deadline.Time().After(l.At):
		return denied("H10", spec.Expired, "/body/amendment/deadline", "in the future")
	}
	return l.judgeShare(*f.Amendment, "/body/amendment")
}

// judgeAnswered holds what a yes puts in force, or lets be handed on.
func (l *law) judgeAnswered(f manifest.Answered) *Decision {
	a, ok := l.view.Ask(f.Ask)
	switch {
	case !f.Yes || !ok:
		return nil
	case a.Part != nil:
		return l.judgeChild(*a.Part, "/body/ask")
	}
	return l.judgeShare(*a.Amendment, "/body/ask")
}

// judgeDelivered: receipt and attestation where the contract requires them, and
// no more used than it allows.
func (l *law) judgeDelivered(f manifest.Delivered) *Decision {
	v, d := l.m.Verification, f.Delivery
	if !fits(f.Usage.Meters, l.contract.Limits) {
		return denied("B2", spec.BudgetExhausted, "/body/usage", "").values(figures(f.Usage.Meters), figures(l.contract.Limits))
	}
	for i, e := range d.Evidence {
		if !slices.ContainsFunc(l.m.Task.AcceptanceCriteria, func(c manifest.Criterion) bool { return c.ID == e.Criterion }) {
			return denied("V1", spec.VerificationFailed, "/body/delivery/evidence/"+strconv.Itoa(i)+"/criterion", "a criterion of the contract")
		}
	}
	if d.Receipt == nil && v.RequireUsageReceipt {
		return denied("B7", spec.VerificationFailed, "/body/delivery/receipt", "required")
	}
	if d.Receipt != nil && !l.receipt(*d.Receipt, f) {
		return denied("B7", spec.VerificationFailed, "/body/delivery/receipt", "signed by the worker over this task, contract and usage")
	}
	if d.Attestation == nil && v.RequireExecutionAttestation {
		return denied("X6", spec.VerificationFailed, "/body/delivery/attestation", "required")
	}
	if a := d.Attestation; a != nil && !l.attests(*a) {
		return denied("X6", spec.VerificationFailed, "/body/delivery/attestation/isolation", "as accepted")
	}
	if a := d.Attestation; a != nil {
		return l.judgeReached(a.Reached)
	}
	return nil
}

func fits(used, limit manifest.Meters) bool {
	for _, m := range Meters() {
		if m.Of(used) > m.Of(limit) || m.Of(used) < 0 {
			return false
		}
	}
	return true
}

// receipt holds a usage receipt against the delivery that it came with.
func (l *law) receipt(doc jcs.Value, f manifest.Delivered) bool {
	s, err := manifest.OpenValue(doc, nil)
	if err != nil {
		return false
	}
	r, ok := s.Document().(*manifest.UsageReceipt)
	return ok && s.By() == l.Task.Agent(manifest.Worker) && r.AgentDid == s.By() &&
		r.TaskID == l.Event.TaskID && r.ManifestDigest == l.Event.ManifestDigest && r.Contract == l.contract.Digest &&
		r.Revision == f.Delivery.Revision && r.Limits == l.contract.Limits && r.Usage == f.Usage &&
		len(r.Children)+len(r.Missing) >= len(l.Task.Children()) && len(r.Children) <= len(l.Task.Children())
}

// attests: what ran was boxed at least as it was accepted, and enforced as said.
func (l *law) attests(a manifest.Attestation) bool {
	said := l.view.Accepted()
	return said != nil && Holds(a.Isolation, said.Isolation)
}

// judgeReport: a report is about this delivery under this contract.
func (l *law) judgeReport(r manifest.Report, delivery signing.Digest) *Decision {
	switch {
	case r.Delivery != delivery:
		return denied("V2", spec.VerificationFailed, "/body/report/delivery", "")
	case r.Mode != l.m.Verification.Mode:
		return denied("V3", spec.VerificationFailed, "/body/report/mode", l.m.Verification.Mode)
	}
	if d := l.view.Delivery(); d == nil || r.Contract != d.Contract {
		return denied("V2", spec.VerificationFailed, "/body/report/contract", "")
	}
	return nil
}

// judgeCompleted: nothing is accepted that was not verified (V2).
func (l *law) judgeCompleted(f manifest.Completed) *Decision {
	if d := l.judgeReport(f.Report, f.Delivery); d != nil {
		return d
	}
	if f.Report.Verdict != "pass" {
		return denied("V2", spec.VerificationFailed, "/body/report/verdict", "pass")
	}
	if len(f.Report.Checks) == 0 {
		return denied("V2", spec.VerificationFailed, "/body/report/checks", "something that was evaluated")
	}
	passed := map[string]manifest.CheckResult{}
	for _, r := range f.Report.Checks {
		if r.Result != "pass" {
			return denied("V2", spec.VerificationFailed, "/body/report/checks", r.Check)
		}
		passed[r.Check] = r
	}
	for _, want := range l.m.Verification.Checks {
		got, ok := passed[want.CheckID.String()]
		switch {
		case want.Kind == humanReview:
		case !ok || got.Kind != want.Kind:
			return denied("V2", spec.VerificationFailed, "/body/report/checks", want.CheckID.String())
		case want.Kind == manifest.CommandCheck && (got.Run == nil || !got.Run.Passes(want)):
			return denied("M6", spec.VerificationFailed, "/body/report/checks", want.CheckID.String())
		}
	}
	return nil
}

// humanReview is the check whose result is the decision of DELIVERY_ACCEPT itself.
const humanReview = "human_review"

// MaxAhead is how far an event may be ahead of the reader's clock (H8, T1): clocks drift by seconds.
const MaxAhead = 60 * time.Second
