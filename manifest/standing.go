package manifest

import (
	"slices"
	"strconv"
	"time"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Standing is the bounded grant of a standing yes (G6): the contracts that its
// owner has said yes to beforehand. Every bound is closed: what it does not
// name is not covered. A contract under it moves no money, grants no tool,
// reaches no host and is handed on to nobody.
type Standing struct {
	Gate     Gate         `json:"gate" rule:"const=GATE_CONTRACT_ACCEPT"`
	Side     Role         `json:"side" rule:"enum=requester|worker"` // of the owner who says yes
	Contact  signing.DID  `json:"contact"`                           // owner of the other side
	Agent    string       `json:"agent" rule:"len=1..100"`           // of the owner's: who asks, or who works
	TaskType string       `json:"taskType" rule:"len=0..200"`        // exactly this; "" is a task that states none
	Each     Meters       `json:"each"`                              // at most, for one contract
	Total    Meters       `json:"total"`                             // at most, for all of them together, as agreed and not as spent
	Files    int64        `json:"files" rule:"num=0..100"`           // that the requester sends with one contract
	Bytes    int64        `json:"bytes" rule:"num=0..107374182400"`
	Seconds  int64        `json:"seconds" rule:"num=1..7776000"` // from a contract's making to its deadline
	Retries  int64        `json:"retries" rule:"num=0..10"`
	Receipt  bool         `json:"receipt"` // whether a contract requires the usage receipt: as here
	Attest   bool         `json:"attestation"`
	Over     string       `json:"onOverrun" rule:"enum=hard_stop|request_hitl_amendment"`
	Mode     string       `json:"mode" rule:"enum=schema_only|automated_checks|human_in_the_loop|hybrid"`
	Gates    []Gate       `json:"gates" rule:"items=0..5,unique,each.enum=GATE_CONTRACT_ACCEPT|GATE_EXTERNAL_SIDE_EFFECT|GATE_BUDGET_OVERRUN|GATE_SUB_DELEGATION|GATE_DELIVERY_ACCEPT"` // that a contract names at least
	Level    string       `json:"isolationLevel" rule:"enum=subprocess_restricted|oci_container|wasm"`
	Scope    string       `json:"filesystemScope" rule:"enum=ephemeral_workspace_only|read_only_inputs"`
	Box      *Isolation   `json:"box"`                                 // of the worker's own yes: what it holds its agent in; null for a requester's
	Model    string       `json:"model" rule:"enum=none|own|door|any"` // of the worker's own yes; any for a requester's
	Uses     int64        `json:"uses" rule:"num=1..100"`
	From     signing.Time `json:"from"`
	Until    signing.Time `json:"until"` // at most 30 days after from
}

// StandingUse is how an event names the standing yes behind it: the grant in
// full, so that the other side and an auditor can hold the contract against it.
type StandingUse struct {
	Grant Standing `json:"grant"`
	Use   int64    `json:"use" rule:"num=1..100"` // which use this is, as its owner's gateway counts
}

// Bounds of G6: what was said a month ago was said about another month.
const (
	MaxStandingUses = 100
	MaxStandingTerm = 30 * 24 * time.Hour
)

// LastsStanding is a decision that holds until it is used up, ends or is taken back.
const LastsStanding = "standing"

// Subject is what a standing decision names as its subject digest (G2).
func (s Standing) Subject() signing.Digest {
	v, err := jcs.Encode(struct {
		Gate     Gate     `json:"gate"`
		Standing Standing `json:"standing"`
	}{s.Gate, s})
	if err != nil {
		return signing.Digest{}
	}
	return signing.DigestOf(v.Bytes())
}

// Check holds the bounds against each other.
func (s Standing) Check() error {
	switch {
	case s.Uses < 1 || s.Uses > MaxStandingUses:
		return refuse("/uses", "G6: 1 to 100")
	case !s.From.Before(s.Until) || s.Until.Time().Sub(s.From.Time()) > MaxStandingTerm:
		return refuse("/until", "G6: at most 30 days")
	case (s.Box != nil) != (s.Side == Worker) || (s.Model == "any") != (s.Side == Requester):
		return refuse("/box", "G6: of the worker's own yes, and of no other")
	}
	return nil
}

// At says whether the grant holds at an instant.
func (s Standing) At(at time.Time) bool {
	return !at.Before(s.From.Time()) && at.Before(s.Until.Time())
}

// Covers says why a contract is not within the grant; nil if it is. owner is
// whose yes it is.
func (s Standing) Covers(m TaskManifest, owner signing.DID) error {
	if err := s.Check(); err != nil {
		return err
	}
	mine, other := m.Requester, m.Worker
	if s.Side == Worker && m.Worker != nil {
		mine, other = *m.Worker, &m.Requester
	}
	var bytes int64
	for _, f := range m.IO.InputArtifacts {
		bytes += f.SizeBytes
	}
	b, p, x := m.Budget, m.Permissions, m.SandboxPolicy
	for _, bound := range []struct {
		held bool
		path string
	}{
		{m.Worker != nil && mine.OwnerDid == owner && !owner.IsZero(), "/owner"},
		{other != nil && other.OwnerDid == s.Contact, "/contact"},
		{m.Task.TaskType == s.TaskType, "/task/taskType"},
		{m.ParentTaskID == nil && p.MaxDelegationDepth == 0 && len(p.GrantedCapabilities) == 0, "/permissions"},
		{b.CostBearer == "worker_byok" && b.SettlementExtension.IsZero(), "/budget/costBearer"},
		{within4(b.Limits(), s.Each) && b.OnOverrun == s.Over, "/budget"},
		{int64(len(m.IO.InputArtifacts)) <= s.Files && bytes <= s.Bytes, "/io/inputArtifacts"},
		{m.Deadline.Time().Sub(m.CreatedAt.Time()) <= time.Duration(s.Seconds)*time.Second, "/deadline"},
		{m.Verification.MaxRetries <= s.Retries, "/verification/maxRetries"},
		{m.Verification.RequireUsageReceipt == s.Receipt && m.Verification.RequireExecutionAttestation == s.Attest, "/verification"},
		{m.Verification.Mode == s.Mode && !hasCommand(m.Verification.Checks), "/verification"},
		{x.NetworkAccess == "none" && len(x.AllowedHosts) == 0, "/sandboxPolicy/networkAccess"},
		{x.IsolationLevel == s.Level && (x.AllowSubprocessFallback == nil || !*x.AllowSubprocessFallback), "/sandboxPolicy/isolationLevel"},
		{x.FilesystemScope == s.Scope, "/sandboxPolicy/filesystemScope"},
		{!slices.ContainsFunc(s.Gates, func(g Gate) bool { return !m.HITLPolicy.Names(g) }), "/hitlPolicy/requiredGates"},
	} {
		if !bound.held {
			return spec.Refuse(spec.PolicyDenied, bound.path, "G6: not within the standing yes")
		}
	}
	return nil
}

// CoversBox says whether the worker's own yes covers what it accepts with.
func (s Standing) CoversBox(a Accepted) bool {
	return s.Side != Worker || s.Box != nil && a.Isolation == *s.Box && a.Model == s.Model && len(a.Providers) == 0
}

func within4(a, b Meters) bool {
	return a.InputTokens <= b.InputTokens && a.OutputTokens <= b.OutputTokens && a.ToolInvocations <= b.ToolInvocations && a.WallClockSeconds <= b.WallClockSeconds
}

func hasCommand(checks []Check) bool {
	return slices.ContainsFunc(checks, func(c Check) bool { return c.Kind == CommandCheck })
}

// StandingIn is the standing yes that an event names, or nil.
func StandingIn(f Fact) *StandingUse {
	switch f := f.(type) {
	case Proposed:
		return f.Standing
	case Accepted:
		return f.Standing
	}
	return nil
}

// checkStanding: a standing decision comes with its grant, and no other does (G6).
func checkStanding(decision *jcs.Value, use *StandingUse) error {
	lasts := ""
	if decision != nil {
		v, _ := decision.Member("lasts")
		lasts, _ = v.Text()
	}
	switch {
	case (use != nil) != (lasts == LastsStanding):
		return refuse("/body/standing", "G6: the grant of a standing decision, and of no other")
	case use == nil:
		return nil
	case use.Use > use.Grant.Uses:
		return refuse("/body/standing/use", "G6: of "+strconv.FormatInt(use.Grant.Uses, 10))
	}
	if err := use.Grant.Check(); err != nil {
		return spec.At("/body/standing/grant", err)
	}
	subject, _ := decision.Member("subjectDigest")
	if text, _ := subject.Text(); text != use.Grant.Subject().String() {
		return spec.Refuse(spec.BadDigest, "/body/standing/grant", "G6: the grant that was decided")
	}
	return nil
}
