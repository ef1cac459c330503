package gateway

import (
	"context"
	"errors"
	"strconv"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/relay"
	"sealbridge/signing"
	"sealbridge/signing/box"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func itoa[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

const inFlight = 64 // envelopes opened at once: all cores, bounded memory

// collect takes mail until ctx ends.
func (g *Gateway) collect(ctx context.Context) {
	for ctx.Err() == nil {
		if err := g.Courier.Receive(ctx, inFlight, g.take); err != nil && ctx.Err() == nil {
			g.Log.Warn("collecting mail", "error", err)
			wait(ctx, time.Second)
		}
	}
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// take opens one envelope: arithmetic outside the turn, belief inside. Whoever
// is unknown or cannot be read gets silence and a counter (E).
func (g *Gateway) take(ctx context.Context, envelope []byte) relay.Verdict {
	s, err := g.open(envelope)
	if err != nil {
		g.count("dropped " + string(spec.ReasonOf(err)))
		g.Log.Info("dropped an envelope", "word", spec.ReasonOf(err))
		return relay.Term
	}
	err = g.turn(ctx, func(t *turn) error { return t.receive(s) })
	var known *spec.Error
	switch {
	case err == nil:
		return relay.Ack
	case errors.As(err, &known) && known.Reason != spec.Internal && known.Reason != spec.Unavailable:
		g.count("refused " + string(known.Reason))
		g.Log.Info("refused a document", "type", manifest.TypeName(s.Wire()), "word", known.Reason, "path", known.Path, "limit", known.Limit)
		return relay.Ack
	}
	if ctx.Err() == nil {
		g.Log.Error("keeping a document", "error", err)
	}
	return relay.Nak
}

// open is all that needs no state.
func (g *Gateway) open(envelope []byte) (manifest.Signed, error) {
	now := g.Now()
	ring, err := g.Secrets.Keyring(now)
	if err != nil {
		return manifest.Signed{}, err
	}
	h, plain, err := ring.Open(envelope)
	if err != nil {
		return manifest.Signed{}, err
	}
	if !now.Before(h.ExpiresAt.Time()) { // R6
		return manifest.Signed{}, spec.Refuse(spec.Expired, "/expiresAt", "R6")
	}
	l, err := box.ReadLetter(plain)
	if err != nil {
		return manifest.Signed{}, err
	}
	s, err := manifest.OpenValue(l.Document, g.keys)
	if err != nil {
		return s, err
	}
	if l.To != g.Agent.DID() || l.From != s.By() {
		return s, spec.Refuse(spec.WrongSigner, "/from", "R1")
	}
	return s, l.Check(h, s.Digest())
}

// receive is the turn of a document that came.
func (t *turn) receive(s manifest.Signed) error {
	if r, ok := s.Document().(*manifest.ContactRequest); ok {
		return t.redeemed(s, r)
	}
	if old, ok, err := replies.Get(t.Tx, s.Digest().String()); err != nil || ok {
		if err != nil {
			return err
		}
		if may, err := t.mayRefuse(old.To); err != nil || !may {
			return err
		}
		return t.owe(jobReply, s.Digest().String(), old) // the same answer on repetition
	}
	v, err := t.trust.Admit(s, t.now)
	if err == nil {
		err = t.admitted(v)
	}
	return t.answerTo(s, err)
}

// answerTo refuses to a contact what cannot be kept, by a signed word; a
// stranger hears nothing.
func (t *turn) answerTo(s manifest.Signed, err error) error {
	var known *spec.Error
	var gap *task.GapError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &gap), spec.ReasonOf(err) == spec.CertificateExpired: // H1, H11: it waits at the sender
		return t.askAgain(s)
	case !errors.As(err, &known), known.Reason == spec.Internal:
		return err
	}
	owner, ok := t.trust.OwnerOf(s.By())
	if !ok || t.trust.Contacts[owner].Blocked || known.Reason == spec.UnknownKey {
		t.g.count("silent " + string(known.Reason))
		return nil
	}
	switch s.Document().(type) {
	case *manifest.Acknowledgement, *manifest.Refusal: // neither is answered
		return nil
	}
	t.g.Log.Info("refusing", "type", manifest.TypeName(s.Wire()), "word", known.Reason, "path", known.Path, "limit", known.Limit)
	if err := t.keepRefusal(t.refusedOf(s, owner, known)); err != nil {
		return err
	}
	if may, err := t.mayRefuse(owner); err != nil || !may {
		return err
	}
	return t.refuse(owner, s, known)
}

// refusedOf is what the owner can read of a document that is not kept.
func (t *turn) refusedOf(s manifest.Signed, from signing.DID, why *spec.Error) (group string, r Refusal) {
	r = Refusal{With: from, Name: t.trust.Contacts[from].Name, By: byLaw, What: manifest.TypeName(s.Wire()), Word: why.Reason, Path: cut(why.Path, 500), Limit: cut(why.Limit, 200), At: t.now}
	e, ok := s.Document().(*manifest.Event)
	if !ok {
		return "", r
	}
	r.What = string(e.Body.Fact.Kind())
	for _, o := range []signing.DID{from, t.g.Owner} {
		key := manifest.TaskKey{Owner: o, ID: e.TaskID}.String()
		if row, ok, err := tasks.Get(t.Tx, key); err == nil && ok && row.Peer == from {
			group, r.Task = key, e.TaskID.String()
		}
	}
	return group, r
}

func (t *turn) refuse(owner signing.DID, s manifest.Signed, why *spec.Error) error {
	v, err := manifest.Sign(&manifest.Refusal{Type: "sealbridge/refusal", ProtocolVersion: manifest.ProtocolVersion, To: s.By(),
		Digest: s.Digest(), Reason: string(why.Reason), Path: cut(why.Path, 500), Limit: cut(why.Limit, 200), At: signing.TimeOf(t.now),
		Revocations: t.revocations()}, t.g.Agent, t.now)
	if err != nil {
		return err
	}
	row := replyRow{owner, v.Wire()}
	if err := replies.Put(t.Tx, s.Digest().String(), "", row); err != nil {
		return err
	}
	return t.owe(jobReply, s.Digest().String(), row)
}

func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}

