package server

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"time"

	"sealbridge/relay"
	"sealbridge/spec"
)

// entry is what the index holds of one envelope.
type entry struct {
	seq       uint64
	at        time.Time
	until     time.Time // the store forgets it
	from      relay.Token
	size      int
	digest    [32]byte
	delivered bool // in an answer to a get of this process: only then an ack may trim it
}

// mailbox is the index of one mailbox.
type mailbox struct {
	entries  []entry // by sequence
	bytes    int64
	reserved int // puts under way
	parked   []*waiting
}

// waiting is a get that found nothing.
type waiting struct {
	after uint64
	wake  chan struct{} // closed once
}

// mail is the index of all mailboxes: who, when, how much; never what. It is
// rebuilt from the store at start.
//
// Puts are stored side by side, so a later sequence may be known here before an
// earlier one. Nothing is read, acknowledged or purged past the first sequence
// of a shard that is not accounted for: an ack could take what nobody has seen.
type mail struct {
	st  store
	cfg *Config

	mu     sync.Mutex // guards what follows and all in it
	boxes  map[relay.Token]*mailbox
	dirty  map[relay.Token]uint64 // to be purged before this
	shards [relay.Shards]shard
}

// shard is how far a stream is accounted for.
type shard struct {
	next  uint64                 // everything before it is in the index, or was
	ahead map[uint64]relay.Token // what is known past it
	gap   uint64                 // next, when something was known past it at the last look: a put whose answer was lost
}

// load reads every shard, a few at a time: 100,000 envelopes of 6 KiB in a second or two.
func (m *mail) load() error {
	m.boxes, m.dirty = make(map[relay.Token]*mailbox), make(map[relay.Token]uint64)
	var errs [relay.Shards]error
	inParallel(relay.Shards, 4, func(k int) { errs[k] = m.loadShard(k) })
	return errors.Join(errs[:]...)
}

func (m *mail) loadShard(k int) error {
	err := m.st.scan(mailStream(k), ">", func(r record) error {
		to, from, ok := relay.ParseMail(r.subject)
		if !ok {
			return errors.New("foreign message in " + mailStream(k))
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.insert(to, m.entryOf(r, from))
		return nil
	})
	if err != nil {
		return err
	}
	last, err := m.st.last(mailStream(k))
	m.shards[k] = shard{next: last + 1, ahead: make(map[uint64]relay.Token)}
	return err
}

func (m *mail) entryOf(r record, from relay.Token) entry {
	return entry{seq: r.seq, at: r.at, until: r.at.Add(m.cfg.Quotas.MailAge), from: from, size: len(r.body), digest: sha256.Sum256(r.body)}
}

func (m *mail) box(to relay.Token) *mailbox {
	b := m.boxes[to]
	if b == nil {
		b = &mailbox{}
		m.boxes[to] = b
	}
	return b
}

// reserve holds a place for a put, or says which share is used up.
func (m *mail) reserve(to relay.Token, size int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.box(to)
	if len(b.entries)+b.reserved >= m.cfg.Quotas.MailCount || b.bytes+int64(size) > m.cfg.Quotas.MailBytes {
		return spec.Refuse(spec.Quota, "", "envelopes waiting in one mailbox")
	}
	b.reserved++
	b.bytes += int64(size)
	return nil
}

func (m *mail) unreserve(to relay.Token, size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.box(to)
	b.reserved--
	b.bytes -= int64(size)
}

// stored turns a reservation into an entry, and wakes who waits for what can
// be read now.
func (m *mail) stored(to relay.Token, e entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.box(to)
	b.reserved--
	b.bytes -= int64(e.size)
	x := &m.shards[relay.Shard(to)]
	if e.seq < x.next { // found by fill, and perhaps gone again
		return
	}
	m.insert(to, e)
	x.ahead[e.seq] = to
	m.advance(x)
}

// advance accounts for what is known without a gap.
func (m *mail) advance(x *shard) {
	for {
		who, ok := x.ahead[x.next]
		if !ok {
			return
		}
		delete(x.ahead, x.next)
		x.next++
		if b := m.boxes[who]; b != nil {
			for _, w := range b.parked {
				close(w.wake)
			}
			b.parked = nil
		}
	}
}

// insert puts an entry in its place, once.
func (m *mail) insert(to relay.Token, e entry) {
	b := m.box(to)
	i, there := b.find(e.seq)
	if there {
		return
	}
	b.entries = slices.Insert(b.entries, i, e)
	b.bytes += int64(e.size)
}

// pick chooses what a get is answered with: what is after the cursor, and what
// this process has not handed over yet.
func (m *mail) pick(to relay.Token, g relay.GetRequest) (es []entry, more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.boxes[to]
	if b == nil {
		return nil, false
	}
	size, next := 0, m.shards[relay.Shard(to)].next
	for _, e := range b.entries {
		if e.seq >= next {
			break
		}
		if e.seq <= g.After && e.delivered {
			continue
		}
		if len(es) > 0 && (len(es) == g.Max || size+e.size > g.MaxBytes) {
			return es, true
		}
		es, size = append(es, e), size+e.size
	}
	return es, false
}

// park waits for the next put. A mailbox has few places to wait; the oldest
// makes room, because it may wait for a connection that is long gone.
func (m *mail) park(to relay.Token, after uint64) *waiting {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.box(to)
	if len(b.parked) >= m.cfg.Quotas.Gets {
		close(b.parked[0].wake)
		b.parked = b.parked[1:]
	}
	w := &waiting{after, make(chan struct{})}
	next := m.shards[relay.Shard(to)].next
	for _, e := range b.entries { // came between pick and park
		if e.seq < next && (e.seq > after || !e.delivered) {
			close(w.wake)
			return w
		}
	}
	b.parked = append(b.parked, w)
	return w
}

func (m *mail) unpark(to relay.Token, w *waiting) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.boxes[to]; b != nil {
		b.parked = slices.DeleteFunc(b.parked, func(x *waiting) bool { return x == w })
	}
}

