package tools

import "time"

// The bounds of a tool, each with its reason.
const (
	DefaultTimeout = time.Minute      // of one call: what a person would wait for
	MaxTimeout     = 10 * time.Minute // of one call: under the 15 minutes that a tool-call lives (C4)

	connectWithin = 30 * time.Second // for a server to start and say what it has: npx unpacks at its first start
	endWithin     = 2 * time.Second  // for a command to end after its stdin closed; then its group is killed
	firstPause    = time.Second      // after a start that failed or a crash, doubling
	longestPause  = time.Minute

	maxAtOnce   = 16        // calls of one server under way
	maxResult   = 16 << 20  // bytes of one answer: files for an agent, not archives
	maxOffers   = 500       // tools of one server
	maxPage     = 256 << 10 // bytes of a file in one read: what is left is read from an offset on
	maxEntries  = 1_000     // names in one listing
	maxSegments = 32        // of a path
)
