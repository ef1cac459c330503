package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"sealbridge/gateway"
	"sealbridge/gateway/gatewaytest"
)

func TestAnOpenProposalByHand(t *testing.T) { // M10
	ann, by := gatewaytest.Circle(t, map[string]string{"Ben": says(7), "Cleo": says(8)})
	serves(t, ann)
	serves(t, by["Ben"])
	file := draft(t)
	for _, bad := range [][]string{{"--open"}, {"--open", "--to", "Ben", "--race"}, {"--open", "--to", "Ben", "--wait"}} {
		if code, _, _ := of(ann, append([]string{"propose", file}, bad...)...); code != exitUsage {
			t.Errorf("%v: exit %d", bad, code)
		}
	}
	code, out, errs := of(ann, "propose", file, "--open", "--to", "Ben", "--to", "Cleo", "--json")
	var p gateway.Proposed
	if err := json.Unmarshal([]byte(out), &p); code != 0 || err != nil {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if code, out, _ := of(ann, "gate", "show", p.Ask); code != 0 || !strings.Contains(out, "Ask Ben and Cleo who would do this?") || !strings.Contains(out, "binds nobody") || strings.Contains(out, "no task finished") {
		t.Errorf("exit %d: %s", code, out)
	}
	ann.Yes(p.Ask)
	by["Ben"].Until("offered", func() error {
		if code, out, _ := of(by["Ben"], "task", "offers", p.Task); code != 0 || !strings.Contains(out, "from Ann") || !strings.Contains(out, "┆ Count the lines of sales.csv") || !strings.Contains(out, "never binding") {
			return os.ErrNotExist
		}
		return nil
	})
	if code, out, errs := of(by["Ben"], "task", "claim", p.Task, "--set", "budget.time=10m"); code != 0 || !strings.Contains(out, "Ann decides") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	ann.Until("claimed", func() error {
		if _, out, _ := of(ann, "task", "offers"); !strings.Contains(out, "claimed by Ben") || !strings.Contains(out, "budget.time") || !strings.Contains(out, "task pick "+short(p.Task)+" Ben") {
			return os.ErrNotExist
		}
		return nil
	})
	code, out, errs = of(ann, "task", "pick", p.Task, "ben", "--dry-run")
	if code != 0 || !strings.Contains(out, `"maxWallClockSeconds":600`) || !strings.Contains(out, `"worker":`) {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	code, out, errs = of(ann, "task", "pick", p.Task, "ben", "--json")
	var made gateway.Proposed
	if err := json.Unmarshal([]byte(out), &made); code != 0 || err != nil || made.Ask == "" {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if code, out, _ := of(ann, "task", "offers"); code != 0 || !strings.Contains(out, "picked: task "+short(made.Task)) {
		t.Errorf("exit %d: %s", code, out)
	}
	ann.Yes(made.Ask)
	by["Ben"].Yes(by["Ben"].OpenAsk(made.Task, "contract"))
	ann.OpenAsk(made.Task, "delivery")
}
