package relay

import (
	"slices"

	"sealbridge/spec"
)

// Mailbox is what a relay knows of a mailbox beside its mail: the current
// box-key and who may put. The zero Mailbox takes nothing from anybody.
type Mailbox struct {
	Key  Key
	List List
	Used map[string]int // of each ticket on the list, by hash
}

// refused is the one answer to a put that may not be: it is the same whether
// the mailbox exists or not (R3b).
func refused() error { return spec.Refuse(spec.NotPermitted, "", "") }

// MayPut says whether from may put size bytes, and if only by a ticket, its
// hash, which the caller counts with [Mailbox.Use]. A nil Mailbox does not exist.
func (m *Mailbox) MayPut(to, from Token, ticket string, size int) (hash string, err error) {
	switch {
	case m == nil:
		return "", refused()
	case from == to || slices.Contains(m.List.Allow, from):
		return "", nil
	}
	hash = TicketHash(ticket)
	if hash == "" || size > TicketBytes || !slices.Contains(m.List.Tickets, hash) || m.Used[hash] >= TicketUses {
		return "", refused()
	}
	return hash, nil
}

// Use counts one use of a ticket.
func (m *Mailbox) Use(hash string) {
	if m.Used == nil {
		m.Used = make(map[string]int)
	}
	m.Used[hash]++
}

// Unuse takes it back, where nothing was stored.
func (m *Mailbox) Unuse(hash string) { m.Used[hash]-- }

// Knows refuses an envelope that is sealed to another key than the current one (R2).
func (m *Mailbox) Knows(h Header) error {
	if m.Key.Kid == "" || h.Kid.String() != m.Key.Kid {
		return spec.Refuse(spec.UnknownKey, "/kid", "R2")
	}
	return nil
}

// SetList replaces the list; tickets that stay keep their count.
func (m *Mailbox) SetList(l List) {
	used := make(map[string]int)
	for _, t := range l.Tickets {
		if n := m.Used[t]; n > 0 {
			used[t] = n
		}
	}
	m.List, m.Used = l, used
}
