package gateway

import (
	"context"
	"time"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// CounterView is what the other side would accept instead (G7).
type CounterView struct {
	Terms    []manifest.Difference `json:"terms"`              // what it changes, computed here
	Answered string                `json:"answered,omitempty"` // the task in which it was taken up
}

// counterTo is the contract of an ask with other terms.
func counterTo(a approval.Ask, set []manifest.Setting, at time.Time) (*jcs.Value, error) {
	m, _, err := approval.Counter(a, set, at)
	if err != nil {
		return nil, err
	}
	v, err := jcs.Encode(m)
	return &v, err
}

// countered keeps the counter-proposal of a worker that declined, and tells a person. One that changes more than terms was a breach already and is not kept.
func (t *turn) countered(row *taskRow, v manifest.Verified) error {
	e, ok := v.Document().(*manifest.Event)
	if !ok || row.Role != manifest.Requester {
		return nil
	}
	f, ok := e.Body.Fact.(manifest.Declined)
	if !ok || f.Counter == nil {
		return nil
	}
	if _, err := manifest.CounterOf(row.Task.Manifest(), *f.Counter); err != nil {
		return nil
	}
	row.Counter = f.Counter
	if err := counters.Put(t.Tx, row.Key.String(), "", row.Key.ID.String()); err != nil {
		return err
	}
	return t.tell()
}

func counterView(row taskRow) (*CounterView, error) {
	if row.Counter == nil {
		return nil, nil
	}
	c, err := manifest.CounterOf(row.Task.Manifest(), *row.Counter)
	if err != nil {
		return nil, err
	}
	return &CounterView{Terms: manifest.Differences(row.Task.Manifest(), c), Answered: row.Answered}, nil
}

// Counters lists tasks whose counter-proposal waits for the caller.
func (g *Gateway) Counters(ctx context.Context, by Caller, _ None) (out []TaskView, err error) {
	out = []TaskView{}
	err = g.view(ctx, func(t *turn) error {
		rows, err := counters.All(t.Tx)
		for _, r := range rows {
			row, err := t.row(r.Key)
			if err != nil {
				return err
			}
			if !by.sees(row) {
				continue
			}
			v, err := t.taskView(row, false)
			if err != nil {
				return err
			}
			out = append(out, v)
		}
		return err
	})
	return out, err
}

// TakeUp answers a counter-proposal with a new task under its terms.
type TakeUp struct {
	Task   string `json:"task"` // that was declined
	DryRun bool   `json:"dryRun"`
}

// TakeUpCounter makes a new contract with the terms that the worker would
// accept: our next signed document is the answer (G7). It is a proposal like any
// other: decided by the policy, asked about, and once.
func (g *Gateway) TakeUpCounter(ctx context.Context, by Caller, in TakeUp) (out Proposed, err error) {
	id, err := g.newTaskID(g.Now())
	if err != nil {
		return out, err
	}
	err = g.turn(ctx, func(t *turn) error {
		old, err := t.find(by, in.Task)
		if err != nil {
			return err
		}
		row, err := t.counterRow(by, old, id)
		if err != nil {
			return err
		}
		out = Proposed{Task: id.String(), Digest: signing.DigestOf(row.Proposal.Bytes()).String(), Manifest: row.Proposal}
		if in.DryRun {
			return t.dry(row)
		}
		fact, err := t.proposal(row)
		if err != nil {
			return err
		}
		said, err := t.say(&row, fact)
		if err != nil {
			return err
		}
		out.Sent = said.Outcome == policy.Allow
		if said.Ask != nil {
			out.Ask, out.Until = said.Ask.Ask.AskID.String(), said.Ask.Ask.Until.Time()
		}
		old.Answered = id.String()
		if err := counters.Delete(t.Tx, old.Key.String()); err != nil {
			return err
		}
		return t.putRow(old)
	})
	return out, err
}

// counterRow is the new task: the counter's terms, the files of the old one, and today's certificates.
func (t *turn) counterRow(by Caller, old taskRow, id manifest.TaskID) (row taskRow, err error) {
	switch {
	case old.Counter == nil:
		return row, spec.Refuse(spec.NotFound, "", "this task was declined without a counter-proposal, or not at all")
	case old.Parent != "":
		return row, spec.Refuse(spec.NotPermitted, "", "G11: another part is another question; hand it on anew with these terms")
	case old.Answered != "":
		return row, spec.Refuse(spec.Conflict, "", "the counter-proposal was taken up in "+old.Answered)
	}
	m, err := manifest.CounterOf(old.Task.Manifest(), *old.Counter)
	if err != nil {
		return row, err
	}
	payload, err := t.between(&m, old.Peer, id)
	if err != nil {
		return row, err
	}
	row = taskRow{Key: manifest.TaskKey{Owner: t.g.Owner, ID: id}, Role: manifest.Requester, Peer: old.Peer, Title: m.Task.Title, Agent: by.Agent,
		Proposal: payload, Files: old.Files, Named: old.Named || by == Owner, Claimed: old.Claimed, At: t.now, Here: map[string]bool{}}
	return row, t.pass(&row, nil)
}

// between makes a contract of these terms, as a new task of ours for a contact's
// agent under today's certificates.
func (t *turn) between(m *manifest.TaskManifest, peer signing.DID, id manifest.TaskID) (payload jcs.Value, err error) {
	agent, err := t.trust.AgentFor(peer, t.now)
	if err != nil {
		return payload, err
	}
	own, err := t.g.certificateTerms()
	if err != nil {
		return payload, err
	}
	worker := party(agent.Certificate)
	m.TaskID, m.CreatedAt, m.Requester, m.Worker = id, signing.TimeOf(t.now), party(own), &worker
	if payload, err = jcs.Encode(*m); err != nil {
		return payload, err
	}
	_, err = manifest.ReadManifest(payload)
	return payload, err
}
