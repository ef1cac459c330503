package gateway

import (
	"context"
	"maps"
	"slices"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/gateway/runner"
)

// Status is this gateway in figures.
type Status struct {
	Owner       string           `json:"owner"`
	Agent       string           `json:"agent"`
	Name        string           `json:"name"`
	Started     time.Time        `json:"started"`
	Head        journal.Seq      `json:"records"`
	Waiting     int              `json:"waiting"`
	Tasks       int              `json:"openTasks"`
	Contacts    int              `json:"contacts"`
	Outgoing    int              `json:"unacknowledged"`
	Certificate time.Time        `json:"certificateUntil"`
	Agents      []string         `json:"agents"`   // that work for others, by the rules in force
	Isolated    bool             `json:"isolated"` // subprocesses are
	Levels      []string         `json:"levels"`   // that are enforced here (X6)
	Enforces    []string         `json:"enforces"`
	Counts      map[string]int64 `json:"counts"`
	Policy      string           `json:"policyDigest"`          // in force (G12)
	PolicyWaits string           `json:"policyWaits,omitempty"` // digest of one that permits more and waits for the owner's yes
}

// Status says what is going on.
func (g *Gateway) Status(ctx context.Context, _ Caller, _ None) (out Status, err error) {
	out = Status{Owner: g.Owner.String(), Agent: g.Agent.DID().String(), Started: g.started, Head: g.Journal.Head(), Counts: map[string]int64{}, Enforces: []string{}, Levels: []string{}}
	if c, err := g.certificateTerms(); err == nil {
		out.Name, out.Certificate = c.DisplayName, c.ExpiresAt.Time()
	}
	if g.Runner != nil {
		out.Levels = g.Runner.Levels()
		out.Isolated, out.Enforces = slices.Contains(out.Levels, runner.Subprocess), g.Runner.Enforces(runner.Subprocess)
	}
	g.mu.Lock()
	for k, n := range g.counts {
		out.Counts[k] = n
	}
	out.Agents = slices.Sorted(maps.Keys(g.rules.Agents))
	g.mu.Unlock()
	err = g.view(ctx, func(t *turn) error {
		out.Contacts = len(t.trust.Contacts) - 1
		out.Policy = t.law.Digest.String()
		if w := t.law.Waiting; w != nil {
			out.PolicyWaits = w.Digest.String()
		}
		if out.Waiting, err = waiting.Count(t.Tx, ""); err != nil {
			return err
		}
		if out.Tasks, err = tasks.Count(t.Tx, groupOpen); err != nil {
			return err
		}
		sent, err := t.Jobs(jobSend)
		out.Outgoing = len(sent)
		return err
	})
	return out, err
}