// revocations is our signed "nothing newer" (I7).
func (t *turn) revocations() manifest.RevocationMark {
	return manifest.RevocationMark{Seq: t.trust.Contacts[t.g.Owner].Revocations, At: signing.TimeOf(t.now)}
}

// askAgain asks for what is missing of a task by saying what we have (R4).
func (t *turn) askAgain(s manifest.Signed) error {
	e, ok := s.Document().(*manifest.Event)
	owner, known := t.trust.OwnerOf(s.By())
	if !ok || !known {
		return nil
	}
	for _, o := range []signing.DID{owner, t.g.Owner} {
		key := manifest.TaskKey{Owner: o, ID: e.TaskID}.String()
		if row, there, err := tasks.Get(t.Tx, key); err != nil || there && row.Peer == owner {
			if err != nil {
				return err
			}
			return t.owe(jobAck, key, nil)
		}
	}
	return nil
}

// admitted does what a verified document says.
func (t *turn) admitted(v manifest.Verified) error {
	if t.trust.Contacts[v.Owner()].Introduced() {
		if err := fromIntroduced(v.Document()); err != nil {
			return err
		}
	}
	switch d := v.Document().(type) {
	case *manifest.Event:
		return t.hear(v, d)
	case *manifest.Acknowledgement:
		return t.acknowledged(v, d)
	case *manifest.Refusal:
		return t.refused(v, d)
	case *manifest.ArtifactKeys:
		return t.keysCame(v, d)
	case *manifest.HistoryRequest:
		return t.history(v, d)
	case *manifest.ToolCall:
		return t.callFor(v, d)
	case *manifest.ToolResult:
		return t.resultOf(v, d)
	case *manifest.TaskManifest:
		return t.offered(v, d)
	case *manifest.Claim:
		return t.claimed(v, d)
	case *manifest.AgentCertificate, *manifest.BoxKey, *manifest.Revocation:
		return t.identity(v)
	}
	return spec.Refuse(spec.UnknownType, "/type", "not expected from another gateway")
}

