package main

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"sealbridge/gateway"
	"sealbridge/gateway/gatewaytest"
	"sealbridge/manifest"
	"sealbridge/spec"
)

func TestAnOwnerHandsAPartOn(t *testing.T) { // P1, G11
	row := gatewaytest.Row(t, gatewaytest.Counter, "Ann", "Ben", "Cleo")
	ann, ben, cleo := row[0], row[1], row[2]
	for _, s := range row {
		serves(t, s)
	}
	_, file := gatewaytest.File(t, "sales.csv", "a,1\nb,2\n")
	p, err := ann.G.Propose(context.Background(), gateway.Owner, gateway.Proposal{To: "Ben", Draft: manifest.Draft{Title: "Count", Goal: "Count the lines", Depth: 1,
		Inputs: []manifest.DraftInput{{File: file}}, Sandbox: manifest.DraftSandbox{ClaimedOK: true}}})
	if err != nil {
		t.Fatal(err)
	}
	ann.Yes(p.Ask)
	ben.Yes(ben.OpenAsk(p.Task, "contract"))
	ben.Until("started", func() error {
		v, err := ben.G.StartWork(context.Background(), gateway.Caller{Agent: "scribe"}, gateway.Ref{Task: p.Task})
		if err == nil && !v.Running {
			err = os.ErrNotExist
		}
		return err
	})
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"--to Cleo --hand-on sales.csv", exitUsage, "goes with --parent"},
		{"--parent " + p.Task + " --to Cleo --race", exitUsage, "ask several"},
		{"--parent nothing --to Cleo", exitNo, "not-found"},
		{"--parent " + p.Task + " --to Cleo --hand-on other.csv", exitNo, "input file of the parent"},
	} {
		if code, _, errs := of(ben, append([]string{"propose", "-m", "Count"}, strings.Fields(tt.args)...)...); code != tt.code || !strings.Contains(errs, tt.says) {
			t.Errorf("propose %s: exit %d, %s", tt.args, code, errs)
		}
	}
	code, out, errs := of(ben, "propose", "-m", "Count the north", "--parent", short(p.Task), "--to", "Cleo", "--hand-on", "sales.csv", "--json")
	var part gateway.Proposed
	if err := json.Unmarshal([]byte(out), &part); code != 0 || err != nil || part.Above != "Ann" {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if code, out, _ := of(ben, "task", "show", p.Task); code != 0 || !strings.Contains(out, "ASKED, WAITING FOR ANN (DELEGATION)") || !strings.Contains(out, "kept back from this task") || !strings.Contains(out, "1 deep") {
		t.Errorf("exit %d: %s", code, out)
	}
	ask := ann.OpenAsk(p.Task, "delegation")
	if code, out, _ := of(ann, "gate", "show", ask); code != 0 || !strings.Contains(out, "hand a part of your task on") || !strings.Contains(out, "1 file of yours") {
		t.Errorf("exit %d: %s", code, out)
	}
	ann.Yes(ask)
	ben.Yes(ben.OpenAsk(p.Task, "delegation"))
	ben.Yes(ben.OpenAsk(part.Task, "contract"))
	cleo.Yes(cleo.OpenAsk(part.Task, "contract"))
	ben.Yes(ben.OpenAsk(part.Task, "delivery"))
	if code, out, _ := of(ben, "task", "watch", part.Task); code != 0 || !strings.Contains(out, "COMPLETED") {
		t.Errorf("exit %d: %s", code, out)
	}
	if got, err := ben.G.Result(context.Background(), gateway.Caller{Agent: "scribe"}, gateway.Fetch{Task: part.Task}); err != nil || !got.Ready {
		t.Errorf("the agent at work above does not get it: %+v, %v", got, err)
	}
	if _, err := ben.G.Task(context.Background(), gateway.Caller{Agent: "another"}, gateway.Ref{Task: part.Task}); spec.ReasonOf(err) != spec.NotFound {
		t.Errorf("another agent sees it: %v", err)
	}
	if code, out, _ := of(ben, "task", "show", p.Task); code != 0 || !strings.Contains(out, "COMPLETED") || strings.Contains(out, "kept back") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out, _ := of(cleo, "task", "show", part.Task); code != 0 || !strings.Contains(out, "part of "+short(p.Task)+"; 1 above") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out, _ := of(ann, "task", "show", p.Task); code != 0 || !strings.Contains(out, "HANDED ON") {
		t.Errorf("exit %d: %s", code, out)
	}
}
