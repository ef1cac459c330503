package gateway

import (
	"context"
	"path/filepath"

	"sealbridge/manifest"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Cancellation ends a task of ours.
type Cancellation struct {
	Task   string `json:"task"`
	Reason string `json:"reason"`
}

// Cancel ends a task that we asked for; a second time it is a harmless repeat (B020).
func (g *Gateway) Cancel(ctx context.Context, by Caller, in Cancellation) (out TaskView, err error) {
	in.Reason = orWhy(in.Reason, "not needed any more")
	err = g.turn(ctx, func(t *turn) error {
		row, err := t.find(by, in.Task)
		if spec.ReasonOf(err) == spec.NotFound { // a group ends whole
			if g, no := t.findGroup(by, in.Task); no == nil {
				if row, err = t.endGroup(g, in.Reason); err == nil {
					out, err = t.taskView(row, true)
				}
				return err
			}
		}
		if err != nil {
			return err
		}
		if row.Role != manifest.Requester {
			return spec.Refuse(spec.NotPermitted, "", "H4: the requester ends a task; deny its gate, or block the contact")
		}
		switch {
		case row.Task.IsZero() && row.Dropped == "":
			if err = t.drop(&row, "the task was cancelled"); err == nil {
				err = t.grouped(row)
			}
		case !row.Task.IsZero() && row.Task.Outcome(t.now) == "":
			_, err = t.say(&row, manifest.Cancelled{Reason: cut(in.Reason, 1000)})
		}
		if err == nil {
			out, err = t.taskView(row, true)
		}
		return err
	})
	return out, err
}

// Fetch asks for a result, or for quarantined files.
type Fetch struct {
	Task string `json:"task"`
	Ask  string `json:"ask"` // instead of Task: the files of the delivery that this ask is about
	Dir  string `json:"dir"` // a new folder, made here
}

// Fetched is what was handed over.
type Fetched struct {
	Ready  bool      `json:"ready"`
	Task   TaskView  `json:"task"`
	Output jcs.Value `json:"output"`
	Files  []string  `json:"files"`
}

// Result hands over what was released: the bytes that were checked and accepted (V2, V3a).
func (g *Gateway) Result(ctx context.Context, by Caller, in Fetch) (out Fetched, err error) {
	if in.Dir != "" && by != Owner { // V3a: never into a folder that an agent names
		return out, spec.Refuse(spec.NotPermitted, "/dir", "V3a: an agent reads the files of a result, it names no folder")
	}
	var d manifest.Delivery
	err = g.view(ctx, func(t *turn) error {
		row, err := t.find(by, in.Task)
		if err != nil {
			return err
		}
		if out.Task, err = t.taskView(row, false); err != nil || !row.Released {
			return err
		}
		out.Ready = true
		d, err = t.deliveryOf(row)
		return err
	})
	if err != nil || !out.Ready {
		return out, err
	}
	out.Output = d.Output
	return out, g.handOver(ctx, in.Dir, d, &out)
}

// resultFile holds the structured output beside the files of a delivery.
const resultFile = "result.json"

// handOver writes a delivery's files and its result.json into a new folder.
func (g *Gateway) handOver(ctx context.Context, dir string, d manifest.Delivery, out *Fetched) error {
	out.Files = []string{}
	if dir == "" {
		return nil
	}
	files, err := g.withResult(ctx, d)
	if err != nil {
		return err
	}
	if err := g.Files.Release(ctx, dir, files); err != nil {
		return err
	}
	for _, f := range files {
		out.Files = append(out.Files, f.Name)
	}
	return nil
}

// EvidenceFiles hands the person the files that a task's evidence names, as far
// as this gateway holds them and they are the person's to hand on: inputs, and a
// delivery of our own or one that was released (G14).
func (g *Gateway) EvidenceFiles(ctx context.Context, by Caller, in Fetch) (out Fetched, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	if in.Dir == "" {
		return out, spec.Refuse(spec.Malformed, "/dir", "a new folder")
	}
	var inputs []manifest.ArtifactRef
	var d manifest.Delivery
	err = g.view(ctx, func(t *turn) error {
		row, err := t.find(by, in.Task)
		if err != nil || row.Task.IsZero() {
			return err
		}
		if inputs = row.Task.Manifest().IO.InputArtifacts; row.Role == manifest.Worker && !fetched(row, inputs) {
			inputs = nil
		}
		if row.Task.Delivery() == nil || row.Role == manifest.Requester && !row.Released {
			return nil
		}
		out.Ready = true
		d, err = t.deliveryOf(row)
		return err
	})
	if err != nil {
		return out, err
	}
	if err := g.Files.Release(ctx, filepath.Join(in.Dir, "inputs"), inputs); err != nil {
		return out, err
	}
	if !out.Ready {
		out.Files = []string{}
		return out, nil
	}
	return out, g.handOver(ctx, filepath.Join(in.Dir, "delivered"), d, &out)
}

// Quarantined hands the person the files of a delivery before the decision (G14).
func (g *Gateway) Quarantined(ctx context.Context, by Caller, in Fetch) (out Fetched, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	var d manifest.Delivery
	if err := g.turn(ctx, func(t *turn) (err error) { d, err = t.opened(in.Ask); return err }); err != nil {
		return out, err
	}
	out.Ready, out.Output = true, d.Output
	return out, g.handOver(ctx, in.Dir, d, &out)
}
