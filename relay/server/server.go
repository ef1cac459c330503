package server

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"sealbridge/relay"
	"sealbridge/signing"
)

const (
	loginWait   = 4 * time.Second // below the server's own 5 s
	greetWithin = 10 * time.Second
	loginMemory = 30 * 24 * time.Hour
	trimEvery   = 25 * time.Millisecond
	sweepEvery  = 10 * time.Second
	fillEvery   = time.Second
)

// errFailed stands for a fault that only a restart cures.
var errFailed = errors.New("the relay stopped taking after a fault of its store")

// Server is a running relay.
type Server struct {
	cfg     Config
	log     *slog.Logger
	broker  broker
	auth    *auth
	in      *ingress
	st      store
	state   *state
	mail    *mail
	objects *objects
	custody *custody
	metrics *metrics
	address relay.Address
	ingress *nats.Conn
	subs    []*nats.Subscription
	ops     *opsServer
	admin   *adminServer

	ready    chan struct{} // closed when the state is read
	stopping chan struct{} // closed when the end begins
	faulted  chan struct{} // closed when the store had a fault: takes nothing until restarted
	fault    sync.Once
	full     atomic.Bool // the disk is nearly full
	parked   sync.WaitGroup
	loops    sync.WaitGroup
	end      sync.Once

	helloMu   sync.Mutex // guards what follows
	helloDoc  []byte
	helloAt   time.Time
	helloKeys []signing.Digest
}

// Start opens the store, listens, and returns once it serves.
func Start(ctx context.Context, c Config) (*Server, error) {
	if c.Dir != "" {
		if err := os.MkdirAll(c.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("making the store: %w", err)
		}
	}
	host, port, err := c.validate()
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: c, log: c.Log, ready: make(chan struct{}), stopping: make(chan struct{}), faulted: make(chan struct{})}
	s.metrics = newMetrics(s)
	if err := s.start(ctx, host, port); err != nil {
		s.Close() //nolint:errcheck // the first error is the one to tell
		return nil, err
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, host string, port int) (err error) {
	if err := s.reach(ctx, host, port); err != nil {
		return err
	}
	if err := s.load(ctx); err != nil {
		return err
	}
	if err := s.alone(); err != nil {
		return err
	}
	s.address = s.whereWeAre()
	s.checkDisk()
	s.in = newIngress(s)
	if s.subs, err = s.in.start(s.ingress); err != nil {
		return fmt.Errorf("subscribing: %w", err)
	}
	if err := s.ingress.Flush(); err != nil {
		return fmt.Errorf("subscribing: %w", err)
	}
	s.loops.Go(s.custody.run)
	s.loops.Go(s.trimLoop)
	s.loops.Go(s.sweepLoop)
	if s.st.attached {
		s.loops.Go(s.fillLoop)
	}
	if s.admin, err = startAdmin(s); err != nil {
		return err
	}
	if s.ops, err = startOps(s); err != nil {
		return err
	}
	close(s.ready)
	return nil
}

func (s *Server) load(ctx context.Context) error {
	if err := s.st.create(ctx, s.cfg.Quotas); err != nil {
		return err
	}
	s.state = &state{st: s.st, cfg: &s.cfg}
	s.mail = &mail{st: s.st, cfg: &s.cfg}
	s.objects = &objects{st: s.st, cfg: &s.cfg}
	if err := errors.Join(s.state.load(), s.mail.load(), s.objects.load()); err != nil {
		return err
	}
	s.custody = newCustody(s, s.cfg.Signer.DID().String()+"/"+s.state.name)
	return s.custody.load()
}

func (s *Server) whereWeAre() relay.Address {
	a := relay.Address{URL: s.cfg.URL, DID: s.cfg.Signer.DID()}
	if a.URL == "" {
		a.URL = s.broker.url()
	}
	return a
}

// Address is what owners dial, with the relay's identity.
func (s *Server) Address() relay.Address { return s.address }

// OpsAddress is where /healthz, /readyz and /metrics are, "" for nowhere.
func (s *Server) OpsAddress() string {
	if s.ops == nil {
		return ""
	}
	return s.ops.addr
}

