package server

import (
	"bytes"
	"errors"
	"net/http"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/promhttp"

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

// Kick ends an agent's connections, as a network would.
func Kick(s *Server, who signing.DID) { s.auth.kick(relay.TokenOf(who), 0) }

// Listening is where the relay itself listens, whatever owners dial.
func Listening(s *Server) string { return s.broker.url() }

// Metrics serves what /metrics does.
func Metrics(s *Server) http.Handler {
	return promhttp.HandlerFor(s.metrics.reg, promhttp.HandlerOpts{})
}

// Fill stores envelopes past all checks, many at once: for benchmarks of what
// comes after.
func Fill(s *Server, n int, envelope []byte, to func(i int) signing.DID, from signing.DID) error {
	var mu sync.Mutex // guards errs
	var errs error
	inParallel(n, 64, func(i int) {
		if _, err := s.st.publish(relay.MailSubject(relay.TokenOf(to(i)), relay.TokenOf(from)), envelope); err != nil {
			mu.Lock()
			errs = errors.Join(errs, err)
			mu.Unlock()
		}
	})
	return errs
}

// ReadBackup reads a backup as Restore does.
func ReadBackup(b []byte) (About, error) {
	_, _, about, err := readBackup(bytes.NewReader(b))
	return about, err
}
