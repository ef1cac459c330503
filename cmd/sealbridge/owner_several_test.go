package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"sealbridge/gateway"
	"sealbridge/gateway/gatewaytest"
	"sealbridge/gateway/local"
)

// says is an agent program with one answer to every task.
func says(n int) string { return fmt.Sprintf("#!/bin/sh\nprintf '{\"output\":{\"n\":%d}}'\n", n) }

// serves answers commands in somebody's home.
func serves(t *testing.T, s *gatewaytest.Side) {
	t.Helper()
	l, err := local.Listen(s.Home.Socket())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- local.Serve(ctx, l, local.Handler(s.G, thisVersion())) }()
	t.Cleanup(func() { stop(); <-ended })
}

func TestProposeAsksSeveral(t *testing.T) { // P4
	ann, by := gatewaytest.Circle(t, map[string]string{"Ben": says(7), "Cleo": says(8), "Dan": says(7)})
	for _, s := range []*gatewaytest.Side{ann, by["Ben"]} {
		serves(t, s)
	}
	for _, tt := range []struct {
		args, says string
	}{
		{"--to Ben --to Cleo", "--race takes the first"},
		{"--to Ben --race", "ask several"},
		{"--to Ben --to Cleo --race --quorum 2", "not both"},
		{"--to Ben --to Cleo --quorum 1", "a majority"},
		{"--to Ben --to Ben --race", "another owner"},
		{"--race", "--to CONTACT"},
	} {
		if code, _, errs := of(ann, append([]string{"propose", "-m", "Count"}, strings.Fields(tt.args)...)...); code != exitUsage || !strings.Contains(errs, tt.says) {
			t.Errorf("propose %s: exit %d, %s", tt.args, code, errs)
		}
	}
	if code, out, errs := of(ann, "propose", "-m", "Count", "--to", "Ben", "--to", "Cleo", "--race", "--dry-run"); code != 0 || strings.Count(out, `{"budget":`) != 2 {
		t.Errorf("a dry run: exit %d, %s%s", code, out, errs)
	}
	code, out, errs := of(ann, "propose", draft(t), "--to", "Ben", "--to", "Cleo", "--to", "Dan", "--quorum", "2", "--json")
	var j gateway.Joint
	if err := json.Unmarshal([]byte(out), &j); code != 0 || err != nil || len(j.Tasks) != 3 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	for i, name := range []string{"Ben", "Cleo", "Dan"} {
		ann.Yes(j.Tasks[i].Ask)
		by[name].Yes(by[name].OpenAsk(j.Tasks[i].Task, "contract"))
	}
	ann.OpenAsk(j.Tasks[0].Task, "delivery")
	if code, out, _ := of(ann, "task", "show", j.Tasks[1].Task); code != 0 || !strings.Contains(out, "quorum, 2 of 3 the same") || !strings.Contains(out, "AGREED") ||
		!strings.Contains(out, "answer A, 2 the same") || !strings.Contains(out, "answer B, 1 the same") || !strings.Contains(out, "600k tokens in") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out, _ := of(ann, "task", "list"); code != 0 || strings.Count(out, "   quorum "+short(j.Group)) != 3 {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out, _ := of(by["Ben"], "task", "show", j.Tasks[0].Task); code != 0 || !strings.Contains(out, "quorum: Ann says that others were asked") || strings.Contains(out, "Cleo") {
		t.Errorf("exit %d: %s", code, out)
	}
	ann.Yes(ann.OpenAsk(j.Tasks[0].Task, "delivery"))
	if code, out, _ := of(ann, "task", "watch", j.Tasks[0].Task); code != 0 || !strings.Contains(out, "COMPLETED") {
		t.Errorf("exit %d: %s", code, out)
	}
}

func TestProposeWaitsForTheOneThatIsTaken(t *testing.T) { // P4
	ann, by := gatewaytest.Circle(t, map[string]string{"Ben": says(1), "Cleo": says(2)})
	serves(t, ann)
	file, dir := draft(t), filepath.Join(t.TempDir(), "out")
	type result struct {
		code      int
		out, errs string
	}
	ended := make(chan result, 1)
	go func() {
		code, out, errs := of(ann, "propose", file, "--to", "Ben", "--to", "Cleo", "--race", "--wait", "-o", dir)
		ended <- result{code, out, errs}
	}()
	var ids []string
	ann.Until("asked about both", func() error {
		ts, err := ann.G.Tasks(context.Background(), gateway.Owner, gateway.None{})
		if err != nil || len(ts) != 2 {
			return fmt.Errorf("%d tasks: %v", len(ts), err)
		}
		ids = []string{ts[0].Group.Tasks[0].TaskID, ts[0].Group.Tasks[1].TaskID}
		return nil
	})
	ann.Yes(ann.OpenAsk(ids[1], "contract"))
	by["Cleo"].Yes(by["Cleo"].OpenAsk(ids[1], "contract"))
	ann.Yes(ann.OpenAsk(ids[1], "delivery"))
	r := <-ended
	if r.code != exitDone || !strings.Contains(r.out, "race") || !strings.Contains(r.out, "COMPLETED") || !strings.Contains(r.out, filepath.Join(dir, "result.json")) {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errs)
	}
	if code, out, _ := of(ann, "task", "cancel", "nope"); code != exitNo {
		t.Errorf("exit %d: %s", code, out)
	}
}
