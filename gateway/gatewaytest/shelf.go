package gatewaytest

import (
	"context"
	"sync"

	"sealbridge/signing/jcs"
)

// Shelf is the twin of an owner's tools: it keeps what they received, and
// answers every call alike. The zero Shelf answers with an empty result.
type Shelf struct {
	mu     sync.Mutex // guards what follows
	got    []string
	answer jcs.Value
}

// Answers sets what the tools answer, a tool result as JSON.
func (s *Shelf) Answers(v jcs.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = v
}

// Got lists the calls so far: tool and arguments, as they came.
func (s *Shelf) Got() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.got...)
}

// Call keeps a call and answers it.
func (s *Shelf) Call(_ context.Context, tool string, arguments jcs.Value) (jcs.Value, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, tool+" "+arguments.String())
	if s.answer.IsZero() {
		return jcs.Parse([]byte(`{"content":[]}`))
	}
	return s.answer, nil
}
