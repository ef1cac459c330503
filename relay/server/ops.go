package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what an operator may know; no key is a label.
type metrics struct {
	reg      *prometheus.Registry
	puts     prometheus.Counter
	putBytes prometheus.Counter
	gets     prometheus.Counter
	dropped  prometheus.Counter
	refused  *prometheus.CounterVec
	logins   *prometheus.CounterVec
	took     *prometheus.HistogramVec
}

func newMetrics(s *Server) *metrics {
	name := func(n, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Namespace: "sealbridge", Subsystem: "relay", Name: n, Help: help}
	}
	m := &metrics{
		reg:      prometheus.NewRegistry(),
		puts:     prometheus.NewCounter(name("puts_total", "Envelopes taken.")),
		putBytes: prometheus.NewCounter(name("put_bytes_total", "Bytes of envelopes taken.")),
		gets:     prometheus.NewCounter(name("delivered_total", "Envelopes handed over, repetitions counted.")),
		dropped:  prometheus.NewCounter(name("dropped_total", "Requests dropped in silence: a reply subject that is not the sender's.")),
		refused:  prometheus.NewCounterVec(name("refused_total", "Requests refused, by word."), []string{"word"}),
		logins:   prometheus.NewCounterVec(name("logins_total", "Logins, by outcome."), []string{"outcome"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "sealbridge", Subsystem: "relay", Name: "request_seconds",
			Help: "Time to an answer, by verb; waiting gets excluded.", Buckets: prometheus.ExponentialBuckets(0.0001, 4, 8)}, []string{"verb"}),
	}
	gauge := func(n, help string, f func(Stats) float64) {
		m.reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: "sealbridge", Subsystem: "relay", Name: n, Help: help},
			func() float64 { return f(s.Stats()) }))
	}
	m.reg.MustRegister(m.puts, m.putBytes, m.gets, m.dropped, m.refused, m.logins, m.took)
	gauge("waiting_envelopes", "Envelopes that wait.", func(x Stats) float64 { return float64(x.Waiting) })
	gauge("waiting_bytes", "Bytes of envelopes that wait.", func(x Stats) float64 { return float64(x.WaitingBytes) })
	gauge("oldest_waiting_seconds", "Age of the oldest envelope that waits.", func(x Stats) float64 { return x.OldestAge.Seconds() })
	gauge("file_bytes", "Bytes of chunks, counted as whole chunks.", func(x Stats) float64 { return float64(x.FileBytes) })
	gauge("members", "Keys with a mailbox.", func(x Stats) float64 { return float64(x.Members) })
	gauge("connections", "Open connections.", func(x Stats) float64 { return float64(x.Connections) })
	gauge("log_leaves", "Receipts in the custody log.", func(x Stats) float64 { return float64(x.LogLeaves) })
	gauge("disk_free_bytes", "Free bytes on the disk of the store.", func(x Stats) float64 { return float64(x.DiskFree) })
	gauge("taking", "1 while puts are taken.", func(x Stats) float64 {
		if x.Taking {
			return 1
		}
		return 0
	})
	gauge("certificate_seconds", "Until the first TLS certificate expires; 0 without TLS.", func(x Stats) float64 { return x.Certificate.Seconds() })
	return m
}

// Stats is the relay at this moment.
type Stats struct {
	Waiting      int           `json:"waiting"`
	WaitingBytes int64         `json:"waitingBytes"`
	OldestAge    time.Duration `json:"oldestAge"`
	FileBytes    int64         `json:"fileBytes"`
	Members      int           `json:"members"`
	Connections  int           `json:"connections"`
	LogLeaves    int64         `json:"logLeaves"`
	DiskFree     int64         `json:"diskFree"`
	Taking       bool          `json:"taking"`
	Certificate  time.Duration `json:"certificate"`
}

// Stats counts.
func (s *Server) Stats() (x Stats) {
	select {
	case <-s.ready:
	default:
		return x
	}
	var oldest time.Time
	x.Waiting, x.WaitingBytes, oldest = s.mail.total()
	if !oldest.IsZero() {
		x.OldestAge = s.cfg.Now().Sub(oldest)
	}
	x.FileBytes = s.objects.total()
	s.state.mu.Lock()
	x.Members = len(s.state.members)
	s.state.mu.Unlock()
	s.custody.mu.Lock()
	x.LogLeaves = s.custody.log.Size()
	s.custody.mu.Unlock()
	x.Connections = s.broker.clients()
	x.DiskFree, _, _ = s.broker.room()
	x.Taking = !s.Failed() && !s.full.Load()
	x.Certificate = certificateLeft(s.cfg.TLS, s.cfg.Now())
	return x
}

// opsServer answers the operator's machines, apart from the public port.
type opsServer struct {
	http *http.Server
	addr string
	done chan struct{}
}

func startOps(s *Server) (*opsServer, error) {
	if s.cfg.OpsListen == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", s.cfg.OpsListen)
	if err != nil {
		return nil, fmt.Errorf("listening for ops: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := s.notReady(); why != "" {
			http.Error(w, why, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.reg, promhttp.HandlerOpts{}))
	o := &opsServer{http: &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}, addr: l.Addr().String(), done: make(chan struct{})}
	go func() {
		defer close(o.done)
		if err := o.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("ops port", "error", err)
		}
	}()
	return o, nil
}

func (s *Server) notReady() string {
	select {
	case <-s.stopping:
		return "stopping"
	default:
	}
	select {
	case <-s.ready:
	default:
		return "starting"
	}
	switch {
	case s.Failed():
		return "the store had a fault: restart"
	case s.full.Load():
		return "the disk is nearly full"
	}
	return ""
}

func (o *opsServer) close() {
	if o == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if o.http.Shutdown(ctx) != nil {
		o.http.Close() //nolint:errcheck // nothing more to do
	}
	<-o.done
}
