package gateway

import (
	"context"
	"encoding/json"
	"errors"

	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Several is one draft for several contacts (P4).
type Several struct {
	Draft  manifest.Draft     `json:"draft"`
	To     []string           `json:"to"`
	Kind   manifest.GroupKind `json:"kind"`
	Need   int64              `json:"need,omitempty"` // of a quorum: owners who must deliver the same
	DryRun bool               `json:"dryRun"`
	ID     string             `json:"id,omitempty"` // as of a Proposal
}

// Joint is what came of it: a task for each contact, all or none.
type Joint struct {
	Group  string          `json:"group"`
	Tasks  []Proposed      `json:"tasks"`
	Total  manifest.Meters `json:"total"` // what all tasks together may use
	Joined bool            `json:"joined,omitempty"`
}

// errDry takes a turn back: a dry run does all that the real one would, and keeps nothing.
var errDry = errors.New("dry run")

// ProposeSeveral makes a contract for each contact from one draft, in one turn:
// what the rules refuse for one of them is refused whole. The owner is asked
// about each, since each is signed by itself.
func (g *Gateway) ProposeSeveral(ctx context.Context, by Caller, in Several) (out Joint, err error) {
	if in.Kind == manifest.Race {
		in.Need = 1
	}
	if n := len(in.To); n < 2 || n > policy.MaxGroup { // before files are measured for each
		return out, spec.Refuse(spec.Malformed, "/to", "P4: 2 to 10 contacts")
	}
	var refs []manifest.ArtifactRef
	var files []string
	for _, to := range in.To { // may_send is each contact's own
		if refs, files, err = g.importInputs(ctx, by, Proposal{Draft: in.Draft, To: to}); err != nil {
			g.keepRefused(ctx, err)
			return out, err
		}
	}
	if out.Group, err = g.mint("grp_", g.Now()); err != nil {
		return out, err
	}
	err = g.turn(ctx, func(t *turn) error {
		rows, err := t.rowsFor(by, in, refs, files)
		if err != nil {
			return err
		}
		c, err := callOfSeveral(by, in, rows, refs)
		if err != nil {
			return err
		}
		if known, ok, err := t.joinGroup(by, c); err != nil || ok {
			if err == nil {
				out, err = t.joinedGroup(known)
			}
			return err
		}
		if err := t.proposeAll(&out, by, in, rows); err != nil {
			return err
		}
		if in.DryRun {
			return errDry
		}
		return t.called(c, out.Group)
	})
	if errors.Is(err, errDry) {
		err = nil
		for i := range out.Tasks {
			out.Tasks[i].Ask, out.Tasks[i].Sent, out.Tasks[i].InLine = "", false, false
		}
	}
	return out, err
}

// rowsFor are the tasks of a group before anything of them is kept.
func (t *turn) rowsFor(by Caller, in Several, refs []manifest.ArtifactRef, files []string) (rows []taskRow, err error) {
	for _, to := range in.To {
		id, err := t.g.newTaskID(t.now)
		if err != nil {
			return nil, err
		}
		row, err := t.newRow(by, Proposal{Draft: in.Draft, To: to}, id, refs, files)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// proposeAll writes down what belongs together, and then says each or asks about it.
func (t *turn) proposeAll(out *Joint, by Caller, in Several, rows []taskRow) error {
	g := groupRow{ID: out.Group, Kind: in.Kind, Need: in.Need, Agent: by.Agent, At: t.now}
	for i := range rows {
		rows[i].Group, rows[i].Together = g.ID, in.Kind
		g.Tasks = append(g.Tasks, rows[i].Key.String())
		if err := t.putRow(rows[i]); err != nil {
			return err
		}
	}
	if err := g.law(rows, t.now).Check(); err != nil {
		return err
	}
	out.Total = total(rows)
	if err := errors.Join(groups.Put(t.Tx, g.ID, string(policy.GroupOpen), g), t.recordGroup(g)); err != nil {
		return err
	}
	for i := range rows {
		p, err := t.sayProposal(&rows[i])
		if err != nil {
			return spec.At("/to/"+itoa(i), err)
		}
		out.Tasks = append(out.Tasks, p)
	}
	return nil
}

// callOfSeveral is what makes two such calls one (G8).
func callOfSeveral(by Caller, in Several, rows []taskRow, refs []manifest.ArtifactRef) (c call, err error) {
	if len(in.ID) > maxCallID {
		return c, spec.Refuse(spec.TooLarge, "/id", "64 characters")
	}
	peers := make([]signing.DID, len(rows))
	for i, r := range rows {
		peers[i] = r.Peer
	}
	raw, err := json.Marshal(struct {
		To    []signing.DID          `json:"to"`
		Kind  manifest.GroupKind     `json:"kind"`
		Need  int64                  `json:"need"`
		Draft manifest.Draft         `json:"draft"`
		Files []manifest.ArtifactRef `json:"files"`
	}{peers, in.Kind, in.Need, in.Draft, refs})
	if err != nil {
		return c, &spec.Error{Reason: spec.Malformed, Err: err}
	}
	v, err := jcs.Canonicalize(raw)
	return call{by: by, id: in.ID, subject: signing.DigestOf(v.Bytes()), dry: in.DryRun}, err
}

// joinGroup finds the group of the same call: by id for ever, by subject while nothing of it was said.
func (t *turn) joinGroup(by Caller, c call) (g groupRow, ok bool, err error) {
	if c.key() == "" {
		return g, false, nil
	}
	known, ok, err := calls.Get(t.Tx, c.key())
	if err != nil || !ok {
		return g, false, err
	}
	if c.id != "" && known.Subject != c.subject {
		return g, false, spec.Refuse(spec.Conflict, "/id", "this id was given to another request")
	}
	if g, ok, err = groups.Get(t.Tx, known.Task); err != nil || !ok || c.id != "" {
		return g, ok, err
	}
	for _, key := range g.Tasks {
		row, err := t.row(key)
		if err != nil || !row.Task.IsZero() || row.Dropped != "" {
			return g, false, err
		}
	}
	return g, true, nil
}

// joinedGroup is the answer to a call that was made before.
func (t *turn) joinedGroup(g groupRow) (out Joint, err error) {
	out = Joint{Group: g.ID, Joined: true}
	var rows []taskRow
	for _, key := range g.Tasks {
		row, err := t.row(key)
		if err != nil {
			return out, err
		}
		p, err := t.joined(row)
		if err != nil {
			return out, err
		}
		rows, out.Tasks = append(rows, row), append(out.Tasks, p)
	}
	out.Total = total(rows)
	return out, nil
}
