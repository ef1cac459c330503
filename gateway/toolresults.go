package gateway

import (
	"context"
	"io"
	"slices"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// resultOf takes the answer to a call of ours: only for an open call with that
// digest, from whom it was asked (C5).
func (t *turn) resultOf(v manifest.Verified, r *manifest.ToolResult) error {
	key := r.Call.String()
	o, ok, err := ownCalls.Get(t.Tx, key)
	if err != nil {
		return err
	}
	if !ok || r.To != t.g.Agent.DID() {
		return spec.Refuse(spec.NotFound, "/call", "C5: no call of this gateway")
	}
	c, _, err := t.readCall(o)
	if err != nil {
		return err
	}
	if v.By() != c.To {
		return spec.Refuse(spec.WrongSigner, "/signature/signerDid", "C5: who was asked")
	}
	if err := t.hears(v.Owner(), r.Revocations); err != nil {
		return err
	}
	if !o.open() { // the first final answer stands
		return t.confirmDocument(v)
	}
	row, err := t.row(o.Task)
	if err != nil {
		return err
	}
	if err := t.append(recResult, o.Task, v.Wire().Bytes()); err != nil {
		return err
	}
	o.State, o.Result = string(r.State), v.Wire()
	if !o.open() {
		o.Ended = t.now
		if err := t.endOwnCall(row, r); err != nil {
			return err
		}
		if r.Denial != nil {
			if err := t.callRefused(o.Task, o.Call, byContact, *r.Denial); err != nil {
				return err
			}
		}
		if err := openCalls.Delete(t.Tx, o.Subject.String()); err != nil {
			return err
		}
	}
	if err := ownCalls.Put(t.Tx, key, o.Task, o); err != nil {
		return err
	}
	if r.Artifact != nil {
		row.Answers = append(slices.Clip(row.Answers), *r.Artifact)
		if err := t.putRow(row); err != nil {
			return err
		}
		if err := t.wants(row); err != nil {
			return err
		}
	}
	return t.confirmDocument(v)
}

// endOwnCall charges the call, unless the other side says that the tool was not called.
func (t *turn) endOwnCall(row taskRow, r *manifest.ToolResult) error {
	acc := policy.MeterOf(row.Key, policy.ToolInvocations)
	l, err := t.ledger([]policy.Account{acc})
	if err != nil {
		return err
	}
	hold := policy.CallHold(r.Call)
	if _, held := l.Of(acc).Holds[hold]; !held {
		return nil
	}
	m := policy.Move{Op: policy.Commit, Account: acc, Hold: hold, Amount: 1}
	if r.State == manifest.CallRefused {
		m.Op, m.Amount = policy.Release, 0
	}
	return t.move(l, []policy.Move{m})
}

// used is a call as its agent sees it; file is where a result lies that came as one.
func (t *turn) used(o ownCall) (out Used, file *manifest.ArtifactRef, err error) {
	c, r, err := t.readCall(o)
	if err != nil {
		return out, nil, err
	}
	row, err := t.row(o.Task)
	if err != nil {
		return out, nil, err
	}
	with, ok := t.trust.OwnerOf(c.To)
	if !ok {
		with = row.Peer
	}
	out = Used{Call: o.ID, Tool: c.Tool, With: t.trust.Contacts[with].Name, State: o.State}
	if r == nil {
		return out, nil, nil
	}
	out.Result, out.Denial, out.UsesLeft = r.Result, r.Denial, r.UsesLeft
	if r.Artifact != nil {
		out.Arriving = !row.Here[r.Artifact.Digest.String()]
	}
	return out, r.Artifact, nil
}

// answerIn reads a result that came as a file.
func (g *Gateway) answerIn(ref manifest.ArtifactRef) (jcs.Value, error) {
	f, err := g.Files.Open(ref.Digest)
	if err != nil {
		return jcs.Value{}, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxAnswerFile+1))
	if err != nil {
		return jcs.Value{}, err
	}
	return jcs.ParseWithin(b, jcs.Limits{Bytes: maxAnswerFile, Depth: 64, Values: 1_000_000, Number: 32})
}

const maxAnswerFile = 16 << 20 // bytes of a tool's answer: what a gateway hands on at most

// AwaitTool waits until a call has its answer, or ctx ends: then it is as it is.
func (g *Gateway) AwaitTool(ctx context.Context, by Caller, in Ref, call string) (Used, error) {
	for {
		head := g.Journal.Head()
		out, err := g.CallTool(context.WithoutCancel(ctx), by, Use{Task: in.Task, Call: call})
		if err != nil || out.State != callSent && out.State != string(manifest.CallPending) && !out.Arriving {
			return out, err
		}
		if _, err := g.Journal.Wait(ctx, head); err != nil {
			return out, nil // nothing came in time, which is no error (A4)
		}
	}
}
