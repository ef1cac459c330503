package gateway

import (
	"context"
	"maps"
	"slices"
	"time"

	"sealbridge/gateway/artifact"
	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/signing"
	"sealbridge/spec"
)

// outgoing are the files of ours that the other side may have now: inputs once
// accepted is in our chain, outputs once delivered is (R5).
func (t *turn) outgoing(row taskRow) (refs []manifest.ArtifactRef, revision int64, err error) {
	if row.Role == manifest.Requester {
		if row.Task.Accepted() == nil || row.Breach != "" {
			return nil, 0, nil
		}
		if row.Task.State() == task.Working && len(row.Answers) > 0 { // its inputs are there
			return row.Answers[max(0, len(row.Answers)-maxAnswersSent):], answerRevision, nil
		}
		return row.Task.Manifest().IO.InputArtifacts, 0, nil
	}
	d := row.Task.Delivery()
	if d == nil || row.Task.State() != task.Delivered {
		return nil, 0, nil
	}
	full, err := t.deliveryOf(row)
	return full.Artifacts, d.Revision, err
}

// answerRevision marks transfers of tools' answers among those of a task: they
// are wanted while it works.
const answerRevision = -1

// maxAnswersSent are looked at again: one artifact-keys holds 100 files, and what came before is there.
const maxAnswersSent = 50

// The sender looks whether the relay still has what the recipient has not
// confirmed, so that one that lost its store is given it again: soon, and then
// ever more seldom, because a delivery can wait for a person for days.
const (
	lookAgain = 2 * time.Minute
	lookLast  = 6 * time.Hour
)

// looks is the body of an upload that only looks: how often it has.
type looks struct {
	N int `json:"n"`
}

func (l looks) pause() time.Duration { return min(lookAgain<<min(l.N, 10), lookLast) }

// doUpload seals each file once, brings the relay the chunks that it does not
// have, and sends the keys.
func (g *Gateway) doUpload(ctx context.Context, jb journal.Job) error {
	var row taskRow
	var refs []manifest.ArtifactRef
	var revision int64
	err := g.view(ctx, func(t *turn) (err error) {
		if row, err = t.row(jb.Key); err == nil && row.Task.Outcome(t.now) == "" {
			refs, revision, err = t.outgoing(row)
		}
		return err
	})
	if err != nil || len(refs) == 0 {
		return err
	}
	moving, done := g.move(ctx, jb)
	defer done()
	err = g.upload(moving, jb.Key, row, refs, revision)
	if g.stall(jb.Key, err); err != nil {
		return err
	}
	return g.turn(ctx, func(t *turn) error {
		if err := t.sendKeys(jb.Key, refs, revision); err != nil {
			return err
		}
		if err := t.Settle(jobUpload, jb.Key); err != nil {
			return err
		}
		var l looks
		if len(jb.Body) > 0 {
			if l, err = body[looks](jb); err != nil {
				return err
			}
		}
		return t.oweAt(jobUpload, jb.Key, t.now.Add(l.pause()), looks{l.N + 1})
	})
}

func (g *Gateway) upload(ctx context.Context, key string, row taskRow, refs []manifest.ArtifactRef, revision int64) error {
	at, err := g.partner(ctx, row.Peer)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		tr, err := g.transfer(ctx, key, row, ref, revision)
		if err != nil {
			return err
		}
		if err := g.Files.Upload(ctx, counted{at, g}, g.Agent.DID(), row.Task.Agent(row.Role.Other()), tr); err != nil {
			return err
		}
	}
	return nil
}

// transfer finds the sealed form of a file, or seals it and writes that down first.
func (g *Gateway) transfer(ctx context.Context, key string, row taskRow, ref manifest.ArtifactRef, revision int64) (tr artifact.Transfer, err error) {
	if s, ok := sentRow(row, ref, revision); ok {
		return artifact.Incoming(s.Key, ref)
	}
	if tr, err = g.Files.Seal(ctx, ref.Digest, g.Chance); err != nil {
		return tr, err
	}
	err = g.turn(ctx, func(t *turn) error {
		row, err := t.row(key)
		if err != nil {
			return err
		}
		row.Sent = append(slices.Clip(row.Sent), transferRow{Key: tr.FileKey(), Size: ref.SizeBytes, Revision: revision})
		return t.putRow(row)
	})
	return tr, err
}

// sendKeys hands over the keys of files whose chunks are all at the relay.
func (t *turn) sendKeys(key string, refs []manifest.ArtifactRef, revision int64) error {
	row, err := t.row(key)
	if err != nil {
		return err
	}
	if sent(row, refs, revision) {
		return nil // the keys are on their way already
	}
	wanted := map[signing.Digest]bool{}
	for _, r := range refs {
		wanted[r.Digest] = true
	}
	doc := &manifest.ArtifactKeys{Type: "sealbridge/artifact-keys", ProtocolVersion: manifest.ProtocolVersion, TaskID: row.Key.ID,
		ManifestDigest: row.Task.ManifestDigest(), AgentDid: t.g.Agent.DID(), At: signing.TimeOf(t.now)}
	row.Sent = slices.Clone(row.Sent)
	for i, s := range row.Sent {
		if wanted[s.Key.Digest] && s.Revision == revision {
			row.Sent[i].Up = true
			doc.Files = append(doc.Files, s.Key)
			delete(wanted, s.Key.Digest)
		}
	}
	if len(wanted) > 0 || len(doc.Files) == 0 {
		return spec.Refuse(spec.Internal, "", "a file without a transfer")
	}
	v, err := manifest.Sign(doc, t.g.Agent, t.now)
	if err != nil {
		return err
	}
	if err := t.putRow(row); err != nil {
		return err
	}
	return t.send(row.Peer, v.Signed, "", key, 0)
}

