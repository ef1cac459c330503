package console

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"sealbridge/gateway"
)

// health says how this gateway is: what doctor says, and figures.
func (s *Server) health(v *visit) error {
	st, err := s.Gateway.Status(v.Context(), owner, gateway.None{})
	if err != nil {
		return err
	}
	var b struct {
		gateway.Status
		Since, Certificate string
		Findings           []Finding
		Counts             []figure
	}
	b.Status, b.Since, b.Certificate = st, s.clock(st.Started), s.clock(st.Certificate)
	for what, n := range st.Counts {
		b.Counts = append(b.Counts, figure{what, n})
	}
	slices.SortFunc(b.Counts, func(a, c figure) int { return strings.Compare(a.What, c.What) })
	b.Findings = s.findings(v.Context())
	return s.render(v, http.StatusOK, "health", "health", "Health", b)
}

// findings are looked for again after a while only: a live page asks whenever
// something is written, and looking starts a program in a box.
func (s *Server) findings(ctx context.Context) []Finding {
	if s.Health == nil {
		return nil
	}
	l := &s.looked
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := s.Now(); l.at.IsZero() || now.Sub(l.at) >= looksEvery {
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), looksEvery) // what is found is for the next page too
		defer stop()
		l.found, l.at = s.Health(ctx), now
	}
	return l.found
}

const looksEvery = 30 * time.Second

// looked is what was found last.
type looked struct {
	mu    sync.Mutex // guards both; one look at a time
	at    time.Time
	found []Finding
}

type figure struct {
	What string
	N    int64
}
