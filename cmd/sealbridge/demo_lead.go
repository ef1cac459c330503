package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"sealbridge/manifest"
)

// leadCalls calls a tool as Ben's agent's client would: it starts `sealbridge
// mcp`, says hello and asks one thing, so that a gateway may be killed between
// two calls. What the door refuses is the error, word first.
func (d *demo) leadCalls(ctx context.Context, tool string, arguments map[string]any) (answer json.RawMessage, err error) {
	call, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": arguments}})
	if err != nil {
		return nil, err
	}
	if d.verbose {
		d.more("→ %s", call)
	}
	cmd := exec.CommandContext(ctx, d.lead.Command, d.lead.Args...)
	cmd.Env = append(os.Environ(), runAsSelf+"=1", tokenEnv+"="+d.lead.Env[tokenEnv])
	var errs strings.Builder
	cmd.Stderr = &errs
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer cmd.Wait() //nolint:errcheck // what counts is the answer
	defer in.Close()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"demo","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, string(call)} {
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			return nil, errors.Join(err, errors.New(errs.String()))
		}
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var m struct {
			ID     int `json:"id"`
			Result struct {
				Refused bool                    `json:"isError"`
				Data    json.RawMessage         `json:"structuredContent"`
				Content []struct{ Text string } `json:"content"`
			} `json:"result"`
			Error *struct{ Message string } `json:"error"`
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return nil, err
		}
		switch {
		case m.Error != nil:
			return nil, errors.New(m.Error.Message)
		case m.ID != 2:
		case m.Result.Refused && len(m.Result.Content) > 0:
			return nil, errors.New(m.Result.Content[0].Text)
		default:
			return m.Result.Data, nil
		}
	}
	return nil, errors.Join(lines.Err(), fmt.Errorf("no answer to %s: %s", tool, errs.String()))
}

// leadReads is Cleo's totals as Ben's agent gets them: marked as another owner's.
func (d *demo) leadReads(ctx context.Context) (totals map[string]string, err error) {
	err = eventually(ctx, "the part's result", func() (bool, error) {
		b, err := d.leadCalls(ctx, "get_result", map[string]any{"task_id": d.part, "wait_seconds": 5})
		if err != nil {
			return false, err
		}
		var r struct {
			Ready  bool `json:"ready"`
			Output *struct {
				Untrusted bool                               `json:"untrusted"`
				Data      struct{ Totals map[string]string } `json:"data"`
			} `json:"output"`
		}
		if err := json.Unmarshal(b, &r); err != nil || !r.Ready {
			return false, err
		}
		if r.Output == nil || !r.Output.Untrusted {
			return false, fmt.Errorf("another owner's words are not marked: %s", manifest.Display(string(b), 200))
		}
		totals = r.Output.Data.Totals
		return true, nil
	})
	return totals, err
}

// topOf is the region that sold most, and its share; totals are euros with two decimals.
func topOf(totals map[string]string) (map[string]string, error) {
	top, most, all := "", 0, 0
	for region, total := range totals {
		cents, err := strconv.Atoi(strings.Replace(total, ".", "", 1))
		if err != nil {
			return nil, err
		}
		if all += cents; cents > most {
			top, most = region, cents
		}
	}
	if all == 0 {
		return nil, errors.New("no totals")
	}
	return map[string]string{"region": top, "percent": strconv.FormatFloat(100*float64(most)/float64(all), 'f', 1, 64)}, nil
}
