package client

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"sealbridge/relay"
	"sealbridge/signing"
	"sealbridge/spec"
)

// Put hands an envelope to the relay and returns its receipt, which names this
// very envelope. ticket is "" where the recipient lists us. Unavailable means
// that the relay may have taken it: put the same bytes again.
func (c *Conn) Put(ctx context.Context, to signing.DID, envelope []byte, ticket string) (relay.Receipt, error) {
	if len(envelope) > relay.MaxEnvelope {
		return relay.Receipt{}, spec.Refuse(spec.TooLarge, "", "1 MiB, this has "+strconv.Itoa(len(envelope))+" bytes")
	}
	m := nats.NewMsg(relay.Subject(relay.VerbPut, relay.TokenOf(to), c.self))
	m.Data = envelope
	if ticket != "" {
		m.Header.Set(relay.HeaderTicket, ticket)
	}
	answer, err := c.send(ctx, m, requestWait)
	if err != nil {
		return relay.Receipt{}, err
	}
	r, err := relay.OpenReceiptWith(c.keys, answer, c.cfg.Address.DID)
	if err == nil && (r.EnvelopeDigest != signing.DigestOf(envelope) || r.To != to) {
		err = spec.Refuse(spec.BadDigest, "/envelopeDigest", "a receipt for something else (R7)")
	}
	return r, err
}

// PublishKey replaces our box-key document at the relay (R2). The relay reads
// only kid.
func (c *Conn) PublishKey(ctx context.Context, kid signing.Digest, doc []byte) error {
	k := relay.Key{Kid: kid.String(), Doc: doc}
	if err := k.Check(); err != nil {
		return err
	}
	c.mu.Lock()
	c.key = &k
	c.mu.Unlock()
	_, err := c.ask(ctx, relay.VerbKeySet, relay.Write(k))
	return err
}

// KeyOf is the current box-key document of an agent that lists us; not-found
// for everybody else. It is as the relay gave it: verify it.
func (c *Conn) KeyOf(ctx context.Context, did signing.DID) ([]byte, error) {
	answer, err := c.ask(ctx, relay.VerbKeyGet, relay.Write(relay.Key{Of: relay.TokenOf(did)}))
	if err != nil {
		return nil, err
	}
	var k relay.Key
	if err := relay.Read(answer, &k); err != nil {
		return nil, err
	}
	return k.Doc, nil
}

// SetList replaces who may put into our mailbox: agents, and holders of tickets (R3b).
func (c *Conn) SetList(ctx context.Context, allow []signing.DID, tickets []string) error {
	l := relay.List{Allow: []relay.Token{}, Tickets: []string{}}
	for _, d := range allow {
		l.Allow = append(l.Allow, relay.TokenOf(d))
	}
	for _, t := range tickets {
		l.Tickets = append(l.Tickets, relay.TicketHash(t))
	}
	if err := l.Check(); err != nil {
		return err
	}
	c.mu.Lock()
	c.list = &l
	c.mu.Unlock()
	_, err := c.ask(ctx, relay.VerbList, relay.Write(l))
	return err
}

// DropPut leaves a sealed blob of at most 16 KiB under a random id of 32 to 64
// hex digits, for whoever knows the id, until a time at most 14 days ahead.
func (c *Conn) DropPut(ctx context.Context, id string, blob []byte, until time.Time) error {
	m := nats.NewMsg(relay.Subject(relay.VerbDropPut, relay.Token{}, c.self))
	m.Data = blob
	m.Header.Set(relay.HeaderID, id)
	m.Header.Set(relay.HeaderExpires, signing.TimeOf(until).String())
	_, err := c.send(ctx, m, requestWait)
	return err
}

// DropGet reads a blob.
func (c *Conn) DropGet(ctx context.Context, id string) ([]byte, error) {
	m := nats.NewMsg(relay.Subject(relay.VerbDropGet, relay.Token{}, c.self))
	m.Header.Set(relay.HeaderID, id)
	return blob(c.send(ctx, m, requestWait))
}

// DropDelete takes our own blob back.
func (c *Conn) DropDelete(ctx context.Context, id string) error {
	m := nats.NewMsg(relay.Subject(relay.VerbDropDel, relay.Token{}, c.self))
	m.Header.Set(relay.HeaderID, id)
	_, err := c.send(ctx, m, requestWait)
	return err
}

// PutChunk leaves one sealed chunk for to. A chunk that is there stays (R5).
func (c *Conn) PutChunk(ctx context.Context, to signing.DID, id string, n int, chunk []byte) error {
	if len(chunk) > relay.MaxChunk {
		return spec.Refuse(spec.TooLarge, "", "64 KiB")
	}
	m := nats.NewMsg(relay.Subject(relay.VerbObjPut, relay.Token{}, c.self))
	m.Data = chunk
	m.Header.Set(relay.HeaderID, id)
	m.Header.Set(relay.HeaderN, strconv.Itoa(n))
	m.Header.Set(relay.HeaderTo, relay.TokenOf(to).String())
	_, err := c.send(ctx, m, chunkWait)
	return err
}

// GetChunk reads a chunk that from left.
func (c *Conn) GetChunk(ctx context.Context, from signing.DID, id string, n int) ([]byte, error) {
	m := nats.NewMsg(relay.Subject(relay.VerbObjGet, relay.Token{}, c.self))
	m.Data = relay.Write(relay.Chunk{From: relay.TokenOf(from), ID: id, N: n})
	return blob(c.send(ctx, m, chunkWait))
}

// HasChunks lists what has arrived, as first and last of each run.
func (c *Conn) HasChunks(ctx context.Context, from signing.DID, id string) ([][2]int, error) {
	answer, err := c.ask(ctx, relay.VerbObjStat, relay.Write(relay.Chunk{From: relay.TokenOf(from), ID: id}))
	if err != nil {
		return nil, err
	}
	var h relay.Have
	if err := json.Unmarshal(answer, &h); err != nil {
		return nil, &spec.Error{Reason: spec.Unavailable, Err: err}
	}
	return h.Have, nil
}

// DropChunks forgets one of our own transfers.
func (c *Conn) DropChunks(ctx context.Context, id string) error {
	_, err := c.ask(ctx, relay.VerbObjDrop, relay.Write(relay.Chunk{ID: id}))
	return err
}
