package gateway

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"sealbridge/gateway/artifact"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Proposal is a draft for one contact.
type Proposal struct {
	Draft  manifest.Draft `json:"draft"`
	To     string         `json:"to"`
	DryRun bool           `json:"dryRun"`
	ID     string         `json:"id,omitempty"` // the caller's own name for this call: said again, it joins the first (G8)

	Parent string   `json:"parent,omitempty"` // the task that this is a part of, which we work on (P1)
	HandOn []string `json:"handOn,omitempty"` // input files of it that go along, by their names there

	Bridged *Bridged `json:"bridged,omitempty"` // the work came from another system
}

// Proposed is what came of it: nothing has left this gateway while an ask waits.
type Proposed struct {
	Task     string    `json:"taskId"`
	Ask      string    `json:"ask,omitempty"`
	Until    time.Time `json:"until,omitzero"`
	Digest   string    `json:"manifestDigest"`
	Manifest jcs.Value `json:"manifest"`
	Sent     bool      `json:"sent"`
	Joined   bool      `json:"joined,omitempty"` // the same was asked before: this is that task
	Above    string    `json:"above,omitempty"`  // of a part: the contact who is asked for it first
	InLine   bool      `json:"inLine,omitempty"` // it is asked about when an earlier question about the contact is closed (B9)
}

// Propose makes a contract from a draft, decides, and asks the owner. Files that
// a caller names leave only after that (K3): those that a person named, or that
// the policy lets this agent send.
func (g *Gateway) Propose(ctx context.Context, by Caller, in Proposal) (out Proposed, err error) {
	if err := in.Bridged.admit(by); err != nil {
		return out, err
	}
	refs, files, err := g.importInputs(ctx, by, in)
	if err != nil {
		g.keepRefused(ctx, err)
		return out, err
	}
	id, err := g.newTaskID(g.Now())
	if err != nil {
		return out, err
	}
	if in.Bridged != nil {
		id = in.Bridged.Task
	}
	err = g.turn(ctx, func(t *turn) error {
		row, err := t.newRow(by, in, id, refs, files)
		if err != nil {
			return err
		}
		c, err := callOf(by, in, row.Peer, refs)
		if err != nil {
			return err
		}
		if row, ok, err := t.join(c); err != nil || ok {
			if err == nil {
				out, err = t.joined(row)
			}
			return err
		}
		if in.DryRun {
			out = Proposed{Task: id.String(), Digest: signing.DigestOf(row.Proposal.Bytes()).String(), Manifest: row.Proposal}
			return t.dry(row)
		}
		if in.Bridged != nil {
			row.Chosen = in.Bridged.Chosen
			if err := errors.Join(t.free(row.Key), t.append(recSidecar, row.Key.String(), in.Bridged.Sidecar.Bytes())); err != nil {
				return err
			}
		}
		if row.Parent != "" {
			out, err = t.askToHandOn(&row)
		} else {
			out, err = t.sayProposal(&row)
		}
		if err != nil {
			return err
		}
		return t.called(c, row.Key.String())
	})
	return out, err
}

// newRow is a task of ours as a draft makes it: nothing of it was said.
func (t *turn) newRow(by Caller, in Proposal, id manifest.TaskID, refs []manifest.ArtifactRef, files []string) (row taskRow, err error) {
	var parent taskRow
	if in.Parent != "" {
		if parent, err = t.handing(by, in.Parent); err != nil {
			return row, err
		}
		more, err := handedOn(parent, in.HandOn)
		if err != nil {
			return row, err
		}
		refs = append(refs[:len(refs):len(refs)], more...)
	}
	m, peer, err := t.contract(in, id, refs)
	if err != nil {
		return row, err
	}
	if in.Parent != "" {
		if err := t.narrow(&m, in.Draft, parent); err != nil {
			return row, err
		}
	}
	payload, err := jcs.Encode(m)
	if err != nil {
		return row, err
	}
	if _, err := manifest.ReadManifest(payload); err != nil {
		return row, err
	}
	if err := t.g.checkInput(m); err != nil {
		return row, err
	}
	row = taskRow{Key: manifest.TaskKey{Owner: t.g.Owner, ID: id}, Role: manifest.Requester, Peer: peer, Title: m.Task.Title, Agent: by.Agent,
		Proposal: payload, Files: files, Named: by == Owner, Claimed: in.Draft.Sandbox.ClaimedOK, At: t.now, Here: map[string]bool{}}
	if in.Parent != "" {
		row.Parent, row.Helper = parent.Key.String(), parent.Agent
	}
	return row, t.pass(&row, parent.Task.Passes())
}

