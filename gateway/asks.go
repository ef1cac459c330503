package gateway

import (
	"context"
	"sealbridge/policy/approval"
	"time"
)

// AskView is one ask as people see it.
type AskView struct {
	Ask    approval.Ask `json:"ask"`
	State  string       `json:"state"`
	Task   string       `json:"task"`
	At     time.Time    `json:"at"`
	Closed time.Time    `json:"closed"`
}

// Asks lists what waits for a person; all says also what was settled.
func (g *Gateway) Asks(ctx context.Context, by Caller, all bool) (out []AskView, err error) {
	if err := by.Person(); err != nil {
		return nil, err
	}
	out = []AskView{}
	err = g.view(ctx, func(t *turn) error {
		rows, err := asks.All(t.Tx)
		for _, r := range rows {
			if all || r.V.State == string(approval.Waiting) {
				out = append(out, AskView{r.V.Ask, r.V.State, r.V.Ask.TaskID.String(), r.V.At, r.V.Closed})
			}
		}
		return err
	})
	return out, err
}
