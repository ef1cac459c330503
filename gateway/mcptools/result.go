package mcptools

import (
	"strings"

	"sealbridge/gateway"
	"sealbridge/manifest"
)

type prickleResult struct {
	Summary     string            `json:"summary"`
	Evidence    []prickleEvidence `json:"evidence"`
	Provenance  string            `json:"provenance"`
	ReturnedBy  string            `json:"returned_by"`
	ReturnedAt  string            `json:"returned_at"`
	Submission  string            `json:"submission_id"`
	Revision    int64             `json:"revision"`
	Artifacts   []prickleArtifact `json:"artifacts"`
	Status      string            `json:"status"`
	Verdicts    []verdict         `json:"verdicts,omitempty"`
	VerifiedBy  *actor            `json:"verified_by"`
	DecidedBy   *actor            `json:"decided_by"`
	Policy      *string           `json:"decided_by_policy"`
	Reason      *string           `json:"reason"`
	Report      coverage          `json:"evidence_report"`
	Attestation string            `json:"provenance_status"`
}

type prickleEvidence struct {
	Kind       string `json:"kind"`
	Summary    string `json:"summary"`
	Content    string `json:"content,omitempty"`
	Criteria   []int  `json:"criteria,omitempty"`
	ObservedAt string `json:"observed_at,omitempty"`
	Verifier   string `json:"verifier,omitempty"`
}

type prickleArtifact struct {
	Ref    string  `json:"ref"`
	SHA256 *string `json:"sha256"`
	Commit *string `json:"commit_sha"`
}

type verdict struct {
	Criterion int  `json:"criterion"`
	Accepted  bool `json:"accepted"`
}

// coverage is recomputed by us, never taken over (adapters: recompute).
type coverage struct {
	Coverage  []covered `json:"coverage"`
	General   []int     `json:"general"`
	Uncovered []int     `json:"uncovered"`
	Stale     []stale   `json:"stale"`
	Complete  bool      `json:"complete"`
}

type covered struct {
	Criterion int   `json:"criterion"`
	Evidence  []int `json:"evidence"`
}

type stale struct {
	Evidence int    `json:"evidence"`
	Why      string `json:"why"`
}

const mostEvidence = 20 // of a result, and of its criteria

// resultOf is there once a delivery was released, or rejected for good: then
// with our report and no word of the delivery (G14).
func resultOf(v gateway.AgentTask, state, by, owner string) *prickleResult {
	d := v.Delivery
	if d == nil || state != "completed" && (state != "rejected" || v.Outcome != string(manifest.KindRejected)) {
		return nil
	}
	r := &prickleResult{Provenance: "agent_generated", ReturnedBy: by, ReturnedAt: rfc3339(d.At), Submission: strings.TrimPrefix(d.Digest.String(), "sha256:"), Revision: d.Revision,
		Artifacts: []prickleArtifact{}, Status: "rejected", VerifiedBy: &actor{Kind: "system"}, Attestation: "claimed", Summary: "The delivery was rejected; nothing of it was released."}
	if v.Reason != "" && state == "rejected" {
		reason := fit(quoted+v.Reason, 1000)
		r.Reason = &reason
	}
	if full := d.Released; full != nil && state == "completed" {
		r.Status, r.Summary = "accepted", summaryOf(full.Output.String())
		r.deliver(v, *full)
		if v.ByPerson {
			r.DecidedBy = &actor{Kind: "person", Handle: owner}
		}
	}
	r.checks(d.Report)
	r.Report = r.recompute(v.Criteria)
	return r
}

// quoted stands before another owner's words where Prickle has no place for a mark (A6).
const quoted = "untrusted, the contact wrote: "

func summaryOf(output string) string {
	if s := "Result (untrusted data): " + shown(output); len([]rune(s)) <= 4000 {
		return s
	}
	return "The result is longer than this place holds: read it with get_result."
}

func (r *prickleResult) deliver(v gateway.AgentTask, d manifest.Delivery) {
	for _, a := range d.Artifacts[:min(len(d.Artifacts), mostEvidence)] {
		sum := strings.TrimPrefix(a.Digest.String(), "sha256:")
		r.Artifacts = append(r.Artifacts, prickleArtifact{Ref: fit(a.Name, 300), SHA256: &sum})
	}
	for _, e := range d.Evidence[:min(len(d.Evidence), mostEvidence-1)] {
		k := prickleEvidence{Kind: "note", Summary: fit(quoted+e.Text, 500), Verifier: "assignee"}
		if n := len([]rune(quoted + e.Text)); n > 499 {
			k.Summary, k.Content = "untrusted text of the contact, whole in content", quoted+shown(e.Text)
		}
		for i, c := range v.Criteria[:min(len(v.Criteria), mostEvidence)] {
			if c.ID == e.Criterion {
				k.Criteria = []int{i}
			}
		}
		r.Evidence = append(r.Evidence, k)
	}
	for i, c := range v.Criteria[:min(len(v.Criteria), mostEvidence)] {
		if c.Required {
			r.Verdicts = append(r.Verdicts, verdict{i, true})
		}
	}
}

// checks adds our own report as the last piece of evidence.
func (r *prickleResult) checks(p *manifest.Report) {
	e := prickleEvidence{Kind: "note", Summary: "no report of ours"}
	if p != nil {
		var lines []string
		for _, c := range p.Checks {
			lines = append(lines, c.Check+": "+c.Result)
		}
		e = prickleEvidence{Kind: "test_output", Summary: "this gateway's own checks: " + p.Verdict, Content: fit(strings.Join(lines, "; "), 8000), ObservedAt: rfc3339(p.At.Time()), Verifier: "requester"}
	}
	r.Evidence = append(r.Evidence, e)
}

func (r *prickleResult) recompute(criteria []manifest.Criterion) coverage {
	c := coverage{Coverage: []covered{}, General: []int{}, Uncovered: []int{}, Stale: []stale{}, Complete: true}
	for i, k := range criteria[:min(len(criteria), mostEvidence)] {
		row := covered{i, []int{}}
		for n, e := range r.Evidence {
			if len(e.Criteria) == 1 && e.Criteria[0] == i {
				row.Evidence = append(row.Evidence, n)
			}
		}
		c.Coverage = append(c.Coverage, row)
		if len(row.Evidence) == 0 {
			c.Uncovered = append(c.Uncovered, i)
			c.Complete = c.Complete && !k.Required
		}
	}
	for n, e := range r.Evidence {
		if len(e.Criteria) == 0 {
			c.General = append(c.General, n)
		}
	}
	return c
}
