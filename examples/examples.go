// Package examples holds what the demo runs: a draft, a CSV file and an agent program.
package examples

import "embed"

// Files are the examples as files.
//
//go:embed revenue
var Files embed.FS
