package server

import (
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"sealbridge/relay"
)

// request is one that passed the door: its subject is well formed, its answer
// can reach nobody but its sender.
type request struct {
	verb     relay.Verb
	to, from relay.Token
	msg      *nats.Msg
}

// ingress gives every sender its turn: a queue each, served round and round by
// a fixed number of workers, so that one sender's flood is that sender's wait.
type ingress struct {
	s *Server

	mu      sync.Mutex // guards what follows
	cond    *sync.Cond
	senders map[relay.Token]*sender
	ring    []*sender // those with something to do
	closed  bool
	workers sync.WaitGroup
}

type sender struct {
	token   relay.Token
	queue   []request
	inRing  bool
	tokens  float64 // of the bucket
	filled  time.Time
	refused int // since second
	second  time.Time
}

const workerCount = 64

func newIngress(s *Server) *ingress {
	in := &ingress{s: s, senders: make(map[relay.Token]*sender)}
	in.cond = sync.NewCond(&in.mu)
	return in
}

// start subscribes. Every subject that a client may publish is covered.
func (in *ingress) start(nc *nats.Conn) ([]*nats.Subscription, error) {
	for range workerCount {
		in.workers.Go(in.work)
	}
	var subs []*nats.Subscription
	for _, subject := range []string{"sb.put.*.*", "sb.get.*", "sb.ack.*", "sb.key.*.*", "sb.list.*", "sb.drop.*.*", "sb.obj.*.*", "sb.hello.*"} {
		sub, err := nc.QueueSubscribe(subject, "relay", in.take)
		if err != nil {
			return subs, err
		}
		if err := sub.SetPendingLimits(32768, 64<<20); err != nil {
			return subs, err
		}
		subs = append(subs, sub)
	}
	return subs, nil
}

// take is the door: the server pinned the sender in the subject, but does not
// judge reply subjects, so we do (R3a).
func (in *ingress) take(m *nats.Msg) {
	verb, to, from, ok := relay.ParseSubject(m.Subject)
	if !ok || !relay.OwnReply(from, m.Reply) {
		in.s.metrics.dropped.Inc()
		return
	}
	now := in.s.cfg.Now()
	in.mu.Lock()
	x := in.senders[from]
	if x == nil {
		x = &sender{token: from, tokens: float64(in.s.cfg.Quotas.PutsPerSecond), filled: now}
		in.senders[from] = x
	}
	limit := ""
	switch {
	case in.closed:
		in.mu.Unlock()
		in.answer(m, relay.Failure{Word: "unavailable", Limit: "the relay is stopping", RetryMs: 1000})
		return
	case len(x.queue) >= in.s.cfg.Quotas.Queue:
		limit = "requests waiting"
	case verb == relay.VerbPut && !x.spend(now, float64(in.s.cfg.Quotas.PutsPerSecond)):
		limit = "puts a second"
	}
	if limit != "" {
		kick := x.refuse(now, in.s.cfg.Quotas.Refusals)
		in.mu.Unlock()
		in.s.metrics.refused.WithLabelValues("quota").Inc()
		in.answer(m, relay.Failure{Word: "quota", Limit: limit, RetryMs: 1000})
		if kick {
			in.s.log.Warn("flood: connection ended", "key", from.String())
			go in.s.auth.kick(from, in.s.cfg.Quotas.Bar)
		}
		return
	}
	x.queue = append(x.queue, request{verb, to, from, m})
	if !x.inRing {
		x.inRing = true
		in.ring = append(in.ring, x)
	}
	in.mu.Unlock()
	in.cond.Signal()
}

// spend takes one from the token bucket, which holds two seconds' worth.
func (x *sender) spend(now time.Time, rate float64) bool {
	x.tokens = min(2*rate, x.tokens+rate*max(0, now.Sub(x.filled).Seconds()))
	x.filled = now
	if x.tokens < 1 {
		return false
	}
	x.tokens--
	return true
}

// refuse counts, and says whether it was one too many within a second.
func (x *sender) refuse(now time.Time, most int) bool {
	if now.Sub(x.second) >= time.Second {
		x.second, x.refused = now, 0
	}
	x.refused++
	return x.refused == most
}

// refusedBy counts a refusal that a worker made.
func (in *ingress) refusedBy(from relay.Token) {
	in.mu.Lock()
	x := in.senders[from]
	kick := x != nil && x.refuse(in.s.cfg.Now(), in.s.cfg.Quotas.Refusals)
	in.mu.Unlock()
	if kick {
		go in.s.auth.kick(from, in.s.cfg.Quotas.Bar)
	}
}

// work serves one request of the next sender in the ring, again and again.
func (in *ingress) work() {
	for {
		in.mu.Lock()
		for len(in.ring) == 0 && !in.closed {
			in.cond.Wait()
		}
		if len(in.ring) == 0 {
			in.mu.Unlock()
			return
		}
		x := in.ring[0]
		in.ring = in.ring[1:]
		r := x.queue[0]
		if x.queue = x.queue[1:]; len(x.queue) > 0 {
			in.ring = append(in.ring, x)
		} else {
			x.inRing, x.queue = false, nil
		}
		in.mu.Unlock()
		in.s.serve(r)
	}
}

// finish lets the workers end what is queued.
func (in *ingress) finish() {
	in.mu.Lock()
	in.closed = true
	in.mu.Unlock()
	in.cond.Broadcast()
	in.workers.Wait()
}

// sweep forgets senders that were quiet.
func (in *ingress) sweep(now time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for t, x := range in.senders {
		if !x.inRing && now.Sub(x.filled) > time.Minute && now.Sub(x.second) > time.Minute {
			delete(in.senders, t)
		}
	}
}

func (in *ingress) answer(m *nats.Msg, v any) { in.respond(m, relay.Write(v)) }

func (in *ingress) respond(m *nats.Msg, body []byte) {
	if err := m.Respond(body); err != nil && !strings.Contains(err.Error(), "closed") {
		in.s.log.Warn("answering", "error", err)
	}
}
