package gateway

import (
	"context"
	"errors"
	"slices"

	"sealbridge/gateway/artifact"
	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/signing"
	"sealbridge/spec"
)

// TransferView is one file that is on its way.
type TransferView struct {
	Name  string `json:"name"`
	Way   string `json:"way"` // out: to the other side's relay; in: from ours
	Bytes int64  `json:"bytes"`
	Size  int64  `json:"sizeBytes"`
	Why   string `json:"why,omitempty"` // it stands still, and goes on by itself
}

// move is a job under way that ends with its task.
func (g *Gateway) move(ctx context.Context, jb journal.Job) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	id := jb.Kind + " " + jb.Key
	g.mu.Lock()
	g.moves[id] = cancel
	g.mu.Unlock()
	return ctx, func() {
		g.mu.Lock()
		delete(g.moves, id)
		g.mu.Unlock()
		cancel()
	}
}

// counted is a depot whose chunks are counted, as they are in what the gateway
// says of itself: a transfer that was cut sends none of them twice.
type counted struct {
	artifact.Depot
	g *Gateway
}

func (c counted) PutChunk(ctx context.Context, to signing.DID, id string, n int, b []byte) error {
	err := c.Depot.PutChunk(ctx, to, id, n, b)
	if err == nil {
		c.g.count("chunks sent")
	}
	return err
}

func (c counted) GetChunk(ctx context.Context, from signing.DID, id string, n int) ([]byte, error) {
	b, err := c.Depot.GetChunk(ctx, from, id, n)
	if err == nil {
		c.g.count("chunks fetched")
	}
	return b, err
}

// stall keeps in mind why the files of a task stand still; nil: they do not.
func (g *Gateway) stall(key string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var known *spec.Error
	switch {
	case err == nil:
		delete(g.stalls, key)
	case errors.As(err, &known) && known.Limit != "":
		g.stalls[key] = known.Limit
	default:
		g.stalls[key] = string(spec.ReasonOf(err))
	}
}

// transfersOf lists the files of a task that are on their way, either way.
func (t *turn) transfersOf(row taskRow) (out []TransferView, err error) {
	out = []TransferView{}
	if row.Task.IsZero() || row.Task.Outcome(t.now) != "" || row.Task.Broken() {
		return out, nil
	}
	t.g.mu.Lock()
	why := t.g.stalls[row.Key.String()]
	t.g.mu.Unlock()
	add := func(way string, ref manifest.ArtifactRef, k manifest.FileKey) {
		v := TransferView{Name: ref.Name, Way: way, Size: ref.SizeBytes, Why: why}
		if tr, err := artifact.Incoming(k, ref); err == nil {
			v.Bytes = t.g.Files.Progress(tr)
		}
		out = append(out, v)
	}
	refs, revision, err := t.outgoing(row)
	if err != nil {
		return out, err
	}
	for _, ref := range refs {
		if s, _ := sentRow(row, ref, revision); !s.Up {
			add("out", ref, s.Key)
		}
	}
	if !receives(row) {
		return out, nil
	}
	if refs, err = t.incoming(row); err != nil {
		return out, err
	}
	for _, ref := range refs {
		if k, ok := keyFor(row.Keys, ref); ok && !row.Here[ref.Digest.String()] {
			add("in", ref, k)
		}
	}
	return out, nil
}

// receives says whether the task stands where files come to this side.
func receives(row taskRow) bool {
	if row.Role == manifest.Worker {
		return row.Task.State() == task.Accepted
	}
	return row.Task.State() == task.Delivered
}

// over says whether a task needs no file of either side any more.
func (t *turn) over(row taskRow) bool {
	return row.Task.Ended() || row.Task.Broken() || row.Task.Outcome(t.now) != ""
}

// spent lists the sealed files that the other side needs no more: inputs once
// its work has started, an output once it was judged (R5).
func (t *turn) spent(row taskRow) (out []transferRow) {
	d := row.Task.Delivery()
	for _, s := range row.Sent {
		switch {
		case t.over(row),
			row.Role == manifest.Requester && row.Task.State() != task.Accepted && s.Revision != answerRevision,
			row.Role == manifest.Worker && (row.Task.State() != task.Delivered || d == nil || d.Revision != s.Revision):
			out = append(out, s)
		}
	}
	return out
}

// dropTries is how often a relay is asked to drop what it keeps of ours; after
// that it goes by its age.
const dropTries = 20

// doForget ends what is still under way for a task that is over, and drops the
// sealed chunks that nobody needs any more: here and at the relay.
func (g *Gateway) doForget(ctx context.Context, jb journal.Job) error {
	var row taskRow
	var gone []transferRow
	over := false
	err := g.view(ctx, func(t *turn) (err error) {
		if row, err = t.row(jb.Key); err == nil {
			gone, over = t.spent(row), t.over(row)
		}
		return err
	})
	if err != nil {
		return err
	}
	if over && g.ended(jb.Key) {
		return spec.Refuse(spec.Unavailable, "", "what is under way is being ended")
	}
	if err := g.forgetFiles(row, gone, over); err != nil {
		return err
	}
	if len(gone) == 0 {
		return nil
	}
	if err := g.dropChunks(ctx, row, gone); err != nil && jb.Tries < dropTries {
		return err
	}
	return g.turn(ctx, func(t *turn) error {
		row, err := t.row(jb.Key)
		if err != nil {
			return err
		}
		row.Sent = slices.DeleteFunc(slices.Clone(row.Sent), func(s transferRow) bool { return slices.Contains(gone, s) })
		return t.putRow(row)
	})
}

// ended ends what is under way for a task that is over, transfers and checks, and says whether there were any.
func (g *Gateway) ended(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.stalls, key)
	found := false
	for _, kind := range movingJobs {
		if cancel := g.moves[kind+" "+key]; cancel != nil {
			cancel()
			found = true
		}
	}
	return found
}

// movingJobs are those that end with their task.
var movingJobs = []string{jobUpload, jobFetch, jobCheck}

// underWay says whether one of them is being done.
func (g *Gateway) underWay(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, kind := range movingJobs {
		if g.moves[kind+" "+key] != nil {
			return true
		}
	}
	return false
}

func (g *Gateway) forgetFiles(row taskRow, gone []transferRow, over bool) error {
	keys := make([]manifest.FileKey, 0, len(gone))
	for _, s := range gone {
		keys = append(keys, s.Key)
	}
	if over { // what has come of a file that nobody waits for
		keys = append(keys, row.Keys...)
	}
	for _, k := range keys {
		id, err := artifact.ParseTransferID(k.Transfer)
		if err != nil {
			continue // it named no file of ours
		}
		if err := g.Files.Forget(id); err != nil {
			return err
		}
	}
	return nil
}

func (g *Gateway) dropChunks(ctx context.Context, row taskRow, gone []transferRow) error {
	at, err := g.partner(ctx, row.Peer)
	if err != nil {
		return err
	}
	for _, s := range gone {
		if err := at.DropChunks(ctx, s.Key.Transfer); err != nil {
			return err
		}
	}
	return nil
}
