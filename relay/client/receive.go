package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/nats-io/nats.go"

	"sealbridge/relay"
	"sealbridge/spec"
)

const (
	retryFirst = time.Second
	retryLong  = 30 * time.Second
	maxTries   = 10 // about three minutes; then it no longer holds up the trimming of what came after
)

// Receive hands every envelope in our mailbox to take, in order, with at most
// inFlight under way, until ctx or the connection ends. Ack and Term let the
// relay forget it once everything before it is so too; Nak leaves it there and
// offers it again, at growing intervals, ten times: then it counts as Term and
// its sender, who keeps it, will send it again (R4). The same envelope is never
// under way twice, but may come again: know documents by their digest.
func (c *Conn) Receive(ctx context.Context, inFlight int, take func(context.Context, []byte) relay.Verdict) error {
	return ReceiveFrom(ctx, c, inFlight, take)
}

// Source is where a receiver gets its mail: a relay, or its twin in relaytest.
type Source interface {
	// Get returns mail after a sequence, waiting for the first of it.
	Get(ctx context.Context, after uint64, wait time.Duration) ([]relay.Mail, error)
	// Ack lets the relay forget what it delivered up to a sequence; stale where
	// the tag is not that of the envelope there.
	Ack(ctx context.Context, upTo uint64, tag string) error
}

// Get is one question, for [ReceiveFrom] and for tools.
func (c *Conn) Get(ctx context.Context, after uint64, wait time.Duration) ([]relay.Mail, error) {
	if most := time.Duration(c.Hello().Limits.WaitSeconds) * time.Second; most > 0 {
		wait = min(wait, most)
	}
	m := nats.NewMsg(relay.Subject(relay.VerbGet, relay.Token{}, c.self))
	m.Data = relay.Write(relay.GetRequest{After: after, Max: relay.MaxGetCount, MaxBytes: relay.MaxGetBytes, WaitMs: wait.Milliseconds()})
	answer, err := c.send(ctx, m, wait+requestWait)
	if err != nil {
		return nil, err
	}
	ms, _, err := relay.DecodeBatch(answer)
	return ms, err
}

// Ack is one acknowledgement.
func (c *Conn) Ack(ctx context.Context, upTo uint64, tag string) error {
	_, err := c.ask(ctx, relay.VerbAck, relay.Write(relay.AckRequest{UpTo: upTo, Tag: tag}))
	return err
}

// item is one envelope that was handed to us and is not acknowledged.
type item struct {
	digest [32]byte
	seqs   []uint64 // where it lies; twice if it was put twice
	body   []byte
	busy   bool
	done   bool
	tries  int
	due    time.Time // not before
}

// receiver belongs to one goroutine.
type receiver struct {
	src      Source
	inFlight int
	busy     int
	take     func(context.Context, []byte) relay.Verdict
	items    map[[32]byte]*item
	order    []place // what we know of the mailbox, by sequence
	results  chan result
	cursor   uint64
	polled   time.Time           // when we last asked from 0
	gone     map[uint64][32]byte // acknowledged since the get under way was asked: its answer may still hold them
}

type place struct {
	seq uint64
	it  *item
}

type result struct {
	it *item
	v  relay.Verdict
}

type fetched struct {
	ms    []relay.Mail
	after uint64
	err   error
}

