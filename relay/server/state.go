package server

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"sealbridge/relay"
	"sealbridge/spec"
)

// member is a key with a mailbox here.
type member struct {
	Since time.Time `json:"since"`
}

type ban struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// joinTicket lets new members in; it is kept by its hash.
type joinTicket struct {
	Uses  int       `json:"uses"`
	Until time.Time `json:"until"`
}

type drop struct {
	Owner relay.Token `json:"owner"`
	Until time.Time   `json:"until"`
	Blob  []byte      `json:"blob"`
}

// state is everything but mail and files: in memory, and in one stream with
// one message for each subject. What is not written is not so.
type state struct {
	st   store
	cfg  *Config
	name string // of this store: a new store is a new log

	mu      sync.Mutex // guards what follows and orders the writes
	members map[relay.Token]member
	bans    map[relay.Token]ban
	join    map[string]joinTicket
	boxes   map[relay.Token]*relay.Mailbox
	drops   map[string]drop
}

// load reads the stream. A record that cannot be read stops the start.
func (s *state) load() error {
	s.members, s.bans, s.join = make(map[relay.Token]member), make(map[relay.Token]ban), make(map[string]joinTicket)
	s.boxes, s.drops = make(map[relay.Token]*relay.Mailbox), make(map[string]drop)
	err := s.st.scan(stateStream, "sb.s.>", func(r record) error {
		kind, key, _ := strings.Cut(strings.TrimPrefix(r.subject, "sb.s."), ".")
		if len(r.body) == 0 { // taken back
			return nil
		}
		if err := s.put(kind, key, r.body); err != nil {
			return fmt.Errorf("reading %s: %w", r.subject, err)
		}
		return nil
	})
	if err == nil && s.name == "" {
		s.name = randomHex(8)
		err = s.write("store", "name", s.name)
	}
	return err
}

func (s *state) put(kind, key string, body []byte) error {
	switch kind {
	case "store":
		return json.Unmarshal(body, &s.name)
	case "join":
		return into(s.join, key, body)
	case "drop":
		return into(s.drops, key, body)
	}
	t, err := relay.ParseToken(key)
	if err != nil {
		return err
	}
	switch kind {
	case "member":
		return into(s.members, t, body)
	case "ban":
		return into(s.bans, t, body)
	case "box":
		return into(s.boxes, t, body)
	}
	return fmt.Errorf("unknown kind %q", kind)
}

func into[K comparable, V any](m map[K]V, k K, body []byte) error {
	var v V
	err := json.Unmarshal(body, &v)
	m[k] = v
	return err
}

// write makes a value durable; nil takes it back.
func (s *state) write(kind, key string, v any) error {
	var body []byte
	if v != nil {
		body = relay.Write(v)
	}
	if _, err := s.st.publish("sb.s."+kind+"."+key, body); err != nil {
		return storeError(err)
	}
	return nil
}

// login says whether a key may come in, and whether as a member. A join ticket
// makes it one.
func (s *state) login(self relay.Token, join string, now time.Time) (isMember, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, banned := s.bans[self]; banned {
		return false, false
	}
	if _, is := s.members[self]; is {
		return true, true
	}
	if s.cfg.Admission != Open {
		if join == "" {
			return false, true // a guest: may put to whoever lists it
		}
		h := relay.TicketHash(join)
		t, known := s.join[h]
		if !known || t.Uses < 1 || !now.Before(t.Until) {
			return false, false
		}
		t.Uses--
		if s.write("join", h, t) != nil {
			return false, false
		}
		s.join[h] = t
	}
	m := member{Since: now.UTC()}
	if s.write("member", self.String(), m) != nil {
		return false, false
	}
	s.members[self] = m
	return true, true
}

// box is a member's mailbox, made when it is first written to; s.mu is held.
func (s *state) box(self relay.Token) relay.Mailbox {
	if b := s.boxes[self]; b != nil {
		return *b
	}
	return relay.Mailbox{}
}

func (s *state) setKey(self relay.Token, k relay.Key) error {
	if err := k.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.box(self)
	b.Key = relay.Key{Kid: k.Kid, Doc: k.Doc}
	return s.setBox(self, b)
}

func (s *state) setList(self relay.Token, l relay.List) error {
	if err := l.Check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.box(self)
	b.SetList(l)
	return s.setBox(self, b)
}

func (s *state) setBox(self relay.Token, b relay.Mailbox) error {
	if err := s.write("box", self.String(), b); err != nil {
		return err
	}
	s.boxes[self] = &b
	return nil
}

// keyOf answers only those whom the mailbox lists: who else asks learns not
// even whether there is one.
func (s *state) keyOf(of, by relay.Token) (relay.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.boxes[of]
	if _, err := b.MayPut(of, by, "", 0); err != nil || b.Key.Kid == "" {
		return relay.Key{}, spec.Refuse(spec.NotFound, "", "")
	}
	return b.Key, nil
}