// identity folds an identity document and acknowledges it.
func (t *turn) identity(v manifest.Verified) error {
	next, err := t.trust.Apply(v)
	if err != nil {
		return err
	}
	if err := t.append(recDocument, v.Owner().String(), v.Wire().Bytes()); err != nil {
		return err
	}
	if err := t.setTrust(next); err != nil {
		return err
	}
	if v.Owner() == t.g.Owner {
		return nil
	}
	return t.confirmDocument(v)
}

// confirmDocument acknowledges a document that is no event, by its digest.
func (t *turn) confirmDocument(v manifest.Verified) error {
	a, ok := t.trust.Agents[t.trust.Contacts[v.Owner()].Agent]
	if !ok {
		return nil
	}
	ack, err := manifest.Sign(&manifest.Acknowledgement{Type: "sealbridge/acknowledgement", ProtocolVersion: manifest.ProtocolVersion,
		To: a.Certificate.AgentDid, Documents: []signing.Digest{v.Digest()}, At: signing.TimeOf(t.now), Revocations: t.revocations()}, t.g.Agent, t.now)
	if err != nil {
		return err
	}
	return t.owe(jobReply, v.Digest().String(), replyRow{v.Owner(), ack.Wire()})
}

// acknowledged lets go of what the other side keeps now (R4).
func (t *turn) acknowledged(v manifest.Verified, a *manifest.Acknowledgement) error {
	if a.To != t.g.Agent.DID() {
		return spec.Refuse(spec.WrongSigner, "/to", "S6")
	}
	if err := t.hears(v.Owner(), a.Revocations); err != nil {
		return err
	}
	for _, d := range a.Documents {
		if err := t.settleOut(d, v.Owner()); err != nil {
			return err
		}
	}
	if a.Task == nil {
		return nil
	}
	for _, o := range []signing.DID{v.Owner(), t.g.Owner} {
		key := manifest.TaskKey{Owner: o, ID: a.Task.TaskID}.String()
		row, ok, err := tasks.Get(t.Tx, key)
		if err != nil {
			return err
		}
		if ok && row.Peer == v.Owner() && row.Task.ManifestDigest() == a.Task.ManifestDigest {
			return t.heads(&row, v, a.Task)
		}
	}
	return nil
}

// heads compares both ends of a task: settles what they have, finds what we lack.
func (t *turn) heads(row *taskRow, v manifest.Verified, h *manifest.Heads) error {
	key := row.Key.String()
	yours := int64(0)
	if h.Yours != nil {
		yours = h.Yours.Seq
		if mine := row.Task.Head(row.Role); mine == nil || h.Yours.Seq > mine.Seq || !row.Task.Held(row.Role, h.Yours.Digest) {
			// They hold an event of ours that we lack: this home was put back from a backup (R4b).
			return t.recover(row, "the other side holds an event of ours that this home lacks")
		}
	}
	news := row.PeerHas == nil && h.Yours != nil || row.PeerHas != nil && yours > row.PeerHas.Seq
	if news {
		row.PeerHas = h.Yours
	}
	outs, err := outbox.Group(t.Tx, key)
	if err != nil {
		return err
	}
	for _, o := range outs {
		switch {
		case o.V.Seq > 0 && o.V.Seq <= yours:
			if err := t.settleOutKey(o.Key); err != nil {
				return err
			}
		case o.V.Seq > yours: // a lower one than before is believed: send again
			if err := t.owe(jobSend, o.Key, nil); err != nil {
				return err
			}
		}
	}
	row.PeerHead, row.PeerAsked = h.Mine, t.now
	if news || row.Task.Ended() {
		if err := t.append(recAck, key, v.Wire().Bytes()); err != nil {
			return err
		}
	}
	if err := t.putRow(*row); err != nil {
		return err
	}
	said, theirs := int64(0), int64(0)
	if h.Mine != nil {
		said = h.Mine.Seq
	}
	if head := row.Task.Head(row.Role.Other()); head != nil {
		theirs = head.Seq
	}
	if said != theirs { // they have said more: what we have tells them where to go on; or less: it tells them that they lost some of their own (R4b)
		if err := t.owe(jobAck, key, nil); err != nil {
			return err
		}
	}
	if row.Recovery != "" && row.returned(t.now) {
		return t.owe(jobRecovered, key, nil)
	}
	return t.wants(*row)
}