// sayProposal decides about a new task of ours: it is said, or its owner is asked.
func (t *turn) sayProposal(row *taskRow) (out Proposed, err error) {
	id, payload := row.Key.ID.String(), row.Proposal
	fact, err := t.proposal(*row)
	if err != nil {
		return out, err
	}
	said, err := t.say(row, fact)
	if err != nil {
		return out, err
	}
	out = Proposed{Task: id, Digest: signing.DigestOf(payload.Bytes()).String(), Manifest: payload, Sent: said.Outcome == policy.Allow,
		InLine: said.Outcome == policy.Hold && said.Ask == nil}
	if said.Ask != nil {
		out.Ask, out.Until = said.Ask.Ask.AskID.String(), said.Ask.Ask.Until.Time()
	}
	return out, nil
}

// dry says what would be decided, and keeps nothing.
func (t *turn) dry(row taskRow) error {
	fact, err := t.proposal(row)
	if err != nil {
		return err
	}
	c, err := t.caseOf(row, fact)
	if err != nil {
		return err
	}
	c.Rehearsal = true
	if d := t.may(c); d.Outcome == policy.Deny {
		return t.denied(d)
	}
	return nil
}

// importInputs measures what goes along. What an agent names is held against
// may_send before the file is opened, and a second time when it is decided.
func (g *Gateway) importInputs(ctx context.Context, by Caller, in Proposal) (refs []manifest.ArtifactRef, files []string, err error) {
	refs, d := []manifest.ArtifactRef{}, in.Draft
	may, err := g.maySend(ctx, by, in.To)
	if err != nil {
		return nil, nil, err
	}
	for i, in := range d.Inputs {
		name := in.As
		if name == "" {
			name = filepath.Base(in.File)
		}
		if by != Owner && !filepath.IsAbs(in.File) {
			return nil, nil, spec.Refuse(spec.Malformed, "/inputs/"+itoa(i)+"/file", "an absolute path: the gateway does not know your folder")
		}
		ref, resolved, err := g.Files.Import(ctx, artifact.Import{Path: in.File, Name: name, May: may})
		if may != nil && spec.ReasonOf(err) == spec.NotFound { // the same answer whether or not there is such a file
			err = errors.Join(may(in.File), err)
		}
		if err != nil {
			return nil, nil, spec.At("/inputs/"+itoa(i), err)
		}
		if in.SHA256 != "" && ref.Digest.String() != "sha256:"+in.SHA256 {
			return nil, nil, spec.Refuse(spec.BadDigest, "/inputs/"+itoa(i), "not the bytes that the draft names")
		}
		refs, files = append(refs, ref), append(files, resolved)
	}
	if d.Data != nil { // M12
		v, err := manifest.ValueOf(d.Data)
		if err != nil {
			return nil, nil, spec.At("/data", err)
		}
		ref, err := g.Files.Put(ctx, manifest.InputName, "application/json", strings.NewReader(v.String()), artifact.MaxSize)
		if err != nil {
			return nil, nil, err
		}
		refs = append(refs, ref)
	}
	return refs, files, nil
}

func (t *turn) contract(in Proposal, id manifest.TaskID, refs []manifest.ArtifactRef) (m manifest.TaskManifest, peer signing.DID, err error) {
	owner, _, ok := t.trust.Named(in.To)
	if !ok {
		return m, peer, spec.Refuse(spec.NotFound, "/to", "no contact is called "+manifest.Display(in.To, 40))
	}
	agent, err := t.trust.AgentFor(owner, t.now)
	if err != nil {
		return m, owner, err
	}
	own, err := t.g.certificateTerms()
	if err != nil {
		return m, owner, err
	}
	m, err = t.rules.Policy.Defaults.Fill(in.Draft).Manifest(manifest.Terms{ID: id, At: t.now, Inputs: refs, Requester: party(own), Worker: party(agent.Certificate)})
	return m, owner, err
}

func party(c manifest.AgentCertificate) manifest.Party {
	return manifest.Party{OwnerDid: c.OwnerDid, AgentDid: c.AgentDid, DisplayName: c.DisplayName, RelayEndpoint: c.Relay.Endpoint}
}
