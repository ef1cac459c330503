package server

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"time"

	"sealbridge/relay"
	"sealbridge/signing"
	"sealbridge/spec"
)

// serve answers one request.
func (s *Server) serve(r request) {
	start := time.Now()
	answer, err := s.ask(r)
	if err != nil {
		word := spec.ReasonOf(err)
		s.metrics.refused.WithLabelValues(string(word)).Inc()
		if word == spec.Unavailable || word == spec.Internal {
			s.log.Error("request failed", "verb", string(r.verb), "error", err)
		}
		var retry time.Duration
		if word == spec.Quota || word == spec.Unavailable {
			retry = time.Second
		}
		s.in.answer(r.msg, relay.FailureOf(err, retry))
		if word != spec.Unavailable && word != spec.Internal { // else the fault is ours
			s.in.refusedBy(r.from)
		}
		return
	}
	if answer != nil { // a parked get answers later
		s.in.respond(r.msg, answer)
	}
	s.metrics.took.WithLabelValues(string(r.verb)).Observe(time.Since(start).Seconds())
}

var empty = []byte("{}")

// ask is the table of verbs.
func (s *Server) ask(r request) ([]byte, error) {
	body, now := r.msg.Data, s.cfg.Now()
	switch r.verb {
	case relay.VerbHello:
		return s.hello()
	case relay.VerbPut:
		return s.put(r)
	case relay.VerbGet:
		return s.get(r)
	case relay.VerbAck:
		var a relay.AckRequest
		if err := relay.Read(body, &a); err != nil {
			return nil, err
		}
		return empty, s.mail.ack(r.from, a)
	case relay.VerbKeySet:
		var k relay.Key
		if err := relay.Read(body, &k); err != nil {
			return nil, err
		}
		return empty, s.state.setKey(r.from, k)
	case relay.VerbKeyGet:
		var k relay.Key
		if err := relay.Read(body, &k); err != nil {
			return nil, err
		}
		k, err := s.state.keyOf(k.Of, r.from)
		return relay.Write(k), err
	case relay.VerbList:
		var l relay.List
		if err := relay.Read(body, &l); err != nil {
			return nil, err
		}
		return empty, s.state.setList(r.from, l)
	case relay.VerbDropPut:
		until, err := signing.ParseTime(r.msg.Header.Get(relay.HeaderExpires))
		if err != nil {
			return nil, err
		}
		return empty, s.state.dropPut(r.from, r.msg.Header.Get(relay.HeaderID), body, until.Time(), now)
	case relay.VerbDropGet:
		b, err := s.state.dropGet(r.msg.Header.Get(relay.HeaderID), now)
		return append([]byte{1}, b...), err
	case relay.VerbDropDel:
		return empty, s.state.dropDel(r.from, r.msg.Header.Get(relay.HeaderID))
	case relay.VerbObjPut:
		return empty, s.objPut(r)
	}
	var c relay.Chunk
	if err := relay.Read(body, &c); err != nil {
		return nil, err
	}
	if !relay.GoodID(c.ID) || c.N < 0 || c.N >= relay.MaxChunks {
		return nil, spec.Refuse(spec.Malformed, "/id", "32 to 64 hex digits, and a chunk below 16384")
	}
	switch r.verb {
	case relay.VerbObjGet:
		m, err := s.st.read(objectStream, fmt.Sprintf(`{"last_by_subj":%q}`, relay.ObjectSubject(c.From, c.ID, c.N)))
		if err == errGone {
			return nil, spec.Refuse(spec.NotFound, "", "")
		} else if err != nil {
			return nil, storeError(err)
		}
		return append([]byte{1}, m.Data...), nil
	case relay.VerbObjStat:
		return s.objStat(c)
	case relay.VerbObjDrop:
		return empty, s.objects.drop(r.from, c.ID)
	}
	return nil, spec.Refuse(spec.Malformed, "", "unknown verb")
}

// put takes one envelope: who may, then what it says, then room, then the
// store, then the log, then the answer.
func (s *Server) put(r request) ([]byte, error) {
	if s.Failed() || s.full.Load() {
		return nil, spec.Refuse(spec.Unavailable, "", "the relay takes nothing now")
	}
	env, now := r.msg.Data, s.cfg.Now()
	h, err := relay.ReadHeader(env)
	if err != nil {
		return nil, err
	}
	if relay.TokenOf(h.To) != r.to {
		return nil, spec.Refuse(spec.Malformed, "/to", "not the mailbox")
	}
	if err := h.Fresh(now); err != nil {
		return nil, err
	}
	undo, err := s.state.mayPut(r.to, r.from, r.msg.Header.Get(relay.HeaderTicket), h, len(env))
	if err != nil {
		return nil, err
	}
	if err := s.mail.reserve(r.to, len(env)); err != nil {
		undo()
		return nil, err
	}
	seq, err := s.st.publish(relay.MailSubject(r.to, r.from), env)
	if err != nil {
		undo()
		s.mail.unreserve(r.to, len(env))
		if err != errShare && err != errFull && !s.st.attached { // it may be stored and not in our index
			s.fail("storing mail", err)
		}
		return nil, storeError(err)
	}
	sum := sha256.Sum256(env)
	s.mail.stored(r.to, entry{seq: seq, at: now, until: now.Add(s.cfg.Quotas.MailAge), from: r.from, size: len(env), digest: sum})
	s.metrics.puts.Inc()
	s.metrics.putBytes.Add(float64(len(env)))
	return s.custody.receipt(relay.Receipt{
		EnvelopeDigest: signing.DigestFrom(sum), Commit: h.Commit, To: h.To, Sequence: int64(seq), At: signing.TimeOf(now)})
}

