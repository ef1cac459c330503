package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"sealbridge/gateway"
	"sealbridge/policy/approval"
)

// keepVariable names a folder in which every ask that a test made is kept in the
// Chips shape, for a validator that is not ours (.ci/asks).
const keepVariable = "SEALBRIDGE_ASKS"

// keepAsks writes what this side ever asked, at the end of its test. A gateway that a test stopped has nothing to tell.
func (s *side) keepAsks() {
	dir := os.Getenv(keepVariable)
	if dir == "" {
		return
	}
	as, err := s.g.Asks(context.Background(), gateway.Owner, true)
	if err != nil || len(as) == 0 {
		return
	}
	var lines strings.Builder
	for _, a := range as {
		lines.WriteString(approval.Chips(a.Ask, approval.Outcome(a.State)).String() + "\n")
	}
	f, err := os.CreateTemp(dir, strings.ReplaceAll(filepath.Base(s.t.Name()), "/", "-")+"-*.ndjson")
	if err == nil {
		_, err = f.WriteString(lines.String())
	}
	if err != nil {
		s.t.Errorf("keeping asks: %v", err)
		return
	}
	if err := f.Close(); err != nil {
		s.t.Errorf("keeping asks: %v", err)
	}
}
