package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sealbridge/gateway"
)

// exports writes the bundle of a task at the first of two owners, once both have heard all of it.
func (d *demo) exports(ctx context.Context, task, name, at, other string) (bundle string, err error) {
	bundle = filepath.Join(d.dir, name)
	err = eventually(ctx, "both sides to have acknowledged", func() (bool, error) {
		for _, w := range []string{at, other} {
			s, err := ask[gateway.Status](ctx, d, w, "status")
			if err != nil || s.Outgoing > 0 {
				return false, err
			}
		}
		return true, nil
	})
	if err != nil {
		return "", err
	}
	_, err = d.must(ctx, at, "export", task, "-o", bundle)
	return bundle, err
}

func (d *demo) export(ctx context.Context) error {
	bundle, err := d.exports(ctx, d.task, "bundle.json", "ann", "ben")
	if err != nil {
		return err
	}
	info, err := os.Stat(bundle)
	if err != nil {
		return err
	}
	d.tell("Ann exports the evidence: %d bytes of signed documents.", info.Size())
	return nil
}

func (d *demo) verify(ctx context.Context) error {
	d.tell("Anybody can check it offline, with nothing but the file:")
	return d.binds(ctx, "bundle.json")
}

// binds verifies a bundle and shows what the check says first.
func (d *demo) binds(ctx context.Context, bundle string) error {
	out, err := d.must(ctx, "", "verify", filepath.Join(d.dir, bundle), "--require", "binding")
	if err != nil {
		return err
	}
	for i, l := range strings.Split(strings.TrimRight(out, "\n"), "\n") {
		if i < 2 || strings.HasPrefix(l, "Outcome") {
			d.more("%s", l)
		}
	}
	return nil
}

// forge changes one figure of the evidence and sees it refused.
func (d *demo) forge(ctx context.Context) error {
	b, err := os.ReadFile(filepath.Join(d.dir, "bundle.json"))
	if err != nil {
		return err
	}
	i := bytes.Index(b, []byte(`1511.00`))
	if i < 0 {
		return fmt.Errorf("the bundle does not say 1511.00")
	}
	b[i] = '9'
	forged := filepath.Join(d.dir, "forged.json")
	if err := os.WriteFile(forged, b, 0o600); err != nil {
		return err
	}
	out, code := d.cli(ctx, "", "verify", forged)
	if code != exitNo {
		return fmt.Errorf("a changed bundle gave exit %d: %s", code, out)
	}
	d.tell("One byte changed, 1511.00 to 9511.00, and it is refused:")
	for _, l := range strings.Split(strings.TrimRight(out, "\n"), "\n") {
		if strings.Contains(l, "NOT VERIFIED") || strings.HasPrefix(l, "First break") || strings.Contains(l, "bad-digest") {
			d.more("%s", l)
		}
	}
	return nil
}