// get answers with mail at once, or parks; then the answer comes from a
// goroutine of its own, which the server waits for at its end.
func (s *Server) get(r request) ([]byte, error) {
	var g relay.GetRequest
	if err := relay.Read(r.msg.Data, &g); err != nil {
		return nil, err
	}
	g.Max, g.MaxBytes = clamp(g.Max, 1, relay.MaxGetCount), clamp(g.MaxBytes, 1, relay.MaxGetBytes)
	es, more := s.mail.pick(r.from, g)
	if len(es) > 0 {
		ms, err := s.mail.fetch(r.from, es)
		if err != nil {
			return nil, err
		}
		s.metrics.gets.Add(float64(len(ms)))
		return relay.EncodeBatch(ms, more), nil
	}
	wait := min(time.Duration(g.WaitMs)*time.Millisecond, s.longestWait())
	if wait <= 0 {
		return relay.EncodeBatch(nil, false), nil
	}
	w := s.mail.park(r.from, g.After)
	s.parked.Go(func() {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-w.wake:
		case <-t.C:
			s.mail.unpark(r.from, w)
		case <-s.stopping:
		}
		es, more := s.mail.pick(r.from, g)
		ms, err := s.mail.fetch(r.from, es)
		if err != nil {
			s.in.answer(r.msg, relay.FailureOf(err, time.Second))
			return
		}
		s.metrics.gets.Add(float64(len(ms)))
		s.in.respond(r.msg, relay.EncodeBatch(ms, more))
	})
	return nil, nil
}

func clamp(n, least, most int) int {
	if n < least {
		return most
	}
	return min(n, most)
}

func seqSelector(seq uint64) string { return `{"seq":` + strconv.FormatUint(seq, 10) + `}` }

// objPut keeps a chunk. One that is there stays; guests send files only to who
// lists them.
func (s *Server) objPut(r request) error {
	h := r.msg.Header
	id, n := h.Get(relay.HeaderID), -1
	if v, err := strconv.Atoi(h.Get(relay.HeaderN)); err == nil && strconv.Itoa(v) == h.Get(relay.HeaderN) {
		n = v
	}
	switch {
	case !relay.GoodID(id) || n < 0 || n >= relay.MaxChunks:
		return spec.Refuse(spec.Malformed, "/id", "32 to 64 hex digits, and a chunk below 16384")
	case len(r.msg.Data) == 0 || len(r.msg.Data) > relay.MaxChunk:
		return spec.Refuse(spec.TooLarge, "", "64 KiB")
	case s.Failed() || s.full.Load():
		return spec.Refuse(spec.Unavailable, "", "the relay takes nothing now")
	}
	if !s.state.isMember(r.from) {
		to, err := relay.ParseToken(h.Get(relay.HeaderTo))
		if err != nil || !s.state.lists(to, r.from) {
			return spec.Refuse(spec.NotPermitted, "", "")
		}
	}
	return s.objects.put(r.from, id, n, r.msg.Data)
}

func (s *Server) objStat(c relay.Chunk) ([]byte, error) {
	ns, err := s.objects.list(c.From, c.ID)
	if err != nil {
		return nil, err
	}
	sort.Ints(ns)
	return relay.Write(relay.Have{Have: relay.Runs(ns), Count: len(ns)}), nil
}

// longestWait is how long a get waits for mail. On a cluster the answer may go
// with a node, and who waits for it is to ask again soon.
func (s *Server) longestWait() time.Duration {
	if s.st.attached {
		return 5 * time.Second
	}
	return relay.MaxWait
}

// hello is signed anew every hour, and when the TLS keys are others.
func (s *Server) hello() ([]byte, error) {
	s.helloMu.Lock()
	defer s.helloMu.Unlock()
	now, keys := s.cfg.Now(), s.tlsKeys()
	if s.helloDoc != nil && now.Before(s.helloAt.Add(time.Hour)) && !now.Before(s.helloAt) && slices.Equal(keys, s.helloKeys) {
		return s.helloDoc, nil
	}
	q := s.cfg.Quotas
	v, err := relay.Hello{TLSKeys: keys, Sync: s.cfg.Sync,
		Limits: relay.HelloLimits{EnvelopeBytes: relay.MaxEnvelope, LifeSeconds: int64(relay.MaxLife / time.Second),
			PutsPerSecond: int64(q.PutsPerSecond), MailCount: int64(q.MailCount), MailBytes: q.MailBytes, FileBytes: q.FileBytes, WaitSeconds: int64(s.longestWait() / time.Second)},
		At: signing.TimeOf(now), ExpiresAt: signing.TimeOf(now.Add(24 * time.Hour))}.Sign(s.cfg.Signer)
	if err != nil {
		return nil, err
	}
	s.helloDoc, s.helloAt, s.helloKeys = v.Bytes(), now, keys
	return s.helloDoc, nil
}
