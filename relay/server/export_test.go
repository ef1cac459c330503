package server

import (
	"github.com/nats-io/nats.go"

	"sealbridge/relay"
	"sealbridge/signing"
)

// Stored is what lies in a mailbox, as the store gives it.
func Stored(s *Server, to signing.DID) (out []*nats.Msg) {
	t := relay.TokenOf(to)
	s.mail.mu.Lock()
	defer s.mail.mu.Unlock()
	for _, e := range s.mail.boxes[t].entries {
		if m, err := s.st.read(mailStream(relay.Shard(t)), seqSelector(e.seq)); err == nil {
			out = append(out, m)
		}
	}
	return out
}
