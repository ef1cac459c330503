package task

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// A duo is one contract and the two agents that speak under it.
type duo struct {
	owner, agent [2]signing.Signer
	payload      jcs.Value
	block        [2]signing.Block
	digest       signing.Digest
	child        manifest.Child
}

var (
	t0       = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	deadline = t0.Add(24 * time.Hour)
	later    = t0.Add(48 * time.Hour) // the amended deadline
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func keyOf(n byte) signing.Signer { return signing.NewKey([32]byte{n}) }

var duos = map[int64]duo{}

// newDuo makes the contract with so many retries and these grants, once.
func newDuo(retries int64, grants ...string) duo {
	if d, ok := duos[retries]; ok && len(grants) == 0 {
		return d
	}
	d := duo{owner: [2]signing.Signer{keyOf(1), keyOf(2)}, agent: [2]signing.Signer{keyOf(3), keyOf(4)}}
	empty := must(jcs.Parse([]byte("{}")))
	m := manifest.TaskManifest{
		ProtocolVersion: manifest.ProtocolVersion,
		TaskID:          must(manifest.ParseTaskID("task_01KBQ4T9YJ6W2M8Z3R5X7C1D0E")),
		CreatedAt:       signing.TimeOf(t0.Add(-time.Minute)), Deadline: signing.TimeOf(deadline),
		Requester: manifest.Party{OwnerDid: d.owner[0].DID(), AgentDid: d.agent[0].DID()},
		Worker:    &manifest.Party{OwnerDid: d.owner[1].DID(), AgentDid: d.agent[1].DID()},
		Task: manifest.Work{Title: "Total", Description: "Total sales per region", AcceptanceCriteria: []manifest.Criterion{
			{ID: must(manifest.ParseCriterionID("ac_1")), Description: "a total", Required: true}}},
		IO:            manifest.IO{InputSchema: empty, OutputSchema: empty},
		Verification:  manifest.Verification{Mode: "schema_only", MaxRetries: retries},
		Budget:        manifest.Budget{CostBearer: "worker_byok", MaxInputTokens: 1000, MaxOutputTokens: 1000, MaxToolInvocations: 10, MaxWallClockSeconds: 600, OnOverrun: "hard_stop"},
		Permissions:   manifest.Permissions{GrantedCapabilities: []manifest.Grant{}},
		SandboxPolicy: manifest.SandboxPolicy{IsolationLevel: "subprocess_restricted", NetworkAccess: "none", FilesystemScope: "ephemeral_workspace_only"},
		HITLPolicy:    manifest.HITLPolicy{RequiredGates: []manifest.Gate{}},
	}
	for _, id := range grants {
		var c manifest.CapabilityID
		if err := c.UnmarshalText([]byte(id)); err != nil {
			panic(err)
		}
		m.Permissions.GrantedCapabilities = append(m.Permissions.GrantedCapabilities, manifest.Grant{CapabilityID: c,
			Resource: "mcp://docs/*", AllowedTools: []string{"read"}, MaxInvocations: 5, ExpiresAt: signing.TimeOf(deadline)})
	}
	var err error
	for s, r := range roles {
		if d.block[s], d.payload, err = manifest.SignManifest(m, r, d.agent[s], t0); err != nil {
			panic(err)
		}
	}
	d.digest = signing.DigestOf(d.payload.Bytes())
	d.child = manifest.Child{Manifest: must(jcs.Parse([]byte(`{"child":1}`)))}
	if len(grants) == 0 {
		duos[retries] = d
	}
	return d
}

// said is an event with the digest that its signature would give it.
type said struct {
	e manifest.Event
	d signing.Digest
}

func fake(e manifest.Event) said { return said{e, signing.DigestOf(must(json.Marshal(e)))} }

// say folds an event of the author's own, as Next makes it.
func (d duo) say(t Task, r manifest.Role, f manifest.Fact, at time.Time) (Task, said, error) {
	s := fake(t.Next(d.agent[side(r)].DID(), manifest.Body{Fact: f}, at))
	u, err := take(t, s)
	return u, s, err
}

// take is Apply of an event whose signature nobody doubts.
func take(t Task, s said) (Task, error) {
	n := entryOf(s.e, s.d)
	if _, ok := s.e.Body.Fact.(manifest.Disputed); ok {
		n.Enclosed = enclosedIn[s.d]
	}
	return t.take(s.e, n)
}

// enclosedIn stands for the documents inside a disputed event: Apply opens
// them, which needs signatures.
var enclosedIn = map[signing.Digest][]signing.Digest{}

func usage(n int64) manifest.Usage {
	return manifest.Usage{Meters: manifest.Meters{InputTokens: n}, Source: manifest.Sources{
		InputTokens: "metered", OutputTokens: "metered", ToolInvocations: "metered", WallClockSeconds: "metered"}}
}

func (d duo) proposed() manifest.Proposed {
	return manifest.Proposed{Manifest: d.payload, Signature: d.block[0]}
}

func (d duo) accepted() manifest.Accepted {
	return manifest.Accepted{Signature: d.block[1], Isolation: manifest.Isolation{Level: "subprocess_restricted", Enforced: "gateway"},
		Model: "none", Providers: []string{}}
}

func (d duo) delivery(t Task) manifest.Delivery {
	rev := int64(1)
	if last := t.Delivery(); last != nil {
		rev = last.Revision + 1
	}
	return manifest.Delivery{Contract: t.InForce().Digest, Revision: rev, Output: must(jcs.Parse([]byte("{}"))),
		Artifacts: []manifest.ArtifactRef{}, Evidence: []manifest.Evidence{}}
}

func report(t Task, verdict string) manifest.Report {
	r := manifest.Report{Contract: t.InForce().Digest, Mode: "schema_only", Checks: []manifest.CheckResult{}, Verdict: verdict, At: signing.TimeOf(t0)}
	if d := t.Delivery(); d != nil {
		r.Delivery = d.Digest
	} else {
		r.Delivery = signing.DigestOf(nil)
	}
	return r
}

func budgetAmendment(n int64) *manifest.Amendment {
	return &manifest.Amendment{Budget: &manifest.Meters{InputTokens: n, OutputTokens: 1000, ToolInvocations: 10, WallClockSeconds: 600}}
}

// facts are the bodies that side r could well say of t now, one of each shape.
func (d duo) facts(t Task, r manifest.Role, amend *manifest.Amendment) map[string]manifest.Fact {
	rep := report(t, "pass")
	out := map[string]manifest.Fact{
		"proposed": d.proposed(), "accepted": d.accepted(), "declined": manifest.Declined{Reason: "policy-denied"},
		"granted": manifest.Granted{Tokens: []jcs.Value{must(jcs.Parse([]byte("{}")))}}, "started": manifest.Started{},
		"progressed": manifest.Progressed{Usage: usage(5), Waiting: "nobody"},
		"asked":      manifest.Asked{Contract: t.InForce().Digest, Amendment: amend},
		"delivered":  manifest.Delivered{Delivery: d.delivery(t), Usage: usage(7)},
		"again":      manifest.Rejected{Delivery: rep.Delivery, Report: rep, Again: true},
		"final":      manifest.Rejected{Delivery: rep.Delivery, Report: rep},
		"completed":  manifest.Completed{Delivery: rep.Delivery, Report: rep},
		"failed":     manifest.Failed{Reason: "internal", Usage: usage(8)},
		"cancelled":  manifest.Cancelled{Reason: "no longer needed"}, "timed_out": manifest.TimedOut{},
		"stopped":  manifest.Stopped{Usage: usage(9)},
		"disputed": manifest.Disputed{Claim: "no", Evidence: []signing.Digest{}, Enclosed: []jcs.Value{}},
		"child":    manifest.Asked{Contract: t.InForce().Digest, Child: &d.child},
	}
	for _, a := range t.Asks() {
		if a.By == r {
			if a.By == manifest.Worker && !a.Child.IsZero() && !a.Answer.IsZero() {
				out["delegated"] = manifest.Delegated{Child: d.child.Digest(), Reserved: manifest.Meters{}, Answer: a.Answer}
			}
			continue
		}
		out["yes"] = manifest.Answered{Ask: a.Event, Yes: true}
		out["no"] = manifest.Answered{Ask: a.Event, Reason: "policy-denied"}
	}
	return out
}

// walkTo folds a list of words, "R:proposed", each said by a side that knows all that was said before.
func (d duo) walkTo(t *testing.T, words ...string) Task {
	t.Helper()
	var now Task
	for _, w := range words {
		r, at := manifest.Requester, t0
		if w[0] == 'W' {
			r = manifest.Worker
		}
		word := w[2:]
		if w[1] == '+' {
			at = deadline
		}
		f, ok := d.facts(now, r, budgetAmendment(2000))[word]
		if !ok {
			t.Fatalf("no body for %s", w)
		}
		next, _, err := d.say(now, r, f, at)
		if err != nil {
			t.Fatalf("%s: %v", w, err)
		}
		now = next
	}
	return now
}

func isGap(err error) bool {
	var g *GapError
	return errors.As(err, &g)
}

func isBreak(err error) bool {
	var b *TransitionError
	return errors.As(err, &b)
}
