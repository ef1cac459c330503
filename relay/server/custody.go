package server

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"sealbridge/relay"
	"sealbridge/signing"
)

// custody is the log of receipts. One goroutine gives out indexes and writes
// the leaves; receipts are signed while the leaves are written, and leave only
// after.
type custody struct {
	s      *Server
	origin string
	in     chan *leaf
	done   chan struct{}

	last uint64 // sequence of the stream; belongs to load, then to run

	mu  sync.Mutex // guards log
	log relay.Log
}

// leaf is a receipt on its way.
type leaf struct {
	r       relay.Receipt
	indexed chan struct{} // r is complete
	durable chan error
}

const maxGroup = 256 // leaves in one write: 8 KiB

func newCustody(s *Server, origin string) *custody {
	return &custody{s: s, origin: origin, in: make(chan *leaf, maxGroup), done: make(chan struct{})}
}

func (c *custody) subject() string { return "sb.l." + c.s.state.name }

// load reads the leaves of this store's log.
func (c *custody) load() (err error) {
	if c.last, err = c.s.st.last(logStream); err != nil {
		return err
	}
	return c.s.st.scan(logStream, c.subject(), func(r record) error {
		if len(r.body)%32 != 0 {
			return fmt.Errorf("custody log: record %d has %d bytes", r.seq, len(r.body))
		}
		for b := r.body; len(b) > 0; b = b[32:] {
			if err := c.log.Append(signing.DigestFrom([32]byte(b))); err != nil {
				return err
			}
		}
		return nil
	})
}

// run ends when in is closed.
func (c *custody) run() {
	defer close(c.done)
	for first := range c.in {
		group := []*leaf{first}
	gather:
		for len(group) < maxGroup {
			select {
			case l, ok := <-c.in:
				if !ok {
					break gather
				}
				group = append(group, l)
			default:
				break gather
			}
		}
		err := c.commit(group)
		if err != nil {
			c.s.fail("writing the custody log", err)
		}
		for _, l := range group {
			l.durable <- err
		}
	}
}

func (c *custody) commit(group []*leaf) error {
	if c.s.Failed() { // an index was given out and may not be written: never again
		return errFailed
	}
	c.mu.Lock()
	next := c.log.Size()
	c.mu.Unlock()
	body := make([]byte, 0, 32*len(group))
	leaves := make([]signing.Digest, len(group))
	for i, l := range group {
		l.r.LeafIndex = next + int64(i)
		d, err := l.r.Leaf()
		if err != nil {
			return err
		}
		close(l.indexed)
		sum := d.Sum()
		leaves[i], body = d, append(body, sum[:]...)
	}
	if err := c.write(body); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range leaves {
		if err := c.log.Append(d); err != nil {
			return err
		}
	}
	return nil
}

// write makes leaves durable, once. Within us an unknown outcome is a fault of
// the store; a cluster that changes leaders is asked until it answers.
func (c *custody) write(body []byte) error {
	for until := time.Now().Add(insist); ; {
		seq, err := c.s.st.append(c.subject(), body, c.last)
		if errors.Is(err, errPassed) { // ours, of an earlier try? else another relay writes here
			var m *nats.Msg
			if m, err = c.s.st.readLeader(logStream, seqSelector(c.last+1)); err == nil && !bytes.Equal(m.Data, body) {
				return errPassed
			}
			seq = c.last + 1
		}
		if err == nil {
			c.last = seq
			return nil
		}
		if !c.s.st.attached || time.Now().After(until) {
			return err
		}
		time.Sleep(ensurePause)
	}
}

// insist is how long an answer of a cluster is waited for: longer than it takes
// to elect a leader.
const insist = time.Minute

// receipt makes r a leaf and a signed document. It returns once both are so.
func (c *custody) receipt(r relay.Receipt) ([]byte, error) {
	r.RelayDid, r.Origin, r.Sync = c.s.cfg.Signer.DID(), c.origin, c.s.cfg.Sync
	l := &leaf{r: r, indexed: make(chan struct{}), durable: make(chan error, 1)}
	c.in <- l
	select {
	case <-l.indexed:
	case err := <-l.durable:
		if err != nil {
			return nil, err
		}
		l.durable <- nil
	}
	v, err := l.r.Sign(c.s.cfg.Signer)
	if err != nil {
		<-l.durable
		return nil, err
	}
	if err := <-l.durable; err != nil {
		return nil, err
	}
	return v.Bytes(), nil
}

// Checkpoint is the signed head of the custody log (R7).
func (s *Server) Checkpoint() ([]byte, error) {
	c := s.custody
	c.mu.Lock()
	head, err := c.log.Head(s.cfg.Signer.DID(), c.origin, s.cfg.Now())
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	v, err := head.Sign(s.cfg.Signer)
	return v.Bytes(), err
}

// Prove is the audit path of a receipt in the log of size leaves.
func (s *Server) Prove(size, leafIndex int64) ([]signing.Digest, error) {
	s.custody.mu.Lock()
	defer s.custody.mu.Unlock()
	return s.custody.log.Prove(size, leafIndex)
}

// ProveFollows is the consistency proof from older to size leaves.
func (s *Server) ProveFollows(size, older int64) ([]signing.Digest, error) {
	s.custody.mu.Lock()
	defer s.custody.mu.Unlock()
	return s.custody.log.ProveFollows(size, older)
}
