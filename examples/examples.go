// Package examples holds files that ship in the binary: what the demo runs (a
// draft, a CSV file and an agent program), and alerts for a relay's operator.
package examples

import "embed"

// Files are the examples as files.
//
//go:embed revenue relay
var Files embed.FS
