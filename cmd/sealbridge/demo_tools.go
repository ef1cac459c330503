package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sealbridge/gateway"
	"sealbridge/gateway/runner"
	"sealbridge/manifest"
)

// lends gives Ann a folder that she may lend: before her gateway runs for the
// first time, so that her rules are in force as the files say.
func (d *demo) lends(ctx context.Context) error {
	docs := filepath.Join(d.dir, "docs")
	for name, text := range map[string]string{"public/terms.txt": "All figures are in EUR.\n", "private/salaries.txt": "Ann's own business.\n"} {
		at := filepath.Join(docs, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			return err
		}
	}
	for name, edit := range map[string]func(string) string{
		"config.yaml": func(s string) string { return s + fmt.Sprintf("tools: {docs: {files: %q}}\n", docs) },
		"policy.yaml": func(s string) string {
			return strings.Replace(s, "tools: []", "tools: [{match: docs.read, resource: 'mcp://docs/{path}', effect: none, then: allow}]", 1)
		},
	} {
		at := filepath.Join(d.dir, "ann", name)
		b, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		if err := os.WriteFile(at, []byte(edit(string(b))), 0o600); err != nil {
			return err
		}
	}
	out, err := d.must(ctx, "ann", "tools", "list")
	if err != nil {
		return err
	}
	d.tell("Ann has a folder of documents that agents of others may read, if a contract says so.")
	for _, l := range strings.Split(strings.TrimSpace(out), "\n") {
		if strings.HasPrefix(l, "allow") {
			d.more("%s", l)
		}
	}
	return nil
}

// caller is this program as a box can see it: its folder is shown there.
func (d *demo) caller() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return "", err
	}
	at := filepath.Join(d.dir, "tool", "sealbridge")
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return "", err
	}
	if err := os.Link(self, at); err == nil {
		return at, nil
	}
	b, err := os.ReadFile(self) // another disk
	if err != nil {
		return "", err
	}
	return at, os.WriteFile(at, b, 0o755)
}

// draft is the example's, with a grant of Ann's documents.
func (d *demo) draft() (string, error) {
	b, err := os.ReadFile(filepath.Join(d.dir, "revenue", "task.yaml"))
	if err != nil {
		return "", err
	}
	at := filepath.Join(d.dir, "revenue", "task-with-grant.yaml")
	return at, os.WriteFile(at, append(b, "grants:\n  - {resource: mcp://docs/public/*, tools: [docs.read], uses: 20, until: 12h}\n"...), 0o644)
}

// calls shows what Ben's agent did with the grant: one call done, one refused.
func (d *demo) calls(ctx context.Context) error {
	x, err := runner.New(ctx, runner.Config{Dir: filepath.Join(d.dir, "probe")})
	if err != nil {
		return err
	}
	t, err := ask[gateway.TaskView](ctx, d, "ann", "task", "show", d.task)
	if err != nil {
		return err
	}
	if !x.Ports() {
		d.tell("This machine has no box with a network of its own, so Ben's agent had no way to Ann's tools.")
		return nil
	}
	done, refused := 0, 0
	d.tell("On the way Ben's agent used what Ann lent, across the relay, and no more than that:")
	for _, c := range t.Calls {
		switch c.State {
		case string(manifest.CallDone):
			done++
		case string(manifest.CallRefused):
			refused++
		}
		line := fmt.Sprintf("%-7s %s on %s", c.State, c.Tool, strings.Join(c.Resources, ", "))
		if n := c.Denial; n != nil {
			line += fmt.Sprintf("   %s: rule %s, %s", n.Reason, n.Rule, manifest.Display(n.Limit, 100))
		}
		d.more("%s", line)
	}
	if done == 0 || refused == 0 {
		return fmt.Errorf("%d calls done and %d refused, want both", done, refused)
	}
	out, err := d.must(ctx, "ann", "tools", "lent", "--all")
	if err == nil {
		d.more("%s", strings.TrimSpace(out))
	}
	return err
}
