// Command sealbridge is an owner's gateway, a relay and an auditor's tool in one
// static binary. It wires; it has no rule of its own.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the whole program: what was asked and the streams go in, the exit code
// comes out. Nothing below it exits.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := newApp(stdin, stdout, stderr)
	root := a.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if !a.started {
		a.json = a.json || asksJSON(args) // a wrong flag stops the parser before --json is read
	}
	return a.report(err)
}

// asksJSON finds --json where the command line could not be parsed.
func asksJSON(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "--json", "--json=true":
			return true
		}
	}
	return false
}
