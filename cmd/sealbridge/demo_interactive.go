package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"sealbridge/gateway"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
)

// errNoYes ends an interactive demo whose person said no.
var errNoYes = errors.New("a person said no")

// byPerson waits for the person's decision: in this terminal, in another one, or
// by a no in the console. It decides nothing itself.
func (d *demo) byPerson(ctx context.Context, who string, a approval.Ask) error {
	_, cl, err := (&app{home: filepath.Join(d.dir, who)}).client()
	if err != nil {
		return err
	}
	d.more("└ your decision, as %s. Here, or", manifest.Display(strings.ToUpper(who[:1])+who[1:], 20))
	d.more("    in another terminal   %s --home %s gate allow %s", d.self(), filepath.Join(d.dir, who), a.Short())
	if link, err := local.Login.Call(ctx, cl, gateway.None{}); err == nil {
		d.more("    in a browser          %s", link.URL)
	}
	d.prompt()
	state := ""
	err = eventually(ctx, "a decision", func() (bool, error) {
		select {
		case line := <-d.lines:
			d.typed(ctx, who, a, line)
		default:
		}
		as, err := local.Asks.Call(ctx, cl, true)
		for _, v := range as {
			if v.Ask.AskID == a.AskID {
				state = v.State
			}
		}
		return err == nil && state != string(approval.Waiting), err
	})
	if err != nil {
		return err
	}
	d.more("  %s", state)
	if state != string(approval.Allowed) {
		return errNoYes
	}
	return nil
}

// prompt asks in this terminal, if there is one; what was typed before the
// question stood there is no answer to it.
func (d *demo) prompt() {
	if !d.a.terminal() {
		return
	}
	if d.lines == nil {
		d.lines = make(chan string)
		go func() { // one reader for the whole story: a question may be answered elsewhere meanwhile
			for {
				line, err := d.a.lines.ReadString('\n')
				if err != nil {
					return
				}
				d.lines <- strings.ToLower(strings.TrimSpace(line))
			}
		}()
	}
	for {
		select {
		case <-d.lines:
			continue
		default:
		}
		break
	}
	fmt.Fprint(d.a.err, "      [a] allow  [d] deny ")
}

// typed does what a line says; Enter alone says nothing.
func (d *demo) typed(ctx context.Context, who string, a approval.Ask, line string) {
	verb := map[string]string{"a": "allow", "d": "deny"}[line]
	if verb == "" {
		fmt.Fprint(d.a.err, "      [a] allow  [d] deny ")
		return
	}
	if out, code := d.cli(ctx, who, "gate", verb, a.AskID.String()); code != 0 {
		d.more("%s", strings.TrimSpace(out))
	}
}

// self is how a person types this program: a binary of `go run` is gone when it ends.
func (d *demo) self() string {
	self, err := os.Executable()
	if err != nil || strings.Contains(filepath.ToSlash(self), "/go-build") {
		return "go run ./cmd/sealbridge"
	}
	return self
}

// detached starts a process that outlives the demo: in a group of its own, with a
// file for what it says.
func (d *demo) detached(name string, ready *regexp.Regexp, args []string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(d.dir, name+".log")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return "", err
	}
	defer f.Close()
	p := &proc{cmd: exec.Command(self, args...), args: args, done: make(chan struct{})}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = append(os.Environ(), runAsSelf+"=1"), f, f
	ownGroup(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return "", err
	}
	d.procs[name] = p
	go func() {
		p.cmd.Wait() //nolint:errcheck // how it ended is in its log
		close(p.done)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	found := ""
	err = eventually(ctx, name, func() (bool, error) {
		b, err := os.ReadFile(path)
		if found = ready.FindString(string(b)); found != "" || err != nil {
			return found != "", err
		}
		select {
		case <-p.done:
			cancel()
			return false, fmt.Errorf("%s ended: %s", name, b)
		default:
			return false, nil
		}
	})
	return found, err
}

// leave says what still runs, how to use it and how to end it.
func (d *demo) leave() {
	var pids []string
	for _, name := range []string{"relay", "ann", "ben"} {
		if p := d.procs[name]; p != nil {
			pids = append(pids, fmt.Sprint(p.cmd.Process.Pid))
		}
	}
	d.a.print("\nThe relay and both gateways still run. Ask for more:\n")
	for _, line := range []string{"ann task list", "ann propose -m \"What is in sales.csv?\" --input " + filepath.Join(d.dir, "revenue", "sales.csv") + " --to ben", "ben gate list", "ann console"} {
		who, rest, _ := strings.Cut(line, " ")
		d.a.print("    %s --home %s %s\n", d.self(), filepath.Join(d.dir, who), rest)
	}
	d.a.print("End them with   kill %s   and then remove %s\n", strings.Join(pids, " "), d.dir)
}

// told is the end of an interactive demo: what runs goes on.
func (d *demo) told(err error) error {
	switch {
	case errors.Is(err, errNoYes):
		d.a.print("\nYou said no: nothing happens that this gate held back, and the other side is told.\n")
	case err != nil:
		d.stopAll()
		return err
	}
	d.leave()
	return nil
}
