package gateway

import (
	"context"
	"maps"
	"slices"

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
		return row.Task.Manifest().IO.InputArtifacts, 0, nil
	}
	d := row.Task.Delivery()
	if d == nil || row.Task.State() != task.Delivered {
		return nil, 0, nil
	}
	full, err := t.deliveryOf(row)
	return full.Artifacts, d.Revision, err
}

// doUpload seals each file once, brings the chunks to the relay and sends the keys.
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
	peer := row.Task.Agent(row.Role.Other())
	at, err := g.partner(ctx, row.Peer)
	if err != nil {
		return err
	}
	sent := 0
	for _, ref := range refs {
		tr, up, err := g.transfer(ctx, jb.Key, row, ref, revision)
		if err != nil {
			return err
		}
		if up {
			sent++
			continue
		}
		if err := g.Files.Upload(ctx, at, peer, tr); err != nil {
			return err
		}
	}
	if sent == len(refs) {
		return nil // the keys are on their way already
	}
	return g.turn(ctx, func(t *turn) error { return t.sendKeys(jb.Key, refs, revision) })
}

// transfer finds the sealed form of a file, or seals it and writes that down first.
func (g *Gateway) transfer(ctx context.Context, key string, row taskRow, ref manifest.ArtifactRef, revision int64) (tr artifact.Transfer, up bool, err error) {
	for _, s := range row.Sent {
		if s.Key.Digest == ref.Digest && s.Revision == revision {
			tr, err = artifact.Incoming(s.Key, ref)
			return tr, s.Up, err
		}
	}
	if tr, err = g.Files.Seal(ctx, ref.Digest, g.Chance); err != nil {
		return tr, false, err
	}
	err = g.turn(ctx, func(t *turn) error {
		row, err := t.row(key)
		if err != nil {
			return err
		}
		row.Sent = append(slices.Clip(row.Sent), transferRow{Key: tr.FileKey(), Size: ref.SizeBytes, Revision: revision})
		return t.putRow(row)
	})
	return tr, false, err
}

// sendKeys hands over the keys of files whose chunks are all at the relay.
func (t *turn) sendKeys(key string, refs []manifest.ArtifactRef, revision int64) error {
	row, err := t.row(key)
	if err != nil {
		return err
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
	from := row.Task.Agent(row.Role.Other())
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
		if err := g.Files.Download(ctx, g.Depot, from, tr); err != nil {
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
		return row.Task.Manifest().IO.InputArtifacts, nil
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