// mayPut judges a put by its mailbox. A ticket's use is durable before the
// envelope is taken; undo gives it back in memory where nothing was stored.
func (s *state) mayPut(to, from relay.Token, ticket string, h relay.Header, size int) (undo func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.boxes[to]
	hash, err := b.MayPut(to, from, ticket, size)
	if err != nil {
		return nil, err
	}
	if err := b.Knows(h); err != nil {
		return nil, err
	}
	if hash == "" {
		return func() {}, nil
	}
	b.Use(hash)
	if err := s.write("box", to.String(), b); err != nil {
		b.Unuse(hash)
		return nil, err
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if now := s.boxes[to]; now != nil && now.Used[hash] > 0 {
			now.Unuse(hash)
		}
	}, nil
}

// lists says whether to takes mail from from without a ticket.
func (s *state) lists(to, from relay.Token) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.boxes[to].MayPut(to, from, "", 0)
	return err == nil
}

func (s *state) isMember(t relay.Token) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.members[t]
	return ok
}

func (s *state) dropPut(self relay.Token, id string, blob []byte, until, now time.Time) error {
	switch {
	case !relay.GoodID(id):
		return spec.Refuse(spec.Malformed, "/id", "32 to 64 hex digits")
	case len(blob) == 0 || len(blob) > relay.MaxDrop:
		return spec.Refuse(spec.TooLarge, "", "16 KiB")
	case !until.After(now) || until.After(now.Add(relay.MaxLife)):
		return spec.Refuse(spec.Malformed, "/expires", "≤ 14 days ahead")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	for k, d := range s.drops {
		if d.Owner == self && k != id {
			count++
		}
	}
	if d, is := s.drops[id]; is && d.Owner != self {
		return spec.Refuse(spec.NotPermitted, "", "")
	}
	if count >= s.cfg.Quotas.Drops {
		return spec.Refuse(spec.Quota, "", fmt.Sprintf("%d invites waiting", s.cfg.Quotas.Drops))
	}
	d := drop{self, until.UTC(), blob}
	if err := s.write("drop", id, d); err != nil {
		return err
	}
	s.drops[id] = d
	return nil
}

func (s *state) dropGet(id string, now time.Time) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.drops[id]
	if !ok || !now.Before(d.Until) {
		return nil, spec.Refuse(spec.NotFound, "", "")
	}
	return d.Blob, nil
}

func (s *state) dropDel(self relay.Token, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d, ok := s.drops[id]; !ok || d.Owner != self {
		return spec.Refuse(spec.NotFound, "", "")
	}
	if err := s.write("drop", id, nil); err != nil {
		return err
	}
	delete(s.drops, id)
	return nil
}

// sweep takes back what has expired.
func (s *state) sweep(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, d := range s.drops {
		if !now.Before(d.Until) {
			if err := s.write("drop", id, nil); err != nil {
				return err
			}
			delete(s.drops, id)
		}
	}
	for h, t := range s.join {
		if !now.Before(t.Until) {
			if err := s.write("join", h, nil); err != nil {
				return err
			}
			delete(s.join, h)
		}
	}
	return nil
}

// admit makes a join ticket; the relay keeps its hash.
func (s *state) admit(uses int, until time.Time) (ticket string, err error) {
	if uses < 1 || uses > 1000 {
		return "", spec.Refuse(spec.Malformed, "/uses", "1 to 1000")
	}
	var raw [16]byte
	rand.Read(raw[:]) //nolint:errcheck // never fails
	ticket = base64.RawURLEncoding.EncodeToString(raw[:])
	s.mu.Lock()
	defer s.mu.Unlock()
	h, t := relay.TicketHash(ticket), joinTicket{uses, until.UTC()}
	if err := s.write("join", h, t); err != nil {
		return "", err
	}
	s.join[h] = t
	return ticket, nil
}

func (s *state) ban(t relay.Token, reason string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := ban{now.UTC(), reason}
	if err := s.write("ban", t.String(), b); err != nil {
		return err
	}
	s.bans[t] = b
	return nil
}

// forget takes back everything that is known of a key, a ban excepted.
func (s *state) forget(t relay.Token) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range []string{"member", "box"} {
		if err := s.write(kind, t.String(), nil); err != nil {
			return err
		}
	}
	delete(s.members, t)
	delete(s.boxes, t)
	for id, d := range s.drops {
		if d.Owner == t {
			if err := s.write("drop", id, nil); err != nil {
				return err
			}
			delete(s.drops, id)
		}
	}
	return nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	rand.Read(b) //nolint:errcheck // never fails
	return hex.EncodeToString(b)
}

func decodeSig(s string) ([]byte, bool) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	return b, err == nil && len(b) == 64
}
