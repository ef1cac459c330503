package bridge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Result is what came back for a Prickle task, as its server shows it.
type Result struct {
	Summary    string
	By         string // owner/agent
	At         time.Time
	Revision   int64
	Status     string
	Evidence   []Evidence
	Artifacts  []string // SHA-256 in hex of each, "" where there is none: a commit is no digest
	Verdicts   []Verdict
	VerifiedBy author
	DecidedBy  author
	ByPolicy   bool // a policy decided: nobody did
	complete   bool // as the server says; a hint
	value      jcs.Value
}

// Evidence is one item. Its kind, and who is said to have verified it, are the assignee's word.
type Evidence struct {
	Kind     string
	Criteria []int64
	Artifact *int64
	At       time.Time // zero: undated
}

// Verdict is one word about one criterion.
type Verdict struct {
	Criterion int64 `json:"criterion" rule:"num=0..9007199254740991"`
	Accepted  bool  `json:"accepted"`
}

type resultBody struct {
	Summary    string      `json:"summary" rule:"len=1..4000"`
	Evidence   []jcs.Value `json:"evidence" rule:"items=1..20"`
	ReturnedBy string      `json:"returned_by" rule:"len=3..79"`
	ReturnedAt string      `json:"returned_at" rule:"len=20..60"`
	Revision   int64       `json:"revision,omitempty" rule:"num=0..9007199254740991"`
	Artifacts  []jcs.Value `json:"artifacts,omitempty" rule:"items=0..20"`
	Status     string      `json:"status,omitempty" rule:"enum=submitted|accepted|rejected|superseded|cancelled"`
	Verdicts   []jcs.Value `json:"verdicts,omitempty" rule:"items=0..20"`
	VerifiedBy jcs.Value   `json:"verified_by,omitempty"`
	DecidedBy  jcs.Value   `json:"decided_by,omitempty"`
	Policy     jcs.Value   `json:"decided_by_policy,omitempty"`
	Report     jcs.Value   `json:"evidence_report,omitempty"`
}

type evidenceBody struct {
	Kind       string  `json:"kind" rule:"enum=test_output|screenshot|link|pull_request|commit|note"`
	Criteria   []int64 `json:"criteria,omitempty" rule:"items=1..20"`
	Artifact   *int64  `json:"artifact,omitempty" rule:"num=0..19"`
	ObservedAt string  `json:"observed_at,omitempty" rule:"len=20..60"`
}

func readResult(v jcs.Value) (r Result, err error) {
	b, err := known[resultBody](v)
	if err != nil {
		return r, err
	}
	r = Result{Summary: b.Summary, By: b.ReturnedBy, Revision: max(1, b.Revision), Status: b.Status, value: v, ByPolicy: !b.Policy.IsZero() && b.Policy.Kind() != 'n'}
	if r.Status == "" {
		r.Status = "submitted"
	}
	if r.At, err = instant(b.ReturnedAt); err != nil {
		return r, spec.At("/returned_at", err)
	}
	for i, e := range b.Evidence {
		item, err := readEvidence(e)
		if err != nil {
			return r, spec.At(fmt.Sprintf("/evidence/%d", i), err)
		}
		r.Evidence = append(r.Evidence, item)
	}
	for _, a := range b.Artifacts {
		sum, _ := a.Member("sha256") // a commit_sha is a git object's name, also when it has 64 digits
		text, _ := sum.Text()
		r.Artifacts = append(r.Artifacts, text)
	}
	for i, w := range b.Verdicts {
		word, err := known[Verdict](w)
		if err != nil {
			return r, spec.At(fmt.Sprintf("/verdicts/%d", i), err)
		}
		r.Verdicts = append(r.Verdicts, word)
	}
	for _, who := range []struct {
		v  jcs.Value
		to *author
	}{{b.VerifiedBy, &r.VerifiedBy}, {b.DecidedBy, &r.DecidedBy}} {
		if who.v.Kind() == '{' {
			if *who.to, err = known[author](who.v); err != nil {
				return r, err
			}
		}
	}
	said, _ := b.Report.Member("complete")
	r.complete = said.String() == "true"
	return r, nil
}

func readEvidence(v jcs.Value) (e Evidence, err error) {
	b, err := known[evidenceBody](v)
	if err != nil {
		return e, err
	}
	e = Evidence{Kind: b.Kind, Criteria: b.Criteria, Artifact: b.Artifact}
	if b.ObservedAt != "" {
		e.At, err = instant(b.ObservedAt)
	}
	return e, spec.At("/observed_at", err)
}

// Finding is one reason for which a result does not pass by itself. A person may
// still decide; nothing here does (G1).
type Finding struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

const fresh = 7 * 24 * time.Hour // evidence older than this says nothing of today