// Drain stops taking, finishes what it took, answers who waits with nothing,
// and closes.
func (s *Server) Drain(ctx context.Context) error {
	done := make(chan error, 1)
	go func() { done <- s.Close() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close is Drain without a limit; it may be called twice.
func (s *Server) Close() error {
	s.end.Do(func() {
		close(s.stopping)
		s.ops.close()
		s.admin.close()
		for _, sub := range s.subs {
			sub.Unsubscribe() //nolint:errcheck // what it had is in our queues
		}
		if s.in != nil {
			s.in.finish()
			s.mail.wakeAll()
			s.parked.Wait()
			close(s.custody.in)
		}
		s.loops.Wait()
		if s.mail != nil && s.mail.dirty != nil {
			if err := s.mail.trim(); err != nil {
				s.log.Warn("trimming", "error", err)
			}
		}
		for _, nc := range []*nats.Conn{s.ingress, s.st.nc} {
			if nc != nil {
				nc.FlushTimeout(time.Second) //nolint:errcheck // best effort before the end
				nc.Close()
			}
		}
		if s.broker != nil {
			s.broker.close()
		}
	})
	return nil
}

// fail is the end of taking: what the store may have done is not known.
func (s *Server) fail(doing string, err error) {
	s.fault.Do(func() {
		close(s.faulted)
		s.log.Error("taking nothing until restarted", "while", doing, "error", err)
	})
}

// Faulted is closed when the relay has to be restarted: its store had a fault.
func (s *Server) Faulted() <-chan struct{} { return s.faulted }

// Failed says whether it is closed.
func (s *Server) Failed() bool {
	select {
	case <-s.faulted:
		return true
	default:
		return false
	}
}

func (s *Server) trimLoop() {
	t := time.NewTicker(trimEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if err := s.mail.trim(); err != nil {
				s.log.Warn("trimming", "error", err)
			}
		case <-s.stopping:
			return
		}
	}
}

func (s *Server) fillLoop() {
	t := time.NewTicker(fillEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if err := s.mail.fill(); err != nil {
				s.log.Warn("looking for lost answers", "error", err)
			}
		case <-s.stopping:
			return
		}
	}
}

func (s *Server) sweepLoop() {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	disk := time.NewTicker(s.diskEvery())
	defer disk.Stop()
	counted := time.Now()
	for {
		select {
		case <-disk.C:
			s.checkDisk()
			continue
		case <-t.C:
		case <-s.stopping:
			return
		}
		now := s.cfg.Now()
		s.mail.sweep(now)
		s.in.sweep(now)
		s.auth.forget(now)
		err := s.state.sweep(now)
		if time.Since(counted) > recount {
			counted, err = time.Now(), errors.Join(err, s.objects.load())
		}
		if err != nil {
			s.log.Warn("sweeping", "error", err)
		}
	}
}

// diskEvery is how often the room is looked at: a disk can fill within seconds,
// an account's room is asked for over the network.
func (s *Server) diskEvery() time.Duration {
	if s.st.attached {
		return sweepEvery
	}
	return time.Second
}

func (s *Server) checkDisk() {
	free, all, ok := s.broker.room()
	full := ok && float64(free) < s.cfg.KeepFree*float64(all)
	if full != s.full.Swap(full) {
		s.log.Warn("disk", "taking", !full, "free", free)
	}
}

// shown are the certificates that a TLS configuration shows now.
func shown(c *tls.Config) (out []*x509.Certificate) {
	if c == nil {
		return nil
	}
	certs := c.Certificates
	if c.GetCertificate != nil {
		certs = nil
		if cert, err := c.GetCertificate(&tls.ClientHelloInfo{}); err == nil && cert != nil {
			certs = []tls.Certificate{*cert}
		}
	}
	for _, cert := range certs {
		if leaf, err := x509.ParseCertificate(cert.Certificate[0]); err == nil {
			out = append(out, leaf)
		}
	}
	return out
}

// tlsKeys are the keys that clients will see.
func (s *Server) tlsKeys() []signing.Digest {
	out := []signing.Digest{}
	for _, leaf := range shown(s.cfg.TLS) {
		out = append(out, TLSKey(leaf))
	}
	if s.cfg.TLSKeys != nil {
		out = append(out, s.cfg.TLSKeys()...)
	}
	return out
}

// TLSKey is what a hello calls a certificate's key: SHA-256 of its
// SubjectPublicKeyInfo (R3).
func TLSKey(leaf *x509.Certificate) signing.Digest {
	return signing.DigestFrom(sha256.Sum256(leaf.RawSubjectPublicKeyInfo))
}

// certificateLeft is how long the first certificate to expire is good.
func certificateLeft(c *tls.Config, now time.Time) (left time.Duration) {
	for i, leaf := range shown(c) {
		if l := leaf.NotAfter.Sub(now); i == 0 || l < left {
			left = l
		}
	}
	return left
}

// Dir is where the store and the admin socket are.
func (s *Server) Dir() string { return s.cfg.Dir }
