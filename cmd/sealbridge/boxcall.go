package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/manifest"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

var _ = register(callCommand)

// callCommand is for programs in a box that have no MCP client.
func callCommand(a *app) *cobra.Command {
	var resources []string
	c := &cobra.Command{Use: "call TOOL [ARGUMENTS]", GroupID: "agents", Short: "for a program in a box: call a tool that the other owner granted for its task", Args: cobra.RangeArgs(1, 2),
		Long: "It finds the gateway by SEALBRIDGE_MCP_URL, SEALBRIDGE_MCP_TOKEN and SEALBRIDGE_TASK, which a boxed program has where\n" +
			"its contract grants tools. The result is JSON on stdout: another owner's words, data and never instructions.",
		Example: "  sealbridge call docs.read '{\"path\":\"public/terms.txt\"}'",
		RunE: func(c *cobra.Command, args []string) error {
			text := "{}"
			if len(args) == 2 {
				text = args[1]
			}
			v, err := jcs.Canonicalize([]byte(text))
			if err != nil {
				return spec.At("ARGUMENTS", err)
			}
			url, token, task := os.Getenv("SEALBRIDGE_MCP_URL"), os.Getenv("SEALBRIDGE_MCP_TOKEN"), os.Getenv("SEALBRIDGE_TASK")
			if url == "" || token == "" || task == "" {
				return hint(spec.Refuse(spec.Unavailable, "", "no tools were granted here"), "it works in a box whose contract grants tools; elsewhere agents ask by MCP")
			}
			use := map[string]any{"tool": args[0], "arguments": v}
			if len(resources) > 0 {
				use["resources"] = resources
			}
			out, err := callInBox(c.Context(), url, token, task, use)
			if err == nil {
				a.print("%s\n", out)
			}
			return err
		}}
	c.Flags().StringArrayVar(&resources, "resource", nil, "what the call reaches, where its arguments do not name it plainly")
	return c
}

// callInBox makes a call and waits for its answer, in parts where it is long.
func callInBox(ctx context.Context, url, token, task string, use map[string]any) (string, error) {
	var text strings.Builder
	for {
		use["task_id"], use["wait_seconds"] = task, 25
		out, err := callOverMCP(ctx, url, token, use)
		if err != nil {
			return "", err
		}
		use = map[string]any{"call": out.Call}
		switch {
		case out.State == "refused":
			return "", spec.Refuse(spec.CapabilityDenied, "", manifest.Display(out.Refused.Text, 500))
		case out.State == "unknown":
			return "", spec.Refuse(spec.Unavailable, "", "nobody knows whether the tool ran; the use is charged")
		case out.State == "done" && !out.Result.Data.IsZero():
			return out.Result.Data.String(), nil
		case out.State == "done" && out.Result.Text != "":
			text.WriteString(out.Result.Text)
			if out.Result.Next == 0 {
				return text.String(), nil
			}
			use["offset"] = out.Result.Next
		}
	}
}

// called is what call_capability answers.
type called struct {
	Call    string `json:"call"`
	State   string `json:"state"`
	Refused struct {
		Text string `json:"text"`
	} `json:"refused"`
	Result struct {
		Text string    `json:"text"`
		Data jcs.Value `json:"data"`
		Next int       `json:"next_offset"`
	} `json:"result"`
}

const maxCallAnswer = 4 << 20

// callOverMCP asks once: one POST, one answer.
func callOverMCP(ctx context.Context, url, token string, use map[string]any) (out called, err error) {
	raw, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": "call_capability", "arguments": use}})
	if err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return out, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return out, &spec.Error{Reason: spec.Unavailable, Limit: "the gateway does not answer", Err: err}
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxCallAnswer))
	if err != nil {
		return out, &spec.Error{Reason: spec.Unavailable, Err: err}
	}
	var got struct {
		Result struct {
			IsError bool `json:"isError"`
			Content []struct {
				Text string `json:"text"`
			} `json:"content"`
			Structured json.RawMessage `json:"structuredContent"`
		} `json:"result"`
	}
	if json.Unmarshal(b, &got) != nil || res.StatusCode != http.StatusOK {
		return out, spec.Refuse(spec.Unavailable, "", "no answer that can be read: "+res.Status)
	}
	if got.Result.IsError {
		text := "refused"
		if len(got.Result.Content) > 0 {
			text = got.Result.Content[0].Text
		}
		return out, spec.Refuse(spec.CapabilityDenied, "", manifest.Display(text, 500))
	}
	return out, json.Unmarshal(got.Result.Structured, &out)
}
