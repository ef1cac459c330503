package main

import (
	"fmt"
	"strings"

	"sealbridge/gateway"
	"sealbridge/policy/approval"
)

// treeText draws where a task stands among those that are handed on: the
// contracts above it, the task, its parts with what each may use, and what is
// left of the task's own budget.
func treeText(t gateway.TaskView) string {
	if t.Parent == "" && t.Depth == 0 && len(t.Parts) == 0 {
		return ""
	}
	var b strings.Builder
	if t.Parent != "" {
		fmt.Fprintf(&b, "  part of %s; %d above\n", short(t.Parent), t.Above)
	}
	if t.Depth > 0 {
		fmt.Fprintf(&b, "  may be handed on, %d deep\n", t.Depth)
	}
	for i, p := range t.Parts {
		edge := "├─"
		if i == len(t.Parts)-1 {
			edge = "└─"
		}
		state := p.State
		if p.Waiting != "" {
			state += ", waiting for " + p.Waiting
		}
		fmt.Fprintf(&b, "  %s %s  %s  %s  with %s\n", edge, short(p.TaskID), strings.ToUpper(state), p.Title, p.With)
		share := fmt.Sprintf("at most %s tokens in, %s out, %s calls, %d s", approval.Figure(p.Share.InputTokens), approval.Figure(p.Share.OutputTokens),
			approval.Figure(p.Share.ToolInvocations), p.Share.WallClockSeconds)
		if p.Held {
			share += "; kept back from this task"
		}
		bar := "│ "
		if i == len(t.Parts)-1 {
			bar = "  "
		}
		fmt.Fprintf(&b, "  %s    %s\n", bar, share)
	}
	return b.String()
}
