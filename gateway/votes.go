package gateway

import (
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// votes are the yeses of an ask that were not enough yet, each admitted again at
// this instant: one whose certificate ran out or was taken back since is gone (G5, I7).
func (t *turn) votes(r askRow) (said []manifest.Verified) {
	for _, wire := range r.Votes {
		if v, ok := t.again(wire); ok {
			said = append(said, v)
		}
	}
	return said
}

func (t *turn) again(wire jcs.Value) (manifest.Verified, bool) {
	s, err := manifest.OpenValue(wire, t.g.keys)
	if err != nil {
		return manifest.Verified{}, false
	}
	v, err := t.trust.Admit(s, t.now)
	return v, err == nil
}

// vote keeps a yes that is not enough yet; the ask stays open. The newest of said is the new one.
func (t *turn) vote(r askRow, said []manifest.Verified) (out Decided, err error) {
	n := approval.Yeses(r.Ask, said, t.now)
	if n == approval.Yeses(r.Ask, said[:len(said)-1], t.now) {
		return out, spec.Refuse(spec.Conflict, "", "this person said yes already: one vote a person (G5)")
	}
	id := r.Ask.AskID.String()
	r.Votes = append(r.Votes, said[len(said)-1].Wire())
	out = Decided{Ask: id, State: r.State, Task: r.Ask.TaskID.String(), Votes: n, Need: r.Ask.Need}
	return out, asks.Put(t.Tx, id, r.Task, r)
}

// stands says whether a yes still counts before what it lets happen: of the
// people behind it as many as were needed still may decide (G5).
func (t *turn) stands(r askRow) bool {
	last, ok := t.again(r.Decision)
	if !ok || len(r.Votes) == 0 {
		return ok
	}
	return approval.Yeses(r.Ask, append(t.votes(r), last), t.now) >= r.Ask.Need
}
