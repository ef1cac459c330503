package relaytest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"sealbridge/relay"
	"sealbridge/relay/client"
	"sealbridge/signing"
	"sealbridge/spec"
)

// Fate is what becomes of an envelope that the twin was handed.
type Fate int

const (
	Deliver Fate = iota
	Lose         // taken, with a receipt, and never delivered
	Twice        // delivered twice
	Late         // delivered after the next one
	Refuse       // unavailable, nothing stored
	Unsure       // unavailable, and stored all the same
)

// Memory is a relay in memory. It works inside a synctest bubble. The zero
// value is not useful; see [NewMemory].
type Memory struct {
	key signing.Signer

	mu      sync.Mutex // guards what follows
	fate    func(from, to signing.DID, envelope []byte) Fate
	boxes   map[relay.Token]*relay.Mailbox
	mail    map[relay.Token][]letter
	late    map[relay.Token][]letter
	seq     uint64
	log     relay.Log
	origins int
	drops   map[string]memDrop
	chunks  map[relay.Token]map[string]map[int][]byte
	changed chan struct{} // closed and made anew at every change
	cut     map[signing.DID]bool
}

// SetFate has decide asked for every put from now on; nil: all is delivered.
func (m *Memory) SetFate(decide func(from, to signing.DID, envelope []byte) Fate) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fate = decide
}

type letter struct {
	relay.Mail
	delivered bool
}

type memDrop struct {
	owner relay.Token
	until time.Time
	blob  []byte
}

// NewMemory makes an empty relay that admits every key.
func NewMemory() *Memory {
	m := &Memory{key: Agent("relay in memory"), changed: make(chan struct{}), cut: make(map[signing.DID]bool)}
	m.clear()
	return m
}

func (m *Memory) clear() {
	m.boxes, m.mail, m.late = make(map[relay.Token]*relay.Mailbox), make(map[relay.Token][]letter), make(map[relay.Token][]letter)
	m.drops, m.chunks = make(map[string]memDrop), make(map[relay.Token]map[string]map[int][]byte)
	m.seq, m.log = 0, relay.Log{}
	m.origins++
}

// DID is the relay's identity.
func (m *Memory) DID() signing.DID { return m.key.DID() }

// Address is a name for it; nothing listens there.
func (m *Memory) Address() relay.Address {
	return relay.Address{URL: "ws://127.0.0.1:1", DID: m.key.DID()}
}

// Conn is a connection of an agent.
func (m *Memory) Conn(agent signing.Signer) *MemoryConn {
	return &MemoryConn{m: m, did: agent.DID(), self: relay.TokenOf(agent.DID())}
}

// Cut makes everything unavailable to an agent, or ends that.
func (m *Memory) Cut(agent signing.DID, off bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut[agent] = off
	m.wake()
}

// Forget loses the store: mail, keys, lists and chunks; sequences begin again.
// A client of the real relay would publish its key and list again by itself,
// so the twin keeps those.
func (m *Memory) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	boxes := m.boxes
	m.clear()
	m.boxes = boxes
	m.wake()
}

// Waiting is how many envelopes wait for an agent.
func (m *Memory) Waiting(agent signing.DID) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mail[relay.TokenOf(agent)])
}

// Checkpoint is the signed head of the twin's log.
func (m *Memory) Checkpoint() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, err := m.log.Head(m.key.DID(), m.origin(), time.Now())
	if err != nil {
		return nil, err
	}
	v, err := h.Sign(m.key)
	return v.Bytes(), err
}

func (m *Memory) origin() string { return fmt.Sprintf("%s/memory%d", m.key.DID(), m.origins) }

func (m *Memory) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// MemoryConn is one agent's connection to a [Memory].
type MemoryConn struct {
	m    *Memory
	did  signing.DID
	self relay.Token
}

// enter takes the lock, unless the agent is cut off.
func (c *MemoryConn) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return &spec.Error{Reason: spec.Unavailable, Err: ctx.Err()}
	}
	c.m.mu.Lock()
	if c.m.cut[c.did] {
		c.m.mu.Unlock()
		return spec.Refuse(spec.Unavailable, "", "cut off")
	}
	return nil
}

