package gateway

import (
	"slices"
	"time"

	"sealbridge/manifest"
)

// CallView is one call on a granted tool, on either side (C4).
type CallView struct {
	ID        string           `json:"callId"`
	Tool      string           `json:"tool"`
	Resources []string         `json:"resources"` // as the caller says
	State     string           `json:"state"`     // sent, ready, running, pending, done, refused, unknown
	Denial    *manifest.Denial `json:"denial,omitempty"`
	Left      int64            `json:"usesLeft"` // of its grant, after it
	At        time.Time        `json:"at"`
}

// callsOf are the calls of a task, oldest first: on our tools, or of our agent.
func (t *turn) callsOf(row taskRow) (out []CallView, err error) {
	out = []CallView{}
	if row.Role == manifest.Requester {
		rows, err := served.Group(t.Tx, row.Key.String())
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if out, err = t.callView(out, ownCall{Call: r.V.Call, Result: r.V.Result, State: r.V.State, At: r.V.At}); err != nil {
				return nil, err
			}
		}
	} else {
		rows, err := ownCalls.Group(t.Tx, row.Key.String())
		if err != nil {
			return nil, err
		}
		for _, r := range rows {
			if out, err = t.callView(out, r.V); err != nil {
				return nil, err
			}
		}
	}
	slices.SortStableFunc(out, func(a, b CallView) int { return a.At.Compare(b.At) })
	return out, nil
}

func (t *turn) callView(out []CallView, o ownCall) ([]CallView, error) {
	c, r, err := t.readCall(o)
	if err != nil {
		return nil, err
	}
	v := CallView{ID: c.CallID.String(), Tool: manifest.Display(c.Tool, 128), State: o.State, Resources: []string{}, At: o.At}
	for _, x := range c.Resources {
		v.Resources = append(v.Resources, x.String())
	}
	if r != nil {
		v.Denial, v.Left = r.Denial, r.UsesLeft
	}
	return append(out, v), nil
}