func (t *turn) settleOut(d signing.Digest, by signing.DID) error {
	return t.settleOutKey(documentKey(d, by))
}

func (t *turn) settleOutKey(key string) error {
	if err := outbox.Delete(t.Tx, key); err != nil {
		return err
	}
	return t.Settle(jobSend, key)
}

// refused lets go of a document that the other side does not keep.
func (t *turn) refused(v manifest.Verified, r *manifest.Refusal) error {
	out, ok, err := outbox.Get(t.Tx, documentKey(r.Digest, v.Owner()))
	if err != nil || !ok || out.To != v.Owner() {
		return err
	}
	if err := t.settleOut(r.Digest, v.Owner()); err != nil {
		return err
	}
	no := Refusal{With: v.Owner(), Name: t.trust.Contacts[v.Owner()].Name, By: byContact, What: t.kindOf(out), Word: spec.Reason(r.Reason), Path: r.Path, Limit: r.Limit, At: t.now}
	if out.Task == "" {
		return t.keepRefusal("", no)
	}
	if err := t.append(recAck, out.Task, v.Wire().Bytes()); err != nil {
		return err
	}
	row, err := t.row(out.Task)
	if err != nil {
		return err
	}
	no.Task = row.Key.ID.String()
	if err := t.keepRefusal(row.Key.String(), no); err != nil {
		return err
	}
	if row.Role == manifest.Requester && out.Seq == 1 && !row.Task.Ended() {
		row.Untaken = row.Task.Accepted() == nil
		_, err := t.say(&row, manifest.Cancelled{Reason: "refused: " + r.Reason + " " + cut(r.Limit, 200)})
		return err
	}
	return nil
}

// kindOf is what a document of ours says.
func (t *turn) kindOf(out outRow) string {
	if s, err := manifest.OpenValue(out.Wire, t.g.keys); err == nil {
		if e, ok := s.Document().(*manifest.Event); ok {
			return string(e.Body.Fact.Kind())
		}
	}
	return manifest.TypeName(out.Wire)
}

// history sends both chains again to a peer that lost its own (R4b).
func (t *turn) history(v manifest.Verified, h *manifest.HistoryRequest) error {
	if h.To != t.g.Agent.DID() {
		return spec.Refuse(spec.WrongSigner, "/to", "S6")
	}
	for _, o := range []signing.DID{v.Owner(), t.g.Owner} {
		key := manifest.TaskKey{Owner: o, ID: h.TaskID}.String()
		row, ok, err := tasks.Get(t.Tx, key)
		if err != nil {
			return err
		}
		if !ok || row.Peer != v.Owner() || row.Task.ManifestDigest() != h.ManifestDigest {
			continue
		}
		recs, err := t.events(key)
		if err != nil {
			return err
		}
		for _, wire := range recs {
			if err := t.owe(jobReply, "history "+signing.DigestOf(wire.Bytes()).String(), replyRow{v.Owner(), wire}); err != nil {
				return err
			}
		}
		return t.owe(jobAck, key, nil)
	}
	return spec.Refuse(spec.NotFound, "/taskId", "task")
}

// events are both chains of a task as they were kept.
func (t *turn) events(key string) ([]jcs.Value, error) {
	recs, err := t.RecordsOf(key)
	if err != nil {
		return nil, err
	}
	var out []jcs.Value
	for _, r := range recs {
		if r.Kind == recEvent {
			v, err := jcs.Parse(r.Body)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
	}
	return out, nil
}
