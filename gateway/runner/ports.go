package runner

import (
	"context"
	"net"
	"sync"

	"sealbridge/spec"
)

const (
	minPort   = 1024 // below, a program without privileges does not expect anybody
	maxPorts  = 8    // of one run: we know of two uses
	maxGuests = 64   // connections of one port that are served at once; more wait in the kernel's line
)

// Port is a place on the program's own loopback behind which something of ours
// answers: 127.0.0.1:Number, in a network that nobody but this run is in. It is
// the only way out of a run (X3). No file and no descriptor of
// the program's leads there, and it ends with the run.
type Port struct {
	Number uint16 // 1024 or more

	// Serve answers one connection, in a goroutine of its own. ctx ends with the
	// run, and conn is closed then and when Serve returns; the run waits for it.
	Serve func(ctx context.Context, b *Box, conn net.Conn)
}

// Box is a run under way, as those who serve its ports see it.
type Box struct{ clock *wallClock }

// Hold runs wait while every process of the run stands still, and its clock too
// (B4, G8): a person is being asked. Holds may overlap.
func (b *Box) Hold(ctx context.Context, wait func(context.Context)) {
	b.clock.hold(func() bool { wait(ctx); return true })
}

// Ports says whether ports can be given here: only where programs have a network
// of their own.
func (x *Exec) Ports() bool { return x.isolated }

// checkPorts refuses what could not be kept: without a network of its own a
// port would be open to everybody on this machine.
func checkPorts(c Command, isolate bool) error {
	if len(c.Ports) == 0 {
		return nil
	}
	if !isolate {
		return spec.Refuse(spec.UnsupportedIsolation, "/ports", "a network of its own")
	}
	seen := map[uint16]bool{}
	for _, p := range c.Ports {
		if p.Number < minPort || seen[p.Number] || p.Serve == nil || len(c.Ports) > maxPorts {
			return spec.Refuse(spec.Malformed, "/ports", "at most 8, each once, from 1024, each served")
		}
		seen[p.Number] = true
	}
	return nil
}

// serve answers what knocks until ctx ends, and returns when all is answered.
func (e *entrance) serve(ctx context.Context, b *Box) {
	if e == nil {
		return
	}
	at, err := e.listeners()
	if err != nil { // the run did not begin; its first process said why
		return
	}
	var all sync.WaitGroup
	defer all.Wait()
	for i, l := range at {
		stop := context.AfterFunc(ctx, func() { l.Close() })
		all.Go(func() {
			defer stop()
			defer l.Close()
			guests(ctx, b, l, e.ports[i])
		})
	}
}

func guests(ctx context.Context, b *Box, l net.Listener, p Port) {
	var all sync.WaitGroup
	defer all.Wait()
	seats := make(chan struct{}, maxGuests)
	for {
		select {
		case seats <- struct{}{}:
		case <-ctx.Done():
			return
		}
		conn, err := l.Accept()
		if err != nil { // the run has ended
			return
		}
		all.Go(func() {
			defer func() { <-seats }()
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			defer stop()
			defer conn.Close()
			p.Serve(ctx, b, conn)
		})
	}
}
