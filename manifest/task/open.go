package task

import (
	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// open makes the task that a proposal proposes. It looks at no signature.
func open(ev manifest.Event, p manifest.Proposed) (Task, error) {
	var m manifest.TaskManifest
	if err := jcs.Decode(p.Manifest, &m); err != nil {
		return Task{}, spec.At("/body/manifest", err)
	}
	digest := signing.DigestOf(p.Manifest.Bytes())
	switch {
	case m.Signatures != nil:
		return Task{}, spec.Refuse(spec.Malformed, "/body/manifest/signatures", "S1: the payload alone")
	case digest != ev.ManifestDigest:
		return Task{}, spec.Refuse(spec.BadDigest, "/manifestDigest", "S8")
	case m.TaskID != ev.TaskID:
		return Task{}, spec.Refuse(spec.Malformed, "/taskId", "M11")
	case m.Worker == nil:
		return Task{}, spec.Refuse(spec.Malformed, "/body/manifest/worker", "M10: an open proposal binds nobody")
	case m.Requester.OwnerDid == m.Worker.OwnerDid || m.Requester.AgentDid == m.Worker.AgentDid:
		return Task{}, spec.Refuse(spec.Malformed, "/body/manifest/worker/ownerDid", "M7: two owners")
	case ev.Author == m.Worker.AgentDid:
		return Task{}, &GapError{Author: m.Requester.AgentDid, Need: 1} // an event of the task, and illegal once it is there
	case ev.Author != m.Requester.AgentDid:
		return Task{}, spec.Refuse(spec.WrongSigner, "/author", "S6")
	case ev.Seq != 1 || ev.Prev != nil || ev.Seen != nil:
		return Task{}, spec.Refuse(spec.Malformed, "/seq", "H1")
	case !ev.At.Time().Before(m.Deadline.Time()):
		return Task{}, spec.Refuse(spec.Expired, "/body/manifest/deadline", "M1: in the future when proposed")
	}
	t := blank(p.Manifest, digest, m)
	t.passes = kept(p.Passes)
	return t, nil
}

// blank is the task of a manifest before its first event.
func blank(payload jcs.Value, digest signing.Digest, m manifest.TaskManifest) Task {
	t := Task{key: manifest.TaskKey{Owner: m.Requester.OwnerDid, ID: m.TaskID}, digest: digest, payload: payload, read: &m}
	t.agents[0] = m.Requester.AgentDid
	if m.Worker != nil {
		t.agents[1] = m.Worker.AgentDid
	}
	t.f = start(m, digest)
	return t
}
