package mcptools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sealbridge/manifest"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// tool is one row of the table in spec/agents.md.
type tool struct {
	name, title, about string
	in, out            shape
	hints              mcp.ToolAnnotations
}

// reads marks a tool that changes nothing.
func reads() mcp.ToolAnnotations {
	no := false
	return mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &no}
}

// changes marks one that does. Open: it reaches another owner.
func changes(destroys, again, open bool) mcp.ToolAnnotations {
	return mcp.ToolAnnotations{DestructiveHint: &destroys, IdempotentHint: again, OpenWorldHint: &open}
}

// add puts a tool on a server. Arguments are read as strictly as any document:
// the bytes that came, once (D1, D3). An error leaves as its word, path and limit.
func add[In, Out any](c caller, s *mcp.Server, t tool, do func(context.Context, In) (Out, error)) {
	mcp.AddTool(s, &mcp.Tool{Name: t.name, Title: t.title, Description: t.about, InputSchema: map[string]any(t.in), OutputSchema: map[string]any(t.out), Annotations: &t.hints},
		func(ctx context.Context, req *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, Out, error) {
			var in In
			var none Out
			if err := strictly(req.Params.Arguments, &in); err != nil {
				return nil, none, said(err)
			}
			back, err := c.take(c.calls, c.agent.Name, maxCalls)
			if err != nil {
				return nil, none, said(err)
			}
			defer back()
			out, err := do(ctx, in)
			if err != nil {
				c.Log.Info("agent refused", "agent", c.agent.Name, "tool", t.name, "word", spec.ReasonOf(err))
				return nil, none, said(err)
			}
			c.showCard(ctx, req.Session, out)
			return nil, out, nil
		})
}

// strictly reads arguments; the schema was held against them before.
func strictly(raw json.RawMessage, in any) error {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	v, err := jcs.Canonicalize(raw)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(v.Bytes()))
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		return spec.Refuse(spec.Malformed, "", "arguments as the tool's schema says")
	}
	return nil
}

// said is an error as an agent reads it (A9): no internal text.
func said(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = spec.Refuse(spec.Unavailable, "", "the call ended before its answer")
	}
	var e *spec.Error
	if !errors.As(err, &e) {
		return errors.New(string(spec.Internal))
	}
	line := strings.Join(strings.Fields(e.Path+" "+e.Limit), " ")
	if line == "" {
		return errors.New(string(e.Reason))
	}
	return fmt.Errorf("%s: %s", e.Reason, manifest.Display(line, 1000))
}

// next says who acts, and what the agent does now (A7).
type next struct {
	Who string `json:"who"`
	Do  string `json:"do"`
}

// foreign is what another owner wrote (A6): text spelled out, or data as it came.
type foreign struct {
	Untrusted bool            `json:"untrusted"`
	Origin    string          `json:"origin"`
	Text      string          `json:"text,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Next      int             `json:"next_offset,omitempty"`
}

// theirs marks a text of a contact; from an offset on, in characters.
func theirs(contact, text string, from int) *foreign {
	if text == "" {
		return nil
	}
	f := &foreign{Untrusted: true, Origin: originOf(contact)}
	f.Text, f.Next = part(shown(text), from)
	return f
}

// theirData marks a structured value of a contact; as text, in parts, where it is long.
func theirData(contact string, v jcs.Value, from int) *foreign {
	if v.IsZero() {
		return nil
	}
	if from == 0 && len(v.Bytes()) <= maxText {
		return &foreign{Untrusted: true, Origin: originOf(contact), Data: v.Bytes()}
	}
	return theirs(contact, v.String(), from)
}

func originOf(contact string) string {
	return "the contact " + manifest.Display(contact, 64) + ", another owner"
}

// shown spells out what cannot be seen, and leaves lines as they are (M8).
func shown(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i, l := range lines {
		lines[i] = manifest.Display(strings.ReplaceAll(l, "\t", "    "), len(l)+1)
	}
	return strings.Join(lines, "\n")
}

// part is at most maxText characters from an offset on, and where the rest begins; 0: that was all.
func part(s string, from int) (string, int) {
	r := []rune(s)
	from = min(max(from, 0), len(r))
	if len(r)-from <= maxText {
		return string(r[from:]), 0
	}
	return string(r[from : from+maxText]), from + maxText
}
