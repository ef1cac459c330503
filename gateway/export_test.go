package gateway

import "context"

// Unacknowledged counts what of a task the other side has not acknowledged: the
// narrowest question there is, for a benchmark that must not measure its own asking.
func (g *Gateway) Unacknowledged(ctx context.Context, id string) (n int, err error) {
	err = g.view(ctx, func(t *turn) error {
		row, err := t.find(Owner, id)
		if err == nil {
			n, err = outbox.Count(t.Tx, row.Key.String())
		}
		return err
	})
	return n, err
}

// Denials counts what is kept of refusals.
func (g *Gateway) Denials() (n int) {
	err := g.view(context.Background(), func(t *turn) (err error) {
		n, err = denials.Count(t.Tx, "")
		return err
	})
	if err != nil {
		panic(err)
	}
	return n
}

// StandsStill says whether the run of a task is written down as standing still.
func (g *Gateway) StandsStill(id string) (still bool) {
	err := g.view(context.Background(), func(t *turn) error {
		row, err := t.find(Owner, id)
		still = row.Still.Holds > 0
		return err
	})
	return err == nil && still
}
