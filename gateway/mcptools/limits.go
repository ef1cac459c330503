package mcptools

import "time"

// The bounds of the agents' door, each with its reason (A4, A8).
const (
	maxMessage = 1 << 20   // bytes of one request: a draft with its data; files travel by path
	maxHello   = 4 << 10   // bytes of the line that opens a connection: a token and two words
	maxText    = 8_000     // characters of a text: what a model reads at once; Prickle's own bound
	maxRows    = 20        // rows of a list
	maxEvents  = 10        // tasks in one Prickle answer: each can hold a packet of 14,000 characters
	maxPart    = 24 << 10  // bytes of a file part: in base64 it stays under 32 KiB
	maxBundle  = 768 << 10 // bytes of a bundle that is handed in; larger ones are for the command verify
	maxEntries = 40        // lines of a report

	maxConns = 16 // open connections of one agent: an editor opens one a window
	maxCalls = 32 // calls of one agent under way: waits are calls too

	helloWithin = 5 * time.Second  // for the opening line: the other end is a program
	lingerFor   = 5 * time.Second  // for answers to a client that asks no more: waits are not worth more
	socketWait  = 50 * time.Second // Prickle's longest wait
	httpWait    = 25 * time.Second // clients cut at 30 s whatever is configured
)