// Judge looks at a result as it stands at an instant. before is when the
// revision before this one came back, zero for the first. No finding means that
// it may be shown as complete; DELIVERY_ACCEPT asks a person all the same.
func (w Work) Judge(at, before time.Time) (out []Finding, err error) {
	r := w.Result
	if r == nil {
		return nil, spec.Refuse(spec.VerificationFailed, "/result", "V2: nothing came back")
	}
	add := func(path, why string) { out = append(out, Finding{path, why}) }
	covered := make([]bool, len(w.Criteria))
	for i, e := range r.Evidence {
		place := fmt.Sprintf("/result/evidence/%d", i)
		for _, c := range e.Criteria {
			if c < 0 || c >= int64(len(w.Criteria)) {
				return nil, spec.Refuse(spec.VerificationFailed, place+"/criteria", "V1: a criterion that the packet has")
			}
		}
		if e.Artifact != nil && *e.Artifact >= int64(len(r.Artifacts)) {
			return nil, spec.Refuse(spec.VerificationFailed, place+"/artifact", "V1: an artifact that the result has")
		}
		if why := e.stale(r.At, at, before); why != "" {
			add(place, why)
			continue
		}
		for _, c := range e.Criteria { // an item that names none covers nothing
			covered[c] = true
		}
	}
	for i, ok := range covered {
		if !ok {
			add(fmt.Sprintf("/packet/acceptance_criteria/%d", i), "no fresh evidence")
		}
	}
	for i, sum := range r.Artifacts {
		if sum == "" {
			add(fmt.Sprintf("/result/artifacts/%d", i), "no SHA-256: not pinned")
		}
	}
	if r.complete && len(out) > 0 {
		add("/result/evidence_report/complete", "the server calls it complete")
	}
	w.judgeWords(add)
	return out, nil
}

// stale says why an item does not count: it is from before the last revision, a
// week old when it came or now, or it has no date.
func (e Evidence) stale(returned, at, before time.Time) string {
	switch {
	case e.At.IsZero():
		return "undated"
	case e.At.Before(before):
		return "from before the last revision"
	case returned.Sub(e.At) > fresh, at.Sub(e.At) > fresh:
		return "older than 7 days"
	}
	return ""
}

// judgeWords looks at who said what about it.
func (w Work) judgeWords(add func(path, why string)) {
	r, said := w.Result, map[int64]bool{}
	for i, v := range r.Verdicts {
		if first, twice := said[v.Criterion]; twice && first != v.Accepted {
			add(fmt.Sprintf("/result/verdicts/%d", i), "two verdicts that contradict each other")
		}
		said[v.Criterion] = v.Accepted
	}
	if r.By != w.Assignee {
		add("/result/returned_by", "by another than the assignee")
	}
	worker := ownerOf(w.Assignee)
	if who := r.VerifiedBy; who.Kind != "" && (who.Handle == worker || ownerOf(who.AgentID) == worker) {
		add("/result/verified_by", "by the assignee's own owner")
	}
	if w.State == "completed" && !w.decided() {
		add("/result/decided_by", "accepted, and no person of the requester's decided")
	}
}

// decided says whether a person of the requester's side is named as who decided.
// It is a claim of the server and no gate-decision (G1).
func (w Work) decided() bool {
	r := w.Result
	return !r.ByPolicy && r.Status == "accepted" && r.DecidedBy.Kind == "person" && r.DecidedBy.Handle == ownerOf(w.Requester)
}

// Subject is what an answer is about: another revision is another subject, so a
// yes to the one before serves nothing (G2).
func (w Work) Subject() string {
	if w.Result == nil {
		return ""
	}
	return w.Project + "/" + w.ID + "#" + fmt.Sprint(w.Result.Revision) + " " + digestOf(w.Result.value)
}

var provenances = []string{"owner_message", "task", "owner_schedule", "none"}

// CheckCause holds the cause of a message against itself: a label that says more
// than it shows is refused. A cause approves nothing here, whatever it says.
func CheckCause(cause jcs.Value, from, to string) error {
	get := func(name string) (string, bool) {
		m, _ := cause.Member(name)
		text, ok := m.Text()
		return text, ok && text != ""
	}
	kind, _ := get("kind")
	if !slices.Contains(provenances, kind) {
		return spec.Refuse(spec.UnknownType, "/kind", strings.Join(provenances, ", "))
	}
	if kind != "task" {
		return nil
	}
	basis, _ := get("basis")
	_, rule := get("rule_id")
	_, approval := get("approval_id")
	switch {
	case basis == "approval" && !approval:
		return spec.Refuse(spec.Malformed, "/approval_id", "with basis approval")
	case basis == "rule" && !rule:
		return spec.Refuse(spec.Malformed, "/rule_id", "with basis rule")
	case basis == "same_owner" && (rule || approval):
		return spec.Refuse(spec.Malformed, "/basis", "same_owner needs neither rule nor approval")
	case basis == "same_owner" && ownerOf(from) != ownerOf(to):
		return spec.Refuse(spec.NotPermitted, "/basis", "two owners")
	case basis != "approval" && basis != "rule" && basis != "same_owner":
		return spec.Refuse(spec.Malformed, "/basis", "same_owner, rule or approval")
	}
	return nil
}
