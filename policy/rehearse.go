package policy

import (
	"encoding/base64"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// Rehearsal is a draft that nobody sends: as if our side would propose it to a
// contact, or as if a contact had proposed it to us.
type Rehearsal struct {
	Draft   manifest.Draft
	Inputs  []manifest.ArtifactRef // measured, in the order of Draft.Inputs
	Side    manifest.Role          // ours: requester to propose it, worker to take it on
	Contact string                 // our name for the other side; taken as confirmed
	Caller  string                 // our agent; "" for the owner's own command
	Files   []string               // absolute paths that would leave, links resolved
	Named   bool                   // a person named them
	At      time.Time
}

// The parties of a rehearsal have keys of their own, which anybody can make:
// nothing that they sign is worth anything.
var rehearsalKeys = [4]signing.Signer{signing.NewKey([32]byte{'r', 'o'}), signing.NewKey([32]byte{'r', 'a'}), signing.NewKey([32]byte{'w', 'o'}), signing.NewKey([32]byte{'w', 'a'})}

// rehearsalTask is the id of every rehearsed task.
const rehearsalTask = "task_00000000000000000000000000"

// Rehearse says what would happen to a draft under the policy, on a day on which
// nothing was used: the contract that it makes and the decision about it, the
// same that a gateway would make. An error is a draft that is no contract.
func (p Policy) Rehearse(r Rehearsal) (m manifest.TaskManifest, d Decision, err error) {
	id, err := manifest.ParseTaskID(rehearsalTask)
	if err != nil {
		return m, d, err
	}
	k := rehearsalKeys
	m, err = p.Defaults.Fill(r.Draft).Manifest(manifest.Terms{ID: id, At: r.At, Inputs: r.Inputs,
		Requester: manifest.Party{OwnerDid: k[0].DID(), AgentDid: k[1].DID()}, Worker: manifest.Party{OwnerDid: k[2].DID(), AgentDid: k[3].DID()}})
	if err != nil {
		return m, d, err
	}
	block, payload, err := manifest.SignManifest(m, manifest.Requester, k[1], r.At)
	if err != nil {
		return m, d, err
	}
	proposed := manifest.Proposed{Manifest: payload, Signature: block}
	if m.Permissions.MaxDelegationDepth > 0 {
		pass, err := manifest.PassFor(m, signing.DigestOf(payload.Bytes()), manifest.Signed{}, base64.RawURLEncoding.EncodeToString(make([]byte, 16)), r.At)
		if err != nil {
			return m, d, err
		}
		v, err := manifest.Sign(&pass, k[1], r.At)
		if err != nil {
			return m, d, err
		}
		proposed.Passes = []jcs.Value{v.Wire()}
	}
	c := Case{Event: task.Task{}.Next(k[1].DID(), manifest.Body{Fact: proposed}, r.At), Role: r.Side, By: k[1].DID(), At: r.At,
		Caller: r.Caller, Contact: Contact{Name: r.Contact, Owner: k[2].DID(), Confirmed: true}, Files: r.Files}
	if r.Named {
		c.NamedFiles = r.Files
	}
	if r.Side == manifest.Requester {
		c.Isolation = []string{"subprocess_restricted"} // of a machine that can run the checks
		return m, p.Decide(c), nil
	}
	c.Contact.Owner = k[0].DID()
	if d = Contract(c); d.Outcome == Deny && d.Rule != "G1" {
		return m, d, nil // refused before it is kept
	}
	d, err = p.rehearseAccepting(c, m, r.At)
	return m, d, err
}

// rehearseAccepting is the second step of a task that a contact asked for.
func (p Policy) rehearseAccepting(c Case, m manifest.TaskManifest, at time.Time) (Decision, error) {
	k := rehearsalKeys
	said, err := manifest.Sign(&c.Event, k[1], at)
	if err != nil {
		return Decision{}, err
	}
	if c.Task, err = task.Apply(task.Task{}, said); err != nil {
		return Decision{}, err
	}
	block, _, err := manifest.SignManifest(m, manifest.Worker, k[3], at)
	if err != nil {
		return Decision{}, err
	}
	level := m.SandboxPolicy.IsolationLevel
	c.Event = c.Task.Next(k[3].DID(), manifest.Body{Fact: manifest.Accepted{Signature: block, Isolation: manifest.Isolation{Level: level, Enforced: enforcedByGateway}, Model: "none", Providers: []string{}}}, at)
	c.By, c.Isolation, c.Filters, c.Files, c.NamedFiles = k[3].DID(), []string{level}, true, nil, nil
	return p.Decide(c), nil
}

// Fill gives a draft what it does not say itself; what it says stays. The gates
// that a draft's own budget or depth call for are there all the same.
func (d Defaults) Fill(in manifest.Draft) manifest.Draft {
	text := func(to *string, value string) {
		if *to == "" {
			*to = value
		}
	}
	if d.Deadline > 0 {
		text(&in.Deadline, d.Deadline.String())
	}
	for _, x := range []struct {
		to *string
		n  Amount
	}{{&in.Budget.InputTokens, d.Budget.InputTokens}, {&in.Budget.OutputTokens, d.Budget.OutputTokens}, {&in.Budget.ToolCalls, d.Budget.ToolCalls}} {
		if x.n > 0 {
			text(x.to, figureText(int64(x.n)))
		}
	}
	if d.Budget.Time > 0 {
		text(&in.Budget.Time, d.Budget.Time.String())
	}
	text(&in.Budget.Over, d.Budget.Over)
	if in.Gates != nil || d.Gates == nil {
		return in
	}
	has := map[GateWord]bool{}
	for _, w := range d.Gates {
		has[w] = true
		in.Gates = append(in.Gates, string(w))
	}
	if in.Depth > 0 && !has[DelegationWord] {
		in.Gates = append(in.Gates, string(DelegationWord))
	}
	if in.Budget.Over == "ask" && !has[BudgetWord] {
		in.Gates = append(in.Gates, string(BudgetWord))
	}
	if in.Gates == nil {
		in.Gates = []string{}
	}
	return in
}

// Unreached lists rules that no case can meet, because rules above them fit
// every case that they fit: by section and index.
func (p Policy) Unreached() (out []string) {
	var names, types, tos [][]string
	agents := map[string]bool{}
	for _, r := range p.Incoming {
		names, types = append(names, r.From), append(types, r.Tasks)
	}
	for _, r := range p.Outgoing {
		tos = append(tos, r.To)
		if r.Agent != "" {
			agents[r.Agent] = true
		}
	}
	seen := func(section string, n int, m map[[2]int][]atom) {
		for i := range n {
			if _, ok := m[[2]int{i, i}]; !ok {
				out = append(out, "/"+section+"/"+figureText(int64(i)))
			}
		}
	}
	if in := mention(names...); (len(in)+1)*(len(mention(types...))+1) <= maxAtoms {
		seen("incoming", len(p.Incoming), pairs(in, mention(types...), firstIncoming(p.Incoming), firstIncoming(p.Incoming)))
	}
	if to := mention(tos...); (len(to)+1)*(len(agents)+1) <= maxAtoms {
		seen("outgoing", len(p.Outgoing), pairs(to, agents, firstOutgoing(p.Outgoing), firstOutgoing(p.Outgoing)))
	}
	return out
}