// ReceiveFrom is [Conn.Receive] over any source.
func ReceiveFrom(ctx context.Context, src Source, inFlight int, take func(context.Context, []byte) relay.Verdict) error {
	ctx, cancel := context.WithCancel(ctx)
	r := &receiver{src: src, inFlight: max(1, inFlight), take: take, items: make(map[[32]byte]*item), gone: make(map[uint64][32]byte), results: make(chan result, max(1, inFlight))}
	defer func() { // nobody is under way when we are gone
		cancel()
		for ; r.busy > 0; r.busy-- {
			<-r.results
		}
	}()
	mail := make(chan fetched, 1)
	fetching := false
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	pause := firstPause
	for {
		if !fetching && len(r.order) < 4*relay.MaxGetCount+r.inFlight {
			after, wait := r.cursor, relay.MaxWait
			if time.Since(r.polled) >= relay.PollEvery || after == 0 {
				after, r.polled = 0, time.Now()
			}
			if len(r.order) > 0 && after == 0 {
				wait = 0
			}
			fetching = true
			clear(r.gone)
			go func() {
				ms, err := src.Get(ctx, after, wait)
				mail <- fetched{ms, after, err}
			}()
		}
		timer.Reset(r.start(ctx))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case res := <-r.results:
			r.finish(res)
			r.acknowledge(ctx)
		case f := <-mail:
			fetching = false
			if f.err != nil {
				if w := spec.ReasonOf(f.err); w == spec.NotPermitted || ctx.Err() != nil {
					return f.err
				}
				if !sleep(ctx, pause) {
					return ctx.Err()
				}
				pause = min(2*pause, time.Second)
				r.reset() // perhaps another relay process, perhaps another store
				continue
			}
			pause = firstPause
			r.learn(f)
			r.acknowledge(ctx)
		}
	}
}

// reset forgets where things lie, not what became of them: what is under way or
// done is not begun again because a connection was lost.
func (r *receiver) reset() {
	r.cursor, r.order, r.polled = 0, nil, time.Time{}
	for _, it := range r.items {
		it.seqs = nil
	}
}

// learn enters what a get returned.
func (r *receiver) learn(f fetched) {
	for _, m := range f.ms {
		r.cursor = max(r.cursor, m.Seq)
		d := sha256.Sum256(m.Envelope)
		if was, acked := r.gone[m.Seq]; acked && was == d {
			continue
		}
		it := r.items[d]
		if it == nil {
			it = &item{digest: d, body: m.Envelope}
			r.items[d] = it
		}
		r.enter(m.Seq, it)
	}
	if f.after != 0 {
		return
	}
	for d, it := range r.items { // gone from the relay
		if len(it.seqs) == 0 && !it.busy {
			delete(r.items, d)
		}
	}
}

func (r *receiver) enter(seq uint64, it *item) {
	i := len(r.order)
	for i > 0 && r.order[i-1].seq > seq {
		i--
	}
	if i > 0 && r.order[i-1].seq == seq {
		return // known
	}
	r.order = append(r.order, place{})
	copy(r.order[i+1:], r.order[i:])
	r.order[i] = place{seq, it}
	it.seqs = append(it.seqs, seq)
}

// start hands out what is due and returns how long until something is.
func (r *receiver) start(ctx context.Context) time.Duration {
	next, now := relay.PollEvery, time.Now()
	for _, p := range r.order {
		it := p.it
		switch {
		case it.busy || it.done:
		case it.due.After(now):
			next = min(next, it.due.Sub(now))
		case r.busy < r.inFlight:
			it.busy = true
			r.busy++
			go func() { r.results <- result{it, r.take(ctx, it.body)} }()
		}
	}
	return next
}

func (r *receiver) finish(res result) {
	it := res.it
	it.busy = false
	r.busy--
	it.tries++
	if res.v == relay.Nak && it.tries < maxTries {
		it.due = time.Now().Add(min(retryLong, retryFirst<<(it.tries-1)))
		return
	}
	it.done, it.body = true, nil
}

// acknowledge lets the relay forget the first run of what is done.
func (r *receiver) acknowledge(ctx context.Context) {
	n := 0
	for n < len(r.order) && r.order[n].it.done {
		n++
	}
	if n == 0 {
		return
	}
	last := r.order[n-1]
	tag := hexTag(last.it.digest)
	switch err := r.src.Ack(ctx, last.seq, tag); {
	case err == nil:
	case spec.ReasonOf(err) == spec.Stale: // the store is another, or was trimmed
		r.reset()
		return
	default:
		return // asked again with the next result or poll
	}
	for _, p := range r.order[:n] {
		r.gone[p.seq] = p.it.digest
		if p.it.seqs = p.it.seqs[1:]; len(p.it.seqs) == 0 && !p.it.busy {
			delete(r.items, p.it.digest)
		}
	}
	r.order = r.order[n:]
}

func hexTag(d [32]byte) string { return hex.EncodeToString(d[:relay.TagBytes]) }
