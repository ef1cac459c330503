package main

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"sealbridge/gateway"
	"sealbridge/gateway/home"
	"sealbridge/manifest"
	"sealbridge/relay"
	"sealbridge/relay/client"
	"sealbridge/spec"
)

const (
	awayMost  = 64               // connections to contacts' relays at once; past it the one used longest ago ends
	awayWait  = 10 * time.Second // for one of them to answer
	awayAgain = 5 * time.Second  // a relay that did not answer is not asked again before this: one that is gone holds nobody up
)

// relays are the connections to the relays of contacts: a gateway collects at
// home and puts at the recipient's (R3).
type relays struct {
	home *home.Home
	log  *slog.Logger

	mu   sync.Mutex // guards away, and used of each
	away map[string]*awayRelay
}

type awayRelay struct {
	used time.Time

	mu     sync.Mutex // guards what follows; held while dialling
	conn   *client.Conn
	failed time.Time
	err    error
	gone   bool
}

func newRelays(h *home.Home, log *slog.Logger) (*relays, error) {
	for i, text := range h.Config.AlsoRelays {
		if _, err := relay.ParseAddress(text); err != nil {
			return nil, spec.At("/also_relays/"+strconv.Itoa(i), err)
		}
	}
	return &relays{home: h, log: log, away: map[string]*awayRelay{}}, nil
}

// reach is [gateway.Config.Reach].
func (r *relays) reach(ctx context.Context, ref manifest.RelayRef) (gateway.Away, error) {
	at, err := relay.ParseAddress(ref.String())
	if err != nil {
		return nil, err
	}
	w := r.entry(ref.String())
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.gone:
		return nil, spec.Refuse(spec.Unavailable, "/relay", "closed")
	case w.conn != nil:
		return w.conn, nil
	case time.Since(w.failed) < awayAgain:
		return nil, w.err
	}
	ctx, cancel := context.WithTimeout(ctx, awayWait)
	defer cancel()
	guest := !slices.Contains(r.home.Config.AlsoRelays, ref.String())
	if w.conn, w.err = client.Dial(ctx, client.Config{Address: at, Agent: r.home.Agent, Guest: guest, Log: r.log.With("relay", at.URL)}); w.err != nil {
		w.conn, w.failed = nil, time.Now()
		return nil, w.err
	}
	return w.conn, nil
}

func (r *relays) entry(name string) *awayRelay {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := r.away[name]
	if w == nil {
		r.makeRoom()
		w = &awayRelay{}
		r.away[name] = w
	}
	w.used = time.Now()
	return w
}

// makeRoom ends the connection that was used longest ago; the caller holds mu.
func (r *relays) makeRoom() {
	if len(r.away) < awayMost {
		return
	}
	oldest := ""
	for name, w := range r.away {
		if oldest == "" || w.used.Before(r.away[oldest].used) {
			oldest = name
		}
	}
	go r.away[oldest].close()
	delete(r.away, oldest)
}

func (w *awayRelay) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	if w.conn != nil {
		w.conn.Close()
	}
}

// Close ends them all.
func (r *relays) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.away {
		w.close()
	}
}
