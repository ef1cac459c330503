package main

import (
	"strings"
	"testing"
	"time"

	"sealbridge/gateway"
)

func TestAChangeIsReadInTheUnitsOfADraft(t *testing.T) {
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	var in gateway.Change
	for _, text := range []string{"budget.input_tokens=200k", "budget.output_tokens=0", "budget.tool_calls=40", "budget.time=30m", "deadline=2d", "verify.retries=2"} {
		if err := setChange(&in, text, now); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	if *in.InputTokens != 200_000 || *in.OutputTokens != 0 || *in.ToolCalls != 40 || *in.Seconds != 1800 || !in.Deadline.Equal(now.Add(48*time.Hour)) || *in.Retries != 2 {
		t.Errorf("%+v", in)
	}
	for _, text := range []string{"", "=", "budget.time", "budget.time=", "budget.time=-1m", "budget.time=30", "budget.tool_calls=1e3", "deadline=tomorrow", "title=x", "budget=1"} {
		if err := setChange(&in, text, now); err == nil || !strings.Contains(err.Error(), "--set") {
			t.Errorf("%q: %v, want a refusal that names the flag", text, err)
		}
	}
}
