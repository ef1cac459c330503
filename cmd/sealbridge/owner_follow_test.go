package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sealbridge/gateway"
	"sealbridge/gateway/gatewaytest"
	"sealbridge/gateway/local"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
)

// homes are two running gateways whose people's sockets commands can ask.
func homes(t *testing.T) (ann, ben *gatewaytest.Side) {
	t.Helper()
	ann, ben = gatewaytest.Pair(t, gatewaytest.Counter)
	for _, s := range []*gatewaytest.Side{ann, ben} {
		l, err := local.Listen(s.Home.Socket())
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- local.Serve(ctx, l, local.Handler(s.G, thisVersion())) }()
		t.Cleanup(func() { stop(); <-ended })
	}
	return ann, ben
}

// of runs a command in somebody's home.
func of(s *gatewaytest.Side, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(context.Background(), append([]string{"--home", s.Home.Dir}, args...), strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func draft(t *testing.T) string {
	t.Helper()
	dir, _ := gatewaytest.File(t, "sales.csv", "a,1\nb,2\nc,3\n")
	path := filepath.Join(dir, "task.yaml")
	text := "title: Count lines\ngoal: Count the lines of sales.csv\ninputs: [sales.csv]\nsandbox: {claimed_ok: true}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheExitCodeOfAWatchIsTheOutcome(t *testing.T) {
	ann, ben := homes(t)
	file := draft(t)
	code, out, errs := of(ann, "propose", file, "--to", "Ben", "--json")
	var p gateway.Proposed
	if err := json.Unmarshal([]byte(out), &p); code != 0 || err != nil {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if code, _, errs := of(ann, "task", "watch", p.Task, "--timeout", "1s"); code != exitNotYet || !strings.Contains(errs, "not yet: DRAFTED   next: you (contract") {
		t.Errorf("while it waits: exit %d, %s", code, errs)
	}
	if code, _, _ := of(ann, "task", "watch", "nope"); code != exitNo {
		t.Errorf("no such task: exit %d", code)
	}
	if code, _, _ := of(ann, "task", "watch", p.Task, "--timeout", "soon"); code != exitUsage {
		t.Errorf("a timeout that is none: exit %d", code)
	}
	if code, _, errs := of(ann, "propose", file, "--to", "Ben", "-o", "out"); code != exitUsage {
		t.Errorf("-o without --wait: exit %d, %s", code, errs)
	}
	ann.Answer(manifest.ContractGate, approval.Deny)
	if code, out, _ := of(ann, "task", "watch", p.Task); code != exitNo || !strings.Contains(out, "DROPPED") {
		t.Errorf("after a no: exit %d, %s", code, out)
	}

	dir := filepath.Join(t.TempDir(), "out")
	type result struct {
		code      int
		out, errs string
	}
	ended := make(chan result, 1)
	go func() {
		code, out, errs := of(ann, "propose", file, "--to", "Ben", "--wait", "-o", dir)
		ended <- result{code, out, errs}
	}()
	ann.Allow(manifest.ContractGate)
	ben.Allow(manifest.ContractGate)
	ann.Allow(manifest.DeliveryGate)
	r := <-ended
	if r.code != exitDone || !strings.Contains(r.out, "COMPLETED") || !strings.Contains(r.out, "accepted     passphrase; ") || strings.Contains(r.out, "\x1b") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errs)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "count.csv")); err != nil || string(b) != "lines,3\n" {
		t.Errorf("%q, %v", b, err)
	}

	id := strings.TrimSpace(strings.SplitN(r.out, "\n", 2)[0])
	page := filepath.Join(t.TempDir(), "receipt.html")
	if code, out, errs := of(ann, "receipt", id); code != exitDone || !strings.Contains(out, "Ann asked Ben") || !strings.Contains(out, "accepted and released to Ann") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if code, out, errs := of(ann, "receipt", id, "-o", page); code != exitDone || !strings.Contains(out, page) {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	b, err := os.ReadFile(page)
	if code, out, _ := of(ann, "receipt", id[len(id)-4:], "--html"); err != nil || code != exitDone || out != string(b) || !strings.HasPrefix(out, "<!doctype html>") {
		t.Errorf("exit %d, %v: a page on stdout is another one than in a file", code, err)
	}

	// The same task in another system's words is for whoever does the work, and not before it is accepted (G13).
	if code, out, _ := of(ben, "export", id, "--as", "prickle-packet"); code != exitDone || !strings.Contains(out, `"context":"manifest sha256:`) {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, _, errs := of(ann, "export", id, "--as", "prickle-packet"); code != exitNo || !strings.Contains(errs, "not-permitted") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, _, errs := of(ben, "export", id, "--as", "chips-task"); code != exitNo || !strings.Contains(errs, "no table of a Chips workspace") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
