package gateway

import (
	"context"

	"sealbridge/manifest"
	"sealbridge/manifest/bridge"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Bridged says that a proposal came from another system (spec/bridge.md). Only
// a person brings one in: the id of its task is not of our making.
type Bridged struct {
	Task    manifest.TaskID `json:"taskId"`
	Sidecar jcs.Value       `json:"sidecar"` // what a contract has no place for: kept here, sent to nobody (J5)
	Chosen  []string        `json:"chosen"`  // what the other system did not say: the card names it (J6)
}

// admit holds what a bridge says against itself.
func (b *Bridged) admit(by Caller) error {
	if b == nil {
		return nil
	}
	if err := by.Person(); err != nil {
		return err
	}
	if b.Task.IsZero() {
		return spec.Refuse(spec.Malformed, "/bridged/taskId", "J2")
	}
	_, err := bridge.OpenSidecar(b.Sidecar)
	return spec.At("/bridged/sidecar", err)
}

// pinned is a draft by what it asks for: where its files lie is no part of it, their digests are (J2).
func pinned(d manifest.Draft) manifest.Draft {
	in := make([]manifest.DraftInput, len(d.Inputs))
	for i, f := range d.Inputs {
		in[i] = manifest.DraftInput{As: f.As, SHA256: f.SHA256}
	}
	d.Inputs = in
	return d
}

// free refuses an id that another task has.
func (t *turn) free(key manifest.TaskKey) error {
	_, taken, err := tasks.Get(t.Tx, key.String())
	if err == nil && taken {
		err = spec.Refuse(spec.Conflict, "/taskId", "M11: another task has this id")
	}
	return err
}

// Contracted is a contract as it can be said in another system's words.
type Contracted struct {
	Task     TaskView       `json:"task"`
	Manifest jcs.Value      `json:"manifest"` // its payload
	Digest   signing.Digest `json:"manifestDigest"`
	Accepted bool           `json:"accepted"` // before that nobody here but a person reads it (G13)
	Sidecar  jcs.Value      `json:"sidecar"`  // of a task that came from another system; else null
}

// Contract is the contract of a task, for a person.
func (g *Gateway) Contract(ctx context.Context, by Caller, in Ref) (out Contracted, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	err = g.view(ctx, func(t *turn) error {
		row, err := t.find(by, in.Task)
		if err != nil {
			return err
		}
		out.Manifest = row.Proposal
		if !row.Task.IsZero() {
			out.Manifest, out.Accepted = row.Task.Payload(), row.Task.Accepted() != nil
		}
		out.Digest = signing.DigestOf(out.Manifest.Bytes())
		if out.Task, err = t.taskView(row, false); err != nil {
			return err
		}
		recs, err := t.RecordsOf(row.Key.String())
		for _, r := range recs {
			if r.Kind != recSidecar || !out.Sidecar.IsZero() {
				continue
			}
			v, err := jcs.Parse(r.Body)
			if err != nil {
				return err
			}
			if _, err := bridge.OpenSidecar(v); err == nil { // else an answer that came from elsewhere
				out.Sidecar = v
			}
		}
		return err
	})
	return out, err
}

// answeredIn keeps the event for which an owner's key signed a decision.
func (t *turn) answeredIn(d *manifest.GateDecision, event string) error {
	r, _, err := asks.Get(t.Tx, d.AskID.String())
	if err != nil {
		return err
	}
	v, err := jcs.Canonicalize([]byte(event))
	if err != nil {
		return spec.At("/channel", err)
	}
	return t.append(recSidecar, r.Task, v.Bytes())
}
