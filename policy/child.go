package policy

import (
	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// judgePasses holds the passes of the contract against it (P2). What our own
// side proposes as a part of another task was delegated there before (B3).
func (l *law) judgePasses(docs []jcs.Value) *Decision {
	if err := Passes(l.m, signing.DigestOf(l.payload.Bytes()), docs); err != nil {
		return denied(ruleOf(err, "P2"), spec.ReasonOf(err), pathOf(err), limitOf(err))
	}
	if l.m.ParentTaskID != nil && l.own && l.author == manifest.Requester && l.Task.IsZero() && !l.Rehearsal && !delegated(l.Parent, l.Event.ManifestDigest) {
		return denied("G11", spec.GateOpen, "/body/manifest/parentTaskId", "delegated first")
	}
	return nil
}

func delegated(parent task.Task, child signing.Digest) bool {
	for _, c := range parent.Children() {
		if c.Manifest == child {
			return true
		}
	}
	return false
}

// ruleOf is the rule that begins an error's limit.
func ruleOf(err error, otherwise string) string {
	limit := limitOf(err)
	for i, r := range limit {
		if r == ':' && i > 0 {
			return limit[:i]
		}
		if i > 3 || r == ' ' {
			break
		}
	}
	return otherwise
}

// judgeChild holds a child against the contract in force in the author's view,
// and against the passes that go with both (P1, P2).
func (l *law) judgeChild(c manifest.Child, path string) *Decision {
	m, err := c.Contract()
	if err == nil {
		err = AttenuatesContract(l.m, m)
	}
	if err == nil {
		docs := l.passes
		if c.Pass != nil {
			docs = append(docs[:len(docs):len(docs)], *c.Pass)
		}
		err = Passes(m, c.Digest(), docs)
	}
	if err != nil {
		return denied(ruleOf(err, "P1"), spec.ReasonOf(err), path+pathOf(err), limitOf(err))
	}
	if l.own && !m.Deadline.Time().After(l.At) {
		return denied("M1", spec.Expired, path+"/deadline", "in the future")
	}
	return nil
}

// judgeDelegated: the share is what the child may use, whole (B3).
func (l *law) judgeDelegated(f manifest.Delegated) *Decision {
	part := l.part(f.Answer)
	if part == nil {
		return denied("G11", spec.GateOpen, "/body/answer", "the yes to this child")
	}
	m, err := part.Contract()
	switch {
	case err != nil:
		return denied("P1", spec.Malformed, "/body/child", "")
	case f.Reserved != m.Budget.Limits():
		return denied("B3", spec.BudgetExhausted, "/body/reserved", "what the child may use")
	}
	if d := introduces(f, m); d != nil {
		return d
	}
	return l.judgeChild(*part, "/body/child")
}

// introduces: whoever will call the requester's tools is introduced, and nobody else (C7).
func introduces(f manifest.Delegated, m manifest.TaskManifest) *Decision {
	calls := len(m.Permissions.GrantedCapabilities) > 0
	if f.Worker == nil || !calls {
		if calls != (f.Worker != nil) {
			return denied("C7", spec.CapabilityDenied, "/body/worker", "exactly where the child has grants")
		}
		return nil
	}
	c, err := f.Worker.Agent()
	if err != nil || m.Worker == nil || c.AgentDid != m.Worker.AgentDid || c.OwnerDid != m.Worker.OwnerDid {
		return denied("C7", spec.WrongSigner, "/body/worker", "the child's worker")
	}
	return nil
}

// judgeShare: an amendment of a child stays within what was reserved for it
// and within the deadline of the pass above it (B3, H10).
func (l *law) judgeShare(a manifest.Amendment, path string) *Decision {
	if l.m.ParentTaskID == nil {
		return nil
	}
	if a.Budget != nil && !fits(*a.Budget, l.Task.Manifest().Budget.Limits()) {
		return denied("B3", spec.NotAttenuated, path+"/budget", "the share that the parent reserved")
	}
	if a.Deadline == nil {
		return nil
	}
	chain, _, err := openPasses(l.passes)
	above := len(chain) - 1
	if l.m.Permissions.MaxDelegationDepth > 0 {
		above--
	}
	if err != nil || above < 0 || a.Deadline.After(chain[above].Deadline) {
		return denied("H10", spec.NotAttenuated, path+"/deadline", "at most the parent's")
	}
	return nil
}

// part is the child that an answer said yes to, by the digest of the answered event; nil for none.
func (l *law) part(answer signing.Digest) *manifest.Child {
	for _, a := range l.Task.Asks() {
		if a.Answer == answer && a.Status == task.AskYes {
			return a.Part
		}
	}
	return nil
}

// childText is the subject of a yes to a child (G2): the child and its pass in
// full, which of the parent's files leave with it, and for the second decision
// the digest of the first. It is zero where the event lets nothing be handed on.
func (l *law) childText() jcs.Value {
	switch f := l.fact.(type) {
	case manifest.Answered:
		if a, ok := l.view.Ask(f.Ask); ok && f.Yes && a.Part != nil {
			return childSubject(a.Base, *a.Part, l.m, nil)
		}
	case manifest.Delegated:
		for _, a := range l.Task.Asks() {
			if a.Answer == f.Answer && a.Status == task.AskYes && a.Part != nil {
				return childSubject(a.Base, *a.Part, l.m, orNil(a.AnswerDecision))
			}
		}
	}
	return jcs.Value{}
}

func (l *law) childSubject() signing.Digest { return digest(l.childText()) }

// ChildSubject is the subject digest of the yes to a child of a contract. first
// is the digest of the requester's owner's decision, which the worker's names.
func ChildSubject(base signing.Digest, c manifest.Child, parent manifest.TaskManifest, first *signing.Digest) signing.Digest {
	return digest(childSubject(base, c, parent, first))
}

func childSubject(base signing.Digest, c manifest.Child, parent manifest.TaskManifest, first *signing.Digest) jcs.Value {
	m, err := c.Contract()
	if err != nil {
		return jcs.Value{}
	}
	return full(struct {
		Gate     string                 `json:"gate"`
		Contract signing.Digest         `json:"contract"`
		Manifest jcs.Value              `json:"manifest"`
		Pass     *jcs.Value             `json:"pass"`
		Leaves   []manifest.ArtifactRef `json:"leaves"`
		First    *signing.Digest        `json:"first"`
	}{string(manifest.SubGate), base, c.Manifest, c.Pass, Leaves(parent, m), first})
}

// Leaves are the parent's own input files that would go along with a child, by
// the names that the child gives them. Bytes that were changed on the way are
// not known by their digest (L5).
func Leaves(parent, child manifest.TaskManifest) []manifest.ArtifactRef {
	ours := map[signing.Digest]bool{}
	for _, a := range parent.IO.InputArtifacts {
		ours[a.Digest] = true
	}
	out := []manifest.ArtifactRef{}
	for _, a := range child.IO.InputArtifacts {
		if ours[a.Digest] {
			out = append(out, a)
		}
	}
	return out
}

// ChildHold names the share of a child in its parent's meters.
func ChildHold(child signing.Digest) HoldID { return HoldID("child " + child.String()) }

// reserveShare keeps a child's share back, where it is not kept already.
func (l *law) reserveShare(out []Move, child signing.Digest, share manifest.Meters) []Move {
	for _, m := range Meters() {
		a := MeterOf(l.Task.Key(), m)
		if _, held := l.Ledger.Of(a).Holds[ChildHold(child)]; !held {
			out = append(out, Move{Op: Reserve, Account: a, Hold: ChildHold(child), Amount: m.Of(share)})
		}
	}
	return out
}

// SettleShare gives a child's share back: what was used is charged to the
// parent, the rest is free again (B3). A share that came back already stays.
func SettleShare(l Ledger, parent manifest.TaskKey, child signing.Digest, used manifest.Meters) (out []Move) {
	for _, m := range Meters() {
		a := MeterOf(parent, m)
		if held, ok := l.Of(a).Holds[ChildHold(child)]; ok {
			out = append(out, Move{Op: Commit, Account: a, Hold: ChildHold(child), Amount: min(m.Of(used), held)})
		}
	}
	return out
}

// delegation adds the gate of a child where the contract does not name it: work
// is handed on by a person's yes only.
func (p Policy) delegation(l *law) (r ruling) {
	r.index = -1
	if r.stranger(l, "") {
		return r
	}
	g := l.gate(manifest.SubGate, l.childSubject())
	g.Added = true
	r.gate = &g
	return r
}