func (c *MemoryConn) Put(ctx context.Context, to signing.DID, envelope []byte, ticket string) (relay.Receipt, error) {
	if len(envelope) > relay.MaxEnvelope {
		return relay.Receipt{}, spec.Refuse(spec.TooLarge, "", "1 MiB")
	}
	fate := Deliver
	c.m.mu.Lock()
	decide := c.m.fate
	c.m.mu.Unlock()
	if decide != nil {
		fate = decide(c.did, to, envelope)
	}
	if fate == Refuse {
		return relay.Receipt{}, spec.Refuse(spec.Unavailable, "", "by fate")
	}
	if err := c.enter(ctx); err != nil {
		return relay.Receipt{}, err
	}
	defer c.m.mu.Unlock()
	now, dest := time.Now(), relay.TokenOf(to)
	h, err := relay.ReadHeader(envelope)
	if err != nil {
		return relay.Receipt{}, err
	}
	if h.To != to {
		return relay.Receipt{}, spec.Refuse(spec.Malformed, "/to", "not the mailbox")
	}
	if err := h.Fresh(now); err != nil {
		return relay.Receipt{}, err
	}
	box := c.m.boxes[dest]
	hash, err := box.MayPut(dest, c.self, ticket, len(envelope))
	if err != nil {
		return relay.Receipt{}, err
	}
	if err := box.Knows(h); err != nil {
		return relay.Receipt{}, err
	}
	if hash != "" {
		box.Use(hash)
	}
	c.store(dest, envelope, fate, now)
	if fate == Unsure {
		return relay.Receipt{}, spec.Refuse(spec.Unavailable, "", "by fate")
	}
	return c.receipt(h, envelope, now)
}

// store puts a letter where its fate says.
func (c *MemoryConn) store(to relay.Token, envelope []byte, fate Fate, now time.Time) {
	add := func() letter {
		c.m.seq++
		return letter{Mail: relay.Mail{Seq: c.m.seq, At: now, From: c.self, Envelope: slices.Clone(envelope)}}
	}
	switch l := add(); fate {
	case Lose:
	case Late:
		c.m.late[to] = append(c.m.late[to], l)
	default:
		c.m.mail[to] = append(c.m.mail[to], l)
		if fate == Twice {
			c.m.mail[to] = append(c.m.mail[to], add())
		}
		for _, l := range c.m.late[to] {
			c.m.seq++
			l.Seq = c.m.seq
			c.m.mail[to] = append(c.m.mail[to], l)
		}
		delete(c.m.late, to)
	}
	c.m.wake()
}

func (c *MemoryConn) receipt(h relay.Header, envelope []byte, now time.Time) (relay.Receipt, error) {
	r := relay.Receipt{RelayDid: c.m.key.DID(), EnvelopeDigest: signing.DigestOf(envelope), Commit: h.Commit, To: h.To,
		Sequence: int64(c.m.seq), At: signing.TimeOf(now), Sync: relay.SyncMemory, Origin: c.m.origin(), LeafIndex: c.m.log.Size()}
	leaf, err := r.Leaf()
	if err != nil {
		return relay.Receipt{}, err
	}
	if err := c.m.log.Append(leaf); err != nil {
		return relay.Receipt{}, err
	}
	v, err := r.Sign(c.m.key)
	if err != nil {
		return relay.Receipt{}, err
	}
	return relay.OpenReceipt(v.Bytes(), c.m.key.DID())
}

func (c *MemoryConn) Receive(ctx context.Context, inFlight int, take func(context.Context, []byte) relay.Verdict) error {
	return client.ReceiveFrom(ctx, c, inFlight, take)
}

// Get is as *client.Conn's.
func (c *MemoryConn) Get(ctx context.Context, after uint64, wait time.Duration) ([]relay.Mail, error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		if err := c.enter(ctx); err != nil {
			return nil, err
		}
		var out []relay.Mail
		box := c.m.mail[c.self]
		for i := range box {
			if len(out) < relay.MaxGetCount && (box[i].Seq > after || !box[i].delivered) {
				box[i].delivered = true
				out = append(out, box[i].Mail)
			}
		}
		changed := c.m.changed
		c.m.mu.Unlock()
		if len(out) > 0 || wait == 0 {
			return out, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return nil, nil
		case <-ctx.Done():
			return nil, &spec.Error{Reason: spec.Unavailable, Err: ctx.Err()}
		}
	}
}

// Ack is as *client.Conn's.
func (c *MemoryConn) Ack(ctx context.Context, upTo uint64, tag string) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.m.mu.Unlock()
	box := c.m.mail[c.self]
	i := slices.IndexFunc(box, func(l letter) bool { return l.Seq == upTo })
	if i >= 0 {
		if sum := sha256.Sum256(box[i].Envelope); hex.EncodeToString(sum[:relay.TagBytes]) == tag {
			c.m.mail[c.self] = slices.DeleteFunc(box, func(l letter) bool { return l.Seq <= upTo && l.delivered })
			return nil
		}
	}
	return spec.Refuse(spec.Stale, "/upTo", "get from 0 and ack again")
}

func (c *MemoryConn) box() *relay.Mailbox {
	b := c.m.boxes[c.self]
	if b == nil {
		b = &relay.Mailbox{}
		c.m.boxes[c.self] = b
	}
	return b
}

