package gateway

import (
	"context"
	"io"
	"time"

	"sealbridge/gateway/journal"
	"sealbridge/manifest"
	"sealbridge/relay"
	"sealbridge/signing"
	"sealbridge/signing/box"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

const (
	envelopeTerm = 14 * 24 * time.Hour // R1
	rotateEvery  = 7 * 24 * time.Hour  // R2
	republish    = time.Minute         // a relay that lost its store knows our key and list again after this
	resend       = 20 * time.Second    // a document that nobody acknowledged goes again after this, then doubling
	resendSelf   = time.Second         // the same for what belongs to no task: a box-key that arrives before its certificate is nothing to its reader (I4), whose mail has no way to us until it comes again
)

// post seals one document to a contact's agent and puts it at the relay.
func (g *Gateway) post(ctx context.Context, to manifest.Agent, wire jcs.Value, ticket string) (relay.Receipt, error) {
	envelope, err := g.seal(to, wire)
	if err != nil {
		return relay.Receipt{}, err
	}
	at, err := g.at(ctx, to.Certificate.Relay)
	if err != nil {
		return relay.Receipt{}, err
	}
	return at.Put(ctx, to.Certificate.AgentDid, envelope, ticket)
}

// sendOnce sends what one view of the journal makes, if it makes something; an
// answer that gets lost is given again when it is asked for again.
func (g *Gateway) sendOnce(ctx context.Context, write func(*turn) (signing.DID, jcs.Value, error)) error {
	var to manifest.Agent
	var wire jcs.Value
	err := g.view(ctx, func(t *turn) (err error) {
		var owner signing.DID
		if owner, wire, err = write(t); err == nil && !wire.IsZero() {
			to, err = t.addressee(owner)
		}
		return err
	})
	if err == nil && !wire.IsZero() {
		_, err = g.post(ctx, to, wire, "")
	}
	return g.dropHopeless(err)
}

// seal wraps a document of ours, as it stands in the journal.
func (g *Gateway) seal(to manifest.Agent, wire jcs.Value) ([]byte, error) {
	at, typed := wire.At("/signature/signerDid")
	digest := signing.DigestOf(wire.Bytes())
	if !typed { // an open proposal (M10); a manifest's digest is that of its payload (S8)
		at, _ = wire.At("/signatures/requesterSignature/signerDid")
		digest = signing.DigestOf(wire.BytesWithout("signatures"))
	}
	text, _ := at.Text()
	from, err := signing.ParseDID(text)
	if err != nil {
		return nil, err
	}
	var chance [16]byte
	if _, err := io.ReadFull(g.Chance, chance[:]); err != nil {
		return nil, err
	}
	certificate := g.certified().Digest()
	l := box.Letter{From: from, To: to.Certificate.AgentDid, Salt: box.SaltFrom(chance), CertificateDigest: &certificate, Document: wire}
	plain, err := l.Plain()
	if err != nil {
		return nil, err
	}
	key, err := box.ParsePublicKeyText(to.Key.Key)
	if err != nil {
		return nil, err
	}
	return box.Seal(key, box.Header{V: box.Version, To: l.To, Kid: key.Kid(), ExpiresAt: signing.TimeOf(g.Now().Add(envelopeTerm)),
		Commit: box.Commit(l.Salt, digest)}, plain)
}

// doSend sends a document and owes it again until it is acknowledged.
func (g *Gateway) doSend(ctx context.Context, jb journal.Job) error {
	var out outRow
	var there bool
	var agent manifest.Agent
	err := g.view(ctx, func(t *turn) (err error) {
		if out, there, err = outbox.Get(t.Tx, jb.Key); err != nil || !there {
			return err
		}
		agent, err = t.addressee(out.To)
		return err
	})
	if err != nil {
		return err
	}
	var receipt relay.Receipt
	if there {
		if receipt, err = g.post(ctx, agent, out.Wire, out.Ticket); err != nil {
			return err
		}
	}
	return g.turn(ctx, func(t *turn) error {
		_, still, err := outbox.Get(t.Tx, jb.Key)
		switch {
		case err != nil:
			return err
		case !there && !still:
			return t.Settle(jobSend, jb.Key)
		case !there:
			return nil // kept since we looked
		}
		if out.Task != "" {
			if err := t.append(recReceipt, out.Task, receipt.Document().Bytes()); err != nil {
				return err
			}
		}
		again := resend
		if out.Task == "" && out.Ticket == "" { // a ticket is good for three envelopes
			again = resendSelf
		}
		return t.Postpone(jobSend, jb.Key, t.now.Add(min(again<<min(jb.Tries, 12), time.Hour)))
	})
}

// doReply sends an answer once.
func (g *Gateway) doReply(ctx context.Context, jb journal.Job) error {
	row, err := body[replyRow](jb)
	if err != nil {
		return nil
	}
	return g.sendOnce(ctx, func(*turn) (signing.DID, jcs.Value, error) { return row.To, row.Wire, nil })
}

// dropHopeless gives up what no later try can change.
func (g *Gateway) dropHopeless(err error) error {
	switch spec.ReasonOf(err) {
	case spec.NotFound, spec.Revoked, spec.TooLarge:
		return nil
	}
	return err
}

// doAck says which events of theirs are kept and durable here, and our own newest (R4).
func (g *Gateway) doAck(ctx context.Context, jb journal.Job) error {
	return g.sendOnce(ctx, func(t *turn) (to signing.DID, wire jcs.Value, err error) {
		row, err := t.row(jb.Key)
		if err != nil || row.Task.IsZero() {
			return to, wire, err
		}
		ack, err := t.headsOf(row, nil)
		return row.Peer, ack.Wire(), err
	})
}

// headsOf signs both heads of a task; with documents it is the seal of a bundle.
func (t *turn) headsOf(row taskRow, documents []signing.Digest) (manifest.Verified, error) {
	return manifest.Sign(&manifest.Acknowledgement{Type: "sealbridge/acknowledgement", ProtocolVersion: manifest.ProtocolVersion,
		To: row.Task.Agent(row.Role.Other()),
		Task: &manifest.Heads{TaskID: row.Key.ID, ManifestDigest: row.Task.ManifestDigest(),
			Yours: row.Task.Head(row.Role.Other()), Mine: row.Task.Head(row.Role)},
		Documents: documents, At: signing.TimeOf(t.now), Revocations: t.revocations()}, t.g.Agent, t.now)
}

// doHistory asks a peer for both chains of a task (R4b).
func (g *Gateway) doHistory(ctx context.Context, jb journal.Job) error {
	return g.sendOnce(ctx, func(t *turn) (to signing.DID, wire jcs.Value, err error) {
		row, err := t.row(jb.Key)
		if err != nil || row.Task.IsZero() {
			return to, wire, err
		}
		have := int64(0)
		if h := row.Task.Head(row.Role); h != nil {
			have = h.Seq
		}
		v, err := manifest.Sign(&manifest.HistoryRequest{Type: "sealbridge/history-request", ProtocolVersion: manifest.ProtocolVersion,
			To: row.Task.Agent(row.Role.Other()), TaskID: row.Key.ID, ManifestDigest: row.Task.ManifestDigest(), Have: have, At: signing.TimeOf(t.now)}, t.g.Agent, t.now)
		return row.Peer, v.Wire(), err
	})
}

// doList tells the relay who may put into our mailbox: contacts, and tickets of open invites (R3b).
func (g *Gateway) doList(ctx context.Context, _ journal.Job) error {
	var allow []signing.DID
	var tickets []string
	err := g.view(ctx, func(t *turn) error {
		for did, a := range t.trust.Agents {
			if c := t.trust.Contacts[a.Owner]; a.Owner != g.Owner && !c.Blocked && !a.Revoked {
				allow = append(allow, did)
			}
		}
		rows, err := invites.All(t.Tx)
		for _, r := range rows {
			if r.V.Used.IsZero() && t.now.Before(r.V.Invite.ExpiresAt.Time()) {
				tickets = append(tickets, r.V.Invite.Ticket)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	return g.Courier.SetList(ctx, allow, tickets)
}

// doKey publishes our box-key, makes a new one each week (R2), and is owed again.
func (g *Gateway) doKey(ctx context.Context, jb journal.Job) error {
	_, key, err := g.Secrets.BoxKey()
	if err != nil {
		return err
	}
	now := g.Now()
	if !now.Before(key.NotBefore.Time().Add(rotateEvery)) {
		if _, err := g.Secrets.RotateBoxKey(now); err != nil {
			return err
		}
	}
	if err := g.turn(ctx, (*turn).presentSelf); err != nil { // each time: a key that was made just before a stop is told too
		return err
	}
	doc, key, err := g.Secrets.BoxKey()
	if err != nil {
		return err
	}
	if err := g.Courier.PublishKey(ctx, key.Kid, doc.Bytes()); err != nil {
		return err
	}
	if err := g.doList(ctx, jb); err != nil {
		return err
	}
	return g.Journal.Turn(ctx, func(tx *journal.Tx) error { return tx.Postpone(jobKey, self, now.Add(republish)) })
}

// announce folds our new box-key and sends it to every contact.
func (t *turn) announce(doc jcs.Value) error {
	if err := t.ownDocument(doc); err != nil {
		return err
	}
	s, err := manifest.OpenValue(doc, t.g.keys)
	if err != nil {
		return err
	}
	return t.tellAll(s)
}

// tellAll sends one document of ours to every contact, until each has acknowledged it.
func (t *turn) tellAll(s manifest.Signed) error {
	for owner, c := range t.trust.Contacts {
		if owner == t.g.Owner || c.Blocked {
			continue
		}
		if err := t.send(owner, s, "", "", 0); err != nil {
			return err
		}
	}
	return nil
}

func (t *turn) ownDocument(doc jcs.Value) error {
	s, err := manifest.OpenValue(doc, t.g.keys)
	if err != nil {
		return err
	}
	v, err := t.trust.Admit(s, t.now)
	if err != nil {
		return err
	}
	return t.identity(v)
}
