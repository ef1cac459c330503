package gateway

import (
	"encoding/base64"
	"io"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// parts are the tasks of ours that are a part of a task that we work on, in
// groups of that task (P1): by key, the digest of the part's contract.
var parts = journal.NewTable[signing.Digest]("part")

// handing finds the task that the caller would hand a part of on.
func (t *turn) handing(by Caller, ref string) (row taskRow, err error) {
	row, err = t.find(by, ref)
	switch {
	case err != nil:
	case row.Role != manifest.Worker:
		err = spec.Refuse(spec.NotPermitted, "/parent", "P1: whoever works on a task hands a part of it on")
	case row.Recovery != "":
		err = spec.Refuse(spec.Unavailable, "/parent", "R4b: in recovery: "+row.Recovery)
	case row.contract().Permissions.MaxDelegationDepth == 0: // first: no later moment makes it otherwise
		err = spec.Refuse(spec.DepthExceeded, "/parent", "P1: this contract is handed on to nobody")
	case t.over(row) || row.Task.State() != task.Working:
		err = spec.Refuse(spec.IllegalTransition, "/parent", "P1: only work that is under way is handed on")
	}
	return row, err
}

// narrow fits a draft's contract into the task that it becomes a part of: what
// the draft does not say is the parent's, and of each meter half of what is
// left. What it says and is wider is refused by the law (P1).
func (t *turn) narrow(m *manifest.TaskManifest, d manifest.Draft, parent taskRow) error {
	above, _ := parent.Task.Contract()
	left, err := t.spare(parent)
	if err != nil {
		return err
	}
	m.ParentTaskID = &parent.Key.ID
	if d.Deadline == "" && m.Deadline.After(above.Deadline) {
		m.Deadline = above.Deadline
	}
	for _, x := range []struct {
		said string
		of   *int64
		left int64
	}{{d.Budget.InputTokens, &m.Budget.MaxInputTokens, left.InputTokens}, {d.Budget.OutputTokens, &m.Budget.MaxOutputTokens, left.OutputTokens},
		{d.Budget.ToolCalls, &m.Budget.MaxToolInvocations, left.ToolInvocations}, {d.Budget.Time, &m.Budget.MaxWallClockSeconds, left.WallClockSeconds}} {
		if x.said == "" {
			*x.of = min(*x.of, x.left/2)
		}
	}
	if until := int64(m.Deadline.Time().Sub(m.CreatedAt.Time()) / time.Second); d.Budget.Time == "" {
		m.Budget.MaxWallClockSeconds = max(1, min(m.Budget.MaxWallClockSeconds, until))
	}
	for i := range m.Permissions.GrantedCapabilities {
		if i < len(d.Grants) && d.Grants[i].Until == "" {
			shorten(&m.Permissions.GrantedCapabilities[i], m.Deadline, above)
		}
	}
	if d.Sandbox.Isolation == "" {
		m.SandboxPolicy.IsolationLevel = above.SandboxPolicy.IsolationLevel
	}
	if d.Sandbox.Files == "" {
		m.SandboxPolicy.FilesystemScope = above.SandboxPolicy.FilesystemScope
	}
	for _, g := range above.HITLPolicy.RequiredGates {
		if !m.HITLPolicy.Names(g) {
			m.HITLPolicy.RequiredGates = append(m.HITLPolicy.RequiredGates, g)
		}
	}
	return nil
}

// shorten ends a grant with the part, and with the grant above that covers it.
func shorten(g *manifest.Grant, deadline signing.Time, above manifest.TaskManifest) {
	if g.ExpiresAt.After(deadline) {
		g.ExpiresAt = deadline
	}
	for _, up := range above.Permissions.GrantedCapabilities {
		short := *g
		short.ExpiresAt = up.ExpiresAt
		if g.ExpiresAt.After(up.ExpiresAt) && policy.Covers(up, short) == nil {
			*g = short
			return
		}
	}
}

// handedOn are input files of the parent that a part takes along, by their names there.
func handedOn(parent taskRow, names []string) (out []manifest.ArtifactRef, err error) {
	for i, name := range names {
		found := false
		for _, a := range parent.Task.Manifest().IO.InputArtifacts {
			if a.Name == name && parent.Here[a.Digest.String()] {
				out, found = append(out, a), true
			}
		}
		if !found {
			return nil, spec.Refuse(spec.NotFound, "/handOn/"+itoa(i), "an input file of the parent task")
		}
	}
	return out, nil
}

// spare is what could be reserved for a part: what is free, and of the run
// under way what it has not used.
func (t *turn) spare(row taskRow) (out manifest.Meters, err error) {
	l, err := t.ledger(t.meterAccounts(row.Key))
	if err != nil {
		return out, err
	}
	of := func(m policy.Meter) int64 {
		b := l.Of(policy.MeterOf(row.Key, m))
		return max(0, b.Free()+t.unused(row, b, m))
	}
	return manifest.Meters{InputTokens: of(policy.InputTokens), OutputTokens: of(policy.OutputTokens),
		ToolInvocations: of(policy.ToolInvocations), WallClockSeconds: of(policy.WallClockSeconds)}, nil
}

// unused is what the run under way could give of its reservation. A program
// that runs here was started with all of it; an agent that comes by itself is
// told anew how much is left.
func (t *turn) unused(row taskRow, b policy.Balance, m policy.Meter) int64 {
	if !row.Session || row.RunAt.IsZero() {
		return 0
	}
	used := m.Of(row.Told)
	if m == policy.WallClockSeconds {
		used = t.worked(row) + 1
	}
	return max(0, b.Holds[runHold(row.Runs)]-used)
}

// room takes from the run under way what is not free of a share.
func (t *turn) room(row *taskRow, share manifest.Meters) error {
	l, err := t.ledger(t.meterAccounts(row.Key))
	if err != nil {
		return err
	}
	var ms []policy.Move
	for _, m := range policy.Meters() {
		acc := policy.MeterOf(row.Key, m)
		b := l.Of(acc)
		lack := m.Of(share) - b.Free()
		if lack <= 0 || lack > t.unused(*row, b, m) {
			continue // there is enough, or the law will say that there is not
		}
		ms = append(ms, rehold(row, acc, b.Holds[runHold(row.Runs)]-lack)...)
	}
	return t.rerun(row, l, ms)
}

// regrow gives the run under way what came back from a part.
func (t *turn) regrow(row *taskRow) error {
	if !row.Session || row.RunAt.IsZero() {
		return nil
	}
	l, err := t.ledger(t.meterAccounts(row.Key))
	if err != nil {
		return err
	}
	var ms []policy.Move
	for _, m := range policy.Meters() {
		acc := policy.MeterOf(row.Key, m)
		b := l.Of(acc)
		if held, ok := b.Holds[runHold(row.Runs)]; ok && b.Free() > 0 {
			ms = append(ms, rehold(row, acc, held+b.Free())...)
		}
	}
	return t.rerun(row, l, ms)
}

// onlyAsked is what is reserved for parts that were not delegated: nobody works on them.
func (r taskRow) onlyAsked(b policy.Balance) (sum int64) {
	once := map[signing.Digest]bool{}
	for _, a := range r.Task.Asks() {
		if !a.Child.IsZero() && !once[a.Child] && !delegatedIn(r.Task, a.Child) {
			once[a.Child] = true
			sum += b.Holds[policy.ChildHold(a.Child)]
		}
	}
	return sum
}

func rehold(row *taskRow, acc policy.Account, amount int64) []policy.Move {
	return []policy.Move{{Op: policy.Release, Account: acc, Hold: runHold(row.Runs)}, {Op: policy.Reserve, Account: acc, Hold: runHold(row.Runs), Amount: amount}}
}

// rerun moves a run's reservation and sets its clock anew.
func (t *turn) rerun(row *taskRow, l policy.Ledger, ms []policy.Move) error {
	if len(ms) == 0 {
		return nil
	}
	if err := t.move(l, ms); err != nil {
		return err
	}
	acc := policy.MeterOf(row.Key, policy.WallClockSeconds)
	b, err := t.ledger([]policy.Account{acc})
	if err != nil {
		return err
	}
	end := row.RunAt.Add(time.Duration(b.Of(acc).Holds[runHold(row.Runs)]) * time.Second)
	if by := row.Task.Deadline(); by.Before(end) {
		end = by
	}
	if err := t.Settle(jobRun, row.Key.String()); err != nil {
		return err
	}
	return t.oweAt(jobRun, row.Key.String(), end, nil)
}

// pass makes the passes that go with a proposal of ours: those above it, and one
// of its own where it may be handed on (P2). It is made once: its digest stands
// in what the owner is asked about.
func (t *turn) pass(row *taskRow, above []jcs.Value) error {
	row.Passes = append([]jcs.Value(nil), above...)
	m := row.contract()
	if m.Permissions.MaxDelegationDepth == 0 || m.Worker == nil {
		return nil
	}
	var up manifest.Signed
	nonce := ""
	if n := len(above); n > 0 {
		var err error
		if up, err = manifest.OpenValue(above[n-1], t.g.keys); err != nil {
			return err
		}
	} else {
		var b [16]byte
		if _, err := io.ReadFull(t.g.Chance, b[:]); err != nil {
			return err
		}
		nonce = base64.RawURLEncoding.EncodeToString(b[:])
	}
	p, err := manifest.PassFor(m, row.digest(), up, nonce, t.now)
	if err != nil {
		return err
	}
	v, err := manifest.Sign(&p, t.g.Agent, t.now)
	if err != nil {
		return err
	}
	row.Passes = append(row.Passes, v.Wire())
	return nil
}

// child is a part as its worker asks for it.
func (r taskRow) child() *manifest.Child {
	c := &manifest.Child{Manifest: r.Proposal}
	if r.contract().Permissions.MaxDelegationDepth > 0 && len(r.Passes) > 0 {
		c.Pass = &r.Passes[len(r.Passes)-1]
	}
	return c
}

// digest names the part's contract.
func (r taskRow) digest() signing.Digest {
	if !r.Task.IsZero() {
		return r.Task.ManifestDigest()
	}
	return signing.DigestOf(r.Proposal.Bytes())
}

// askToHandOn asks the requester of a task for a part of it (G11). What the
// part's own rules refuse is refused before anybody is bothered.
func (t *turn) askToHandOn(row *taskRow) (out Proposed, err error) {
	parent, err := t.row(row.Parent)
	if err != nil {
		return out, err
	}
	if err := t.dry(*row); err != nil {
		return out, err
	}
	if err := t.room(&parent, row.contract().Budget.Limits()); err != nil {
		return out, err
	}
	said, err := t.say(&parent, manifest.Asked{Contract: parent.Task.InForce().Digest, Child: row.child()})
	if err != nil {
		return out, err
	}
	if said.Outcome != policy.Allow {
		return out, spec.Refuse(spec.Internal, "", "G11: an ask for a part needs no gate")
	}
	if err := parts.Put(t.Tx, row.Key.String(), row.Parent, row.digest()); err != nil {
		return out, err
	}
	return Proposed{Task: row.Key.ID.String(), Digest: row.digest().String(), Manifest: row.Proposal, Above: t.trust.Contacts[parent.Peer].Name}, t.putRow(*row)
}