func (c *MemoryConn) PublishKey(ctx context.Context, kid signing.Digest, doc []byte) error {
	k := relay.Key{Kid: kid.String(), Doc: slices.Clone(doc)}
	if err := k.Check(); err != nil {
		return err
	}
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.m.mu.Unlock()
	c.box().Key = k
	return nil
}

func (c *MemoryConn) KeyOf(ctx context.Context, did signing.DID) ([]byte, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.m.mu.Unlock()
	of := relay.TokenOf(did)
	b := c.m.boxes[of]
	if _, err := b.MayPut(of, c.self, "", 0); err != nil || b.Key.Kid == "" {
		return nil, spec.Refuse(spec.NotFound, "", "")
	}
	return slices.Clone(b.Key.Doc), nil
}

func (c *MemoryConn) SetList(ctx context.Context, allow []signing.DID, tickets []string) error {
	l := relay.List{}
	for _, d := range allow {
		l.Allow = append(l.Allow, relay.TokenOf(d))
	}
	for _, t := range tickets {
		l.Tickets = append(l.Tickets, relay.TicketHash(t))
	}
	if err := l.Check(); err != nil {
		return err
	}
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.m.mu.Unlock()
	c.box().SetList(l)
	return nil
}

func (c *MemoryConn) DropPut(ctx context.Context, id string, blob []byte, until time.Time) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.m.mu.Unlock()
	d, is := c.m.drops[id]
	switch now := time.Now(); {
	case !relay.GoodID(id):
		return spec.Refuse(spec.Malformed, "/id", "32 to 64 hex digits")
	case len(blob) == 0 || len(blob) > relay.MaxDrop:
		return spec.Refuse(spec.TooLarge, "", "16 KiB")
	case !until.After(now) || until.After(now.Add(relay.MaxLife)):
		return spec.Refuse(spec.Malformed, "/expires", "≤ 14 days ahead")
	case is && d.owner != c.self:
		return spec.Refuse(spec.NotPermitted, "", "")
	}
	c.m.drops[id] = memDrop{c.self, until, slices.Clone(blob)}
	return nil
}

func (c *MemoryConn) DropGet(ctx context.Context, id string) ([]byte, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.m.mu.Unlock()
	d, ok := c.m.drops[id]
	if !ok || !time.Now().Before(d.until) {
		return nil, spec.Refuse(spec.NotFound, "", "")
	}
	return slices.Clone(d.blob), nil
}

func (c *MemoryConn) DropDelete(ctx context.Context, id string) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.m.mu.Unlock()
	if d, ok := c.m.drops[id]; !ok || d.owner != c.self {
		return spec.Refuse(spec.NotFound, "", "")
	}
	delete(c.m.drops, id)
	return nil
}

func (c *MemoryConn) PutChunk(ctx context.Context, _ signing.DID, id string, n int, chunk []byte) error {
	switch {
	case !relay.GoodID(id) || n < 0 || n >= relay.MaxChunks:
		return spec.Refuse(spec.Malformed, "/id", "32 to 64 hex digits, and a chunk below 16384")
	case len(chunk) == 0 || len(chunk) > relay.MaxChunk:
		return spec.Refuse(spec.TooLarge, "", "64 KiB")
	}
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.m.mu.Unlock()
	mine := c.m.chunks[c.self]
	if mine == nil {
		mine = make(map[string]map[int][]byte)
		c.m.chunks[c.self] = mine
	}
	if mine[id] == nil {
		mine[id] = make(map[int][]byte)
	}
	if _, there := mine[id][n]; !there {
		mine[id][n] = slices.Clone(chunk)
	}
	return nil
}

func (c *MemoryConn) GetChunk(ctx context.Context, from signing.DID, id string, n int) ([]byte, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.m.mu.Unlock()
	b, ok := c.m.chunks[relay.TokenOf(from)][id][n]
	if !ok {
		return nil, spec.Refuse(spec.NotFound, "", "")
	}
	return slices.Clone(b), nil
}

func (c *MemoryConn) HasChunks(ctx context.Context, from signing.DID, id string) ([][2]int, error) {
	if err := c.enter(ctx); err != nil {
		return nil, err
	}
	defer c.m.mu.Unlock()
	var ns []int
	for n := range c.m.chunks[relay.TokenOf(from)][id] {
		ns = append(ns, n)
	}
	sort.Ints(ns)
	return relay.Runs(ns), nil
}

func (c *MemoryConn) DropChunks(ctx context.Context, id string) error {
	if err := c.enter(ctx); err != nil {
		return err
	}
	defer c.m.mu.Unlock()
	delete(c.m.chunks[c.self], id)
	return nil
}