// fetch reads what was picked. What the store no longer has is left out.
func (m *mail) fetch(to relay.Token, es []entry) ([]relay.Mail, error) {
	stream := mailStream(relay.Shard(to))
	out := make([]relay.Mail, len(es))
	errs := make([]error, len(es))
	one := func(i int) {
		msg, err := m.st.read(stream, seqSelector(es[i].seq))
		if err == nil {
			out[i] = relay.Mail{Seq: es[i].seq, At: es[i].at, From: es[i].from, Envelope: msg.Data}
		}
		errs[i] = err
	}
	if len(es) == 1 {
		one(0)
	} else {
		inParallel(len(es), 4, one)
	}
	var got []relay.Mail
	for i, err := range errs {
		switch {
		case err == nil:
			got = append(got, out[i])
		case errors.Is(err, errGone) && !m.st.attached:
			m.lost(to, es[i].seq)
		case errors.Is(err, errGone): // a new leader may not know it yet; age takes it out of the index
			return nil, storeError(err)
		default:
			return nil, storeError(err)
		}
	}
	m.mark(to, es)
	return got, nil
}

func (m *mail) mark(to relay.Token, es []entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.box(to)
	for _, e := range es {
		if i, ok := b.find(e.seq); ok {
			b.entries[i].delivered = true
		}
	}
}

func (b *mailbox) find(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(b.entries, seq, func(e entry, s uint64) int {
		switch {
		case e.seq < s:
			return -1
		case e.seq > s:
			return 1
		}
		return 0
	})
}

func (m *mail) lost(to relay.Token, seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := m.box(to)
	if i, ok := b.find(seq); ok { // else it was acknowledged meanwhile
		m.cfg.Log.Error("mail is gone from the store", "mailbox", to.String(), "sequence", seq)
		b.bytes -= int64(b.entries[i].size)
		b.entries = slices.Delete(b.entries, i, i+1)
	}
}

// ack forgets what was delivered up to a sequence. The tag must be that of the
// envelope there: a relay that lost its store counts from 1 again, and an old
// ack must not reach new mail.
func (m *mail) ack(to relay.Token, a relay.AckRequest) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	stale := spec.Refuse(spec.Stale, "/upTo", "get from 0 and ack again")
	b := m.boxes[to]
	if b == nil {
		return stale
	}
	i, ok := b.find(a.UpTo)
	if !ok || !b.entries[i].delivered || hex.EncodeToString(b.entries[i].digest[:relay.TagBytes]) != a.Tag {
		return stale
	}
	b.entries = slices.DeleteFunc(b.entries, func(e entry) bool {
		gone := e.seq <= a.UpTo && e.delivered
		if gone {
			b.bytes -= int64(e.size)
		}
		return gone
	})
	m.dirty[to] = a.UpTo + 1
	if len(b.entries) > 0 {
		m.dirty[to] = min(m.dirty[to], b.entries[0].seq)
	}
	return nil
}

// trim purges what was acknowledged since the last time; a purge that fails is
// tried again, one that is lost with us is a redelivery.
func (m *mail) trim() error {
	m.mu.Lock()
	todo := m.dirty
	m.dirty = make(map[relay.Token]uint64)
	m.mu.Unlock()
	var errs error
	for to, before := range todo {
		if errs == nil {
			if errs = m.st.purge(mailStream(relay.Shard(to)), relay.MailPrefix(to)+".*", before); errs == nil {
				continue
			}
		}
		m.mu.Lock()
		m.dirty[to] = max(m.dirty[to], before)
		m.mu.Unlock()
	}
	return errs
}

// sweep forgets what the store has let go by age, and empty mailboxes.
func (m *mail) sweep(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for to, b := range m.boxes {
		b.entries = slices.DeleteFunc(b.entries, func(e entry) bool {
			old := !now.Before(e.until)
			if old {
				b.bytes -= int64(e.size)
			}
			return old
		})
		if len(b.entries) == 0 && b.reserved == 0 && len(b.parked) == 0 {
			delete(m.boxes, to)
		}
	}
}

// wakeAll answers every parked get with nothing, before the end.
func (m *mail) wakeAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.boxes {
		for _, w := range b.parked {
			close(w.wake)
		}
		b.parked = nil
	}
}

// forget drops a mailbox with all its mail.
func (m *mail) forget(to relay.Token) error {
	if err := m.st.purge(mailStream(relay.Shard(to)), relay.MailPrefix(to)+".*", 0); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.boxes[to]; b != nil {
		b.entries, b.bytes = nil, 0
	}
	return nil
}

// total sums what waits; oldest is the zero time where nothing does.
func (m *mail) total() (count int, bytes int64, oldest time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.boxes {
		count += len(b.entries)
		bytes += b.bytes
		if len(b.entries) > 0 && (oldest.IsZero() || b.entries[0].at.Before(oldest)) {
			oldest = b.entries[0].at
		}
	}
	return count, bytes, oldest
}

func inParallel(n, width int, do func(int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, width) {
		wg.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}
