//go:build !linux

package runner

import (
	"net"
	"os/exec"

	"sealbridge/spec"
)

// entrance exists only where programs have a network of their own.
type entrance struct{ ports []Port }

func openEntrance(_ *exec.Cmd, ports []Port) (*entrance, error) {
	if len(ports) == 0 {
		return nil, nil
	}
	return nil, spec.Refuse(spec.UnsupportedIsolation, "/ports", "a network of its own")
}

func (e *entrance) close() {}

func (e *entrance) listeners() ([]net.Listener, error) { return nil, nil }
