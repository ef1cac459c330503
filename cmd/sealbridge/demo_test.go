package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// story is a demo whose processes are this test binary.
func story(t *testing.T) (*demo, *bytes.Buffer) {
	t.Helper()
	dir, err := os.MkdirTemp("", "sb") // short: sockets are in it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	var out bytes.Buffer
	return &demo{a: newApp(strings.NewReader(""), &out, io.Discard), dir: filepath.Join(dir, "d"), procs: map[string]*proc{}}, &out
}

func TestTheDemoTellsTheWholeStory(t *testing.T) {
	d, out := story(t)
	if err := d.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, bundle := range []string{"bundle.json", "deep.json", "part.json"} {
		agreesWithTheOtherImplementation(t, filepath.Join(d.dir, bundle))
	}
	for name, words := range map[string][]string{ // three owners, each with a process and a home of their own
		"a gate of each": {"┌ Let Ben hand a part of your task on", "┌ Hand a part of Ann's task on to Cleo?", "┌ Let “counter” work for Ben?"},
		"two refusals":   {"depth-exceeded: /body/manifest/permissions/maxDelegationDepth", "depth-exceeded: /parent"},
		"the answer":     {`{"percent":"33.3","region":"south"}`},
	} {
		for _, w := range words {
			if !strings.Contains(out.String(), w) {
				t.Errorf("%s: the story does not say %q\n%s", name, w, out)
			}
		}
	}
}

// agreesWithTheOtherImplementation runs a second implementation of section 3 on every signed document of a bundle.
func agreesWithTheOtherImplementation(t *testing.T, bundle string) {
	t.Helper()
	b, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	var docs []string
	for _, l := range strings.Split(string(b), "\n") {
		l = strings.TrimSuffix(l, ",")
		if strings.HasPrefix(l, "{") && strings.HasSuffix(l, "}") && strings.Contains(l, `"signature`) && !strings.HasPrefix(l, `{"approvers"`) && !strings.Contains(l, `"type":"sealbridge/ask"`) {
			docs = append(docs, l)
		}
	}
	if len(docs) < 10 {
		t.Fatalf("%d documents in the bundle", len(docs))
	}
	oracle := oraclePath(t)
	if oracle == "" {
		return
	}
	list := filepath.Join(t.TempDir(), "docs.ndjson")
	if err := os.WriteFile(list, []byte(strings.Join(docs, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("node", oracle, "--ndjson", list).CombinedOutput(); err != nil {
		t.Errorf("the second implementation does not agree: %v\n%s", err, out)
	}
}

// oraclePath finds the second implementation beside the checkout; its absence is reported.
func oraclePath(t *testing.T) string {
	t.Helper()
	at, err := filepath.Abs(filepath.Join("..", "..", "..", "shared", "oracle", "sbverify.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(at); err != nil {
		t.Log("the second implementation is not beside this checkout: not run")
		return ""
	}
	if _, err := exec.LookPath("node"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("node is needed to run the second implementation: install it")
		}
		t.Log("node is not installed: the second implementation was not run")
		return ""
	}
	return at
}

// TestKillAnyProcessAfterAnyStep kills one process after every step of the
// story, as a power cut would, and starts it again: the task finishes once.
func TestKillAnyProcessAfterAnyStep(t *testing.T) {
	for _, victim := range []string{"relay", "ann", "ben", "cleo"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			d, out := story(t)
			kills := 0
			d.between = func(ctx context.Context, after string) error {
				if d.procs[victim] == nil {
					return nil
				}
				kills++
				d.kill(victim)
				if victim == "relay" {
					return d.relayUp(ctx)
				}
				return d.serve(ctx, victim)
			}
			if err := d.run(t.Context()); err != nil {
				t.Fatalf("after %d kills: %v\n%s", kills, err, out)
			}
			if kills < 10 {
				t.Fatalf("%d kills", kills)
			}
			for _, bundle := range []string{"bundle.json", "deep.json", "part.json"} {
				b, err := os.ReadFile(filepath.Join(d.dir, bundle))
				if err != nil {
					t.Fatal(err)
				}
				for _, kind := range []string{"accepted", "started", "delivered", "completed"} {
					if n := strings.Count(string(b), `"kind":"`+kind+`"`); n != 1 {
						t.Errorf("%s: %d events %s, want one", bundle, n, kind)
					}
				}
			}
		})
	}
}
