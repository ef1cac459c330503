package gateway

import (
	"context"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

// AskView is one ask as people see it.
type AskView struct {
	Ask    approval.Ask `json:"ask"`
	State  string       `json:"state"` // open, allowed, denied, expired, withdrawn
	Task   string       `json:"task"`
	At     time.Time    `json:"at"`
	Closed time.Time    `json:"closed"`
	Why    string       `json:"why,omitempty"`   // of a no, the person's words; else what took the ask away
	Votes  int64        `json:"votes,omitempty"` // yeses so far of an open ask that needs several (G5)
}

// Asks lists what waits for a person; all says also what was settled.
func (g *Gateway) Asks(ctx context.Context, by Caller, all bool) (out []AskView, err error) {
	if err := by.Person(); err != nil {
		return nil, err
	}
	out = []AskView{}
	err = g.view(ctx, func(t *turn) error {
		rows, err := t.askRows(all)
		for _, r := range rows {
			if v := t.askView(r); all || v.State == string(approval.Waiting) {
				out = append(out, v)
			}
		}
		return err
	})
	return out, err
}

// Ask shows one ask by its id, or any ending of it that is unique.
func (g *Gateway) Ask(ctx context.Context, by Caller, id string) (out AskView, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	err = g.view(ctx, func(t *turn) error {
		r, err := t.findAsk(id)
		if err == nil {
			out = t.askView(r)
		}
		return err
	})
	return out, err
}

// findAsk resolves an ending of at least four characters: among what waits,
// whose small rows are read first, else among all that was ever asked.
func (t *turn) findAsk(ref string) (askRow, error) {
	if r, ok, err := asks.Get(t.Tx, ref); err != nil || ok {
		return r, err
	}
	if len(ref) < 4 {
		return askRow{}, spec.Refuse(spec.NotFound, "", "an ending of at least four characters")
	}
	ends := func(key string) bool { return strings.HasSuffix(strings.ToLower(key), strings.ToLower(ref)) }
	open, err := waiting.All(t.Tx)
	if err != nil {
		return askRow{}, err
	}
	var found []string
	for _, r := range open {
		if ends(r.Key) {
			found = append(found, r.Key)
		}
	}
	if len(found) == 0 {
		rows, err := asks.All(t.Tx)
		if err != nil {
			return askRow{}, err
		}
		for _, r := range rows {
			if ends(r.Key) {
				found = append(found, r.Key)
			}
		}
	}
	switch len(found) {
	case 0:
		return askRow{}, spec.Refuse(spec.NotFound, "", "no question ends in "+manifest.Display(ref, 40))
	case 1:
		r, _, err := asks.Get(t.Tx, found[0])
		return r, err
	}
	return askRow{}, spec.Refuse(spec.Conflict, "", "more than one question ends in "+manifest.Display(ref, 40))
}

func (t *turn) askView(r askRow) AskView {
	return AskView{r.Ask, string(r.stateAt(t.now)), r.Ask.TaskID.String(), r.At, r.Closed, r.Why, approval.Yeses(r.Ask, t.votes(r), t.now)}
}

// askRows reads the open asks, or all.
func (t *turn) askRows(all bool) (out []askRow, err error) {
	if all {
		rows, err := asks.All(t.Tx)
		for _, r := range rows {
			out = append(out, r.V)
		}
		return out, err
	}
	open, err := waiting.All(t.Tx)
	for _, w := range open {
		r, ok, err := asks.Get(t.Tx, w.Key)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, r)
		}
	}
	return out, err
}
