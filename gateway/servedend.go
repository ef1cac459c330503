package gateway

import (
	"time"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing"
)

// refuseCall ends a call before anything was reserved.
func (t *turn) refuseCall(key string, s *servedRow, d manifest.Denial) error {
	d.Path, d.Limit = cut(d.Path, 500), cut(d.Limit, 200)
	t.g.Log.Info("refusing a call", "tool", s.Tool, "word", d.Reason, "rule", d.Rule, "path", d.Path, "limit", d.Limit)
	if err := t.callRefused(s.Task, s.Call, byLaw, d); err != nil {
		return err
	}
	return t.finishCall(key, s, manifest.CallRefused, false, func(r *manifest.ToolResult) { r.Denial = &d })
}

// finishCall moves what the call had reserved, and signs and sends its result.
func (t *turn) finishCall(key string, s *servedRow, state manifest.CallState, used bool, say func(*manifest.ToolResult)) error {
	row, err := t.row(s.Task)
	if err != nil {
		return err
	}
	digest, err := signing.ParseDigest(key)
	if err != nil {
		return err
	}
	signed, err := manifest.OpenValue(s.Call, t.g.keys)
	if err != nil {
		return err
	}
	left := int64(0)
	if chain, err := t.g.chains.OpenValues(t.g.keys, s.Chain...); err == nil { // a chain that does not hold had nothing reserved
		l, err := t.ledger(policy.CallAccounts(row.Key, chain))
		if err != nil {
			return err
		}
		if state != manifest.CallPending {
			if err := t.move(l, policy.CallEnds(l, row.Key, chain, digest, used)); err != nil {
				return err
			}
			if l, err = t.ledger(policy.CallAccounts(row.Key, chain)); err != nil {
				return err
			}
		}
		left = policy.UsesLeft(l, row.Key, chain.Token(1), chain.Link(1).Digest())
	}
	r := manifest.ToolResult{Type: "sealbridge/tool-result", ProtocolVersion: manifest.ProtocolVersion, To: signed.By(), Call: digest, State: state,
		UsesLeft: left, At: signing.TimeOf(t.now), Revocations: t.revocations()}
	if state == manifest.CallDone && !s.Defaults.IsZero() {
		r.Defaults = s.Defaults
	}
	say(&r)
	v, err := manifest.Sign(&r, t.g.Agent, t.now)
	if err != nil {
		return err
	}
	if err := t.append(recResult, s.Task, v.Wire().Bytes()); err != nil {
		return err
	}
	s.State, s.Result = string(state), v.Wire()
	if err := served.Put(t.Tx, key, s.Task, *s); err != nil {
		return err
	}
	if state != manifest.CallPending {
		if err := t.Settle(jobCall, key); err != nil {
			return err
		}
		if err := t.oweAt(jobDropCall, key, t.forgetAt(*s), nil); err != nil {
			return err
		}
	}
	if c, ok := t.trust.Contacts[s.Peer]; !ok || c.Blocked { // who was sent away is told nothing (K3)
		return nil
	}
	return t.send(s.Peer, v.Signed, "", s.Task, 0)
}

// forgetAt is when a recorded answer is let go of: the records stay (C4).
func (t *turn) forgetAt(s servedRow) time.Time {
	end := t.now
	if k, _, err := t.token(tokenRow{Wire: s.Chain[0]}); err == nil && k.ExpiresAt.Time().After(end) {
		end = k.ExpiresAt.Time()
	}
	return end.Add(keepAnswers)
}

// forgetCall lets go of a recorded answer.
func (t *turn) forgetCall(key string) error {
	s, ok, err := served.Get(t.Tx, key)
	if err != nil || !ok {
		return err
	}
	signed, err := manifest.OpenValue(s.Call, t.g.keys)
	if err != nil {
		return err
	}
	if c, ok := signed.Document().(*manifest.ToolCall); ok {
		if err := callIDs.Delete(t.Tx, signed.By().String()+" "+c.CallID.String()); err != nil {
			return err
		}
	}
	return served.Delete(t.Tx, key)
}

// offer puts a result that goes as a file among those that the other side may have.
func (t *turn) offer(task string, ref manifest.ArtifactRef) error {
	row, err := t.row(task)
	if err != nil {
		return err
	}
	for _, have := range row.Answers {
		if have.Digest == ref.Digest { // the same answer to another call: it is there, or on its way
			return nil
		}
	}
	row.Answers = append(row.Answers[:len(row.Answers):len(row.Answers)], ref)
	if err := t.putRow(row); err != nil {
		return err
	}
	return t.owe(jobUpload, task, nil)
}
