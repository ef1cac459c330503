//go:build !unix

package runner

import (
	"io/fs"
	"os"
)

const systemPath = `C:\Windows\System32;C:\Windows`

// systemEnv is what no program of Windows starts without.
func systemEnv() []string { return []string{"SystemRoot=" + os.Getenv("SystemRoot")} }

// kill ends the process itself: without a job object nothing more is reached,
// and Enforces does not say so.
func kill(p *os.Process) error {
	if p == nil {
		return nil
	}
	return p.Kill()
}

func linked(fs.FileInfo) bool { return false }