// sent says whether every chunk of the files is at the relay, and their keys on the way.
func sent(row taskRow, refs []manifest.ArtifactRef, revision int64) bool {
	for _, r := range refs {
		if s, ok := sentRow(row, r, revision); !ok || !s.Up {
			return false
		}
	}
	return true
}

func sentRow(row taskRow, ref manifest.ArtifactRef, revision int64) (transferRow, bool) {
	for _, s := range row.Sent {
		if s.Key.Digest == ref.Digest && s.Revision == revision {
			return s, true
		}
	}
	return transferRow{}, false
}

// keysCame keeps the keys of files that the contract or a delivery promised.
func (t *turn) keysCame(v manifest.Verified, d *manifest.ArtifactKeys) error {
	for _, o := range []signing.DID{v.Owner(), t.g.Owner} {
		key := manifest.TaskKey{Owner: o, ID: d.TaskID}.String()
		row, ok, err := tasks.Get(t.Tx, key)
		if err != nil {
			return err
		}
		if !ok || row.Peer != v.Owner() || row.Task.ManifestDigest() != d.ManifestDigest {
			continue
		}
		if row.Task.Agent(row.Role.Other()) != d.AgentDid {
			return spec.Refuse(spec.WrongSigner, "/agentDid", "S6: not the task's agent")
		}
		row.Keys = mergeKeys(row.Keys, d.Files)
		if err := t.putRow(row); err != nil {
			return err
		}
		if err := t.confirmDocument(v); err != nil {
			return err
		}
		return t.wants(row)
	}
	return spec.Refuse(spec.NotFound, "/taskId", "task")
}

// maxKeys bounds the keys that a task may bring: inputs, or the outputs of every revision.
const maxKeys = 1100

func mergeKeys(have, more []manifest.FileKey) []manifest.FileKey {
	for _, k := range more {
		known := false
		for _, h := range have {
			known = known || h == k
		}
		if !known && len(have) < maxKeys {
			have = append(slices.Clip(have), k)
		}
	}
	return have
}

// doFetch brings the files of the other side into quarantine; each is checked before it counts.
func (g *Gateway) doFetch(ctx context.Context, jb journal.Job) error {
	var row taskRow
	var refs []manifest.ArtifactRef
	err := g.view(ctx, func(t *turn) (err error) {
		if row, err = t.row(jb.Key); err != nil || row.Task.Outcome(t.now) != "" {
			return err
		}
		refs, err = t.incoming(row)
		return err
	})
	if err != nil {
		return err
	}
	moving, done := g.move(ctx, jb)
	defer done()
	for _, ref := range refs {
		if row.Here[ref.Digest.String()] {
			continue
		}
		k, ok := keyFor(row.Keys, ref)
		if !ok {
			return nil // their keys are not here yet; they owe this job anew when they come
		}
		tr, err := artifact.Incoming(k, ref)
		if err != nil {
			return err
		}
		err = g.Files.Download(moving, counted{g.Depot, g}, row.Task.Agent(row.Role.Other()), tr)
		if g.stall(jb.Key, err); err != nil {
			return err
		}
		if err := g.turn(ctx, func(t *turn) error { return t.arrived(jb.Key, ref) }); err != nil {
			return err
		}
	}
	return g.turn(ctx, func(t *turn) error {
		row, err := t.row(jb.Key)
		if err != nil {
			return err
		}
		if fetched(row, refs) { // also where there was nothing to fetch
			return t.wants(row)
		}
		return nil
	})
}

func keyFor(keys []manifest.FileKey, ref manifest.ArtifactRef) (manifest.FileKey, bool) {
	for i := len(keys) - 1; i >= 0; i-- {
		if keys[i].Digest == ref.Digest {
			return keys[i], true
		}
	}
	return manifest.FileKey{}, false
}

func (t *turn) incoming(row taskRow) ([]manifest.ArtifactRef, error) {
	if row.Role == manifest.Worker {
		return slices.Concat(row.Task.Manifest().IO.InputArtifacts, row.Answers), nil
	}
	d, err := t.deliveryOf(row)
	return d.Artifacts, err
}

func (t *turn) arrived(key string, ref manifest.ArtifactRef) error {
	row, err := t.row(key)
	if err != nil {
		return err
	}
	if row.Here = maps.Clone(row.Here); row.Here == nil {
		row.Here = map[string]bool{}
	}
	row.Here[ref.Digest.String()] = true
	if err := t.note(key, map[string]string{"file": ref.Digest.String()}); err != nil {
		return err
	}
	return t.putRow(row)
}
