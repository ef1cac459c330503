package gateway

import (
	"context"
	"time"

	"sealbridge/policy/approval"
)

// AskView is one ask as people see it.
type AskView struct {
	Ask    approval.Ask `json:"ask"`
	State  string       `json:"state"` // open, allowed, denied, expired, withdrawn
	Task   string       `json:"task"`
	At     time.Time    `json:"at"`
	Closed time.Time    `json:"closed"`
	Why    string       `json:"why,omitempty"` // of a no, the person's words; else what took the ask away
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
			if state := r.stateAt(t.now); all || state == approval.Waiting {
				out = append(out, AskView{r.Ask, string(state), r.Ask.TaskID.String(), r.At, r.Closed, r.Why})
			}
		}
		return err
	})
	return out, err
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
