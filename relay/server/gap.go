package server

import (
	"errors"

	"sealbridge/relay"
)

// fill looks into gaps that were there at the last look already: sequences that
// an attached store gave to puts whose answers were lost with a node. What is
// there comes into the index; a sequence that the leader does not know at two
// looks was never given to an envelope.
func (m *mail) fill() error {
	var errs error
	for k := range relay.Shards {
		m.mu.Lock()
		x := &m.shards[k]
		seq, open := x.next, len(x.ahead) > 0
		known := open && x.gap == seq
		x.gap = 0
		if open {
			x.gap = seq
		}
		m.mu.Unlock()
		if known {
			errs = errors.Join(errs, m.fillAt(k, seq))
		}
	}
	return errs
}

// fillAt accounts for what stands at a sequence and, with it, for every gap up
// to the last that is known.
func (m *mail) fillAt(k int, seq uint64) error {
	for more := true; more; {
		msg, err := m.st.readLeader(mailStream(k), seqSelector(seq))
		var r record
		switch {
		case err == nil:
			if r, err = recordOf(msg); err != nil {
				return err
			}
		case !errors.Is(err, errGone):
			return err
		}
		seq, more = m.account(k, seq, r)
	}
	return nil
}

// account takes a record, or nothing, as what stands at a sequence; it returns
// the next gap, if there is one.
func (m *mail) account(k int, seq uint64, r record) (next uint64, more bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := &m.shards[k]
	if x.next == seq { // else its put was answered meanwhile
		to, from, ok := relay.ParseMail(r.subject)
		if ok {
			m.insert(to, m.entryOf(r, from))
		}
		x.ahead[seq] = to
		m.advance(x)
	}
	return x.next, len(x.ahead) > 0
}
