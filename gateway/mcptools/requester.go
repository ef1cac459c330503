package mcptools

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
)

// delegation is a draft (product's words, as a person writes them in YAML) with
// the contact and what makes two calls one.
type delegation struct {
	To string `json:"to"`
	work
	ClientID string `json:"client_id"`
	DryRun   bool   `json:"dry_run"`
}

// work is what is asked for, whoever does it.
type work struct {
	Title    string          `json:"title"`
	Goal     string          `json:"goal"`
	DoneWhen []string        `json:"done_when"`
	Inputs   []inputFile     `json:"inputs"`
	Data     json.RawMessage `json:"data"`
	Output   json.RawMessage `json:"output"`
	Check    []string        `json:"check"`
	Retries  *int64          `json:"retries"`
	Budget   struct {
		InputTokens  string `json:"input_tokens"`
		OutputTokens string `json:"output_tokens"`
		ToolCalls    string `json:"tool_calls"`
		Time         string `json:"time"`
		Over         string `json:"over"`
	} `json:"budget"`
	PaidBy   string `json:"paid_by"`
	Deadline string `json:"deadline"`
	Sandbox  struct {
		Isolation string   `json:"isolation"`
		ClaimedOK bool     `json:"claimed_ok"`
		Files     string   `json:"files"`
		Hosts     []string `json:"hosts"`
	} `json:"sandbox"`
	Gates []string `json:"gates"`
	Depth int64    `json:"delegation_depth"`
}

type inputFile struct {
	File string `json:"file"`
	As   string `json:"as"`
}

var delegationShape = object(append([]field{
	must("to", some(64).says("the contact, by a name of list_contacts")),
	maybe("client_id", some(64).says("your own id for this request: the same again is the same task, for ever")),
	maybe("dry_run", flag.says("show the contract, ask nobody, send nothing")),
}, workFields...)...)

var workFields = []field{
	must("goal", some(16_000).says("what is to be done, complete in itself: the other agent sees only this, the criteria and the input files")),
	maybe("title", some(200).says("a line that your owner reads first; without it the first line of goal")),
	maybe("done_when", list(20, some(1000)).says("criteria, one a line, that a delivery is judged by; begin one with \"optional: \" if it is")),
	maybe("inputs", list(50, object(must("file", some(1000).says("absolute path")), maybe("as", some(200).says("name on the other side; without it the file's own")))).
		says("files that leave this machine: only paths that may_send of list_contacts covers")),
	maybe("data", any0.says("structured input; it travels as the file input.json")),
	maybe("output", free.says("JSON Schema (2020-12) of the result that you want back")),
	maybe("check", list(20, some(100)).says("what is checked on a delivery, all of it: schema (the result matches output), person (your owner looks), sha256:DIGEST (a file is exactly this); default schema and person")),
	maybe("retries", whole(0, 10).says("how often a delivery may come again after a rejection; default 1")),
	maybe("budget", object(
		maybe("input_tokens", some(12)), maybe("output_tokens", some(12)), maybe("tool_calls", some(12)),
		maybe("time", some(12).says("working time, such as 45s, 15m, 2h")),
		maybe("over", word("stop", "ask").says("what happens at a limit")),
	).says("the most that the other side may use, such as 200k or 2M; defaults 200k, 20k, 40, 15m, stop")),
	maybe("paid_by", word("worker", "shared", "plugin")),
	maybe("deadline", some(40).says("from now, such as 2h or 7d, or an instant; default 2d")),
	maybe("sandbox", object(
		maybe("isolation", word("subprocess", "container", "wasm").says("the least that the other side must use")),
		maybe("claimed_ok", flag.says("true: the other side's word is enough; your owner's card says so")),
		maybe("files", word("inputs", "workspace")),
		maybe("hosts", list(50, some(253)).says("hosts that the other agent may reach, each by its whole name; its owner is asked about each; default none")),
	)),
	maybe("delegation_depth", whole(0, 5).says("how often the work may be handed on to further owners, each time by a yes of both; default 0")),
	maybe("gates", list(5, word("contract", "effect", "budget", "delegation", "delivery")).says("where a person says yes; default contract, effect, delivery")),
}

// draft is the same thing as a person's draft; the gateway makes the contract from it.
func (in work) draft() (d manifest.Draft, err error) {
	d = manifest.Draft{Title: in.Title, Goal: in.Goal, PaidBy: in.PaidBy, Deadline: in.Deadline, Gates: in.Gates, Depth: in.Depth,
		Verify:  manifest.DraftVerify{Retries: in.Retries},
		Budget:  manifest.DraftBudget(in.Budget),
		Sandbox: manifest.DraftSandbox{Isolation: in.Sandbox.Isolation, ClaimedOK: in.Sandbox.ClaimedOK, Files: in.Sandbox.Files}}
	if d.Title == "" {
		line, _, _ := strings.Cut(strings.TrimSpace(in.Goal), "\n")
		d.Title = line
		if r := []rune(line); len(r) > 100 {
			d.Title = string(r[:100])
		}
	}
	for _, text := range in.DoneWhen {
		rest, optional := strings.CutPrefix(text, "optional: ")
		d.DoneWhen = append(d.DoneWhen, manifest.DraftDone{Text: rest, Optional: optional})
	}
	if len(in.Sandbox.Hosts) > 0 {
		names := make([]any, len(in.Sandbox.Hosts))
		for i, h := range in.Sandbox.Hosts {
			names[i] = h
		}
		d.Sandbox.Network = names
	}
	for _, f := range in.Inputs {
		d.Inputs = append(d.Inputs, manifest.DraftInput{File: f.File, As: f.As})
	}
	for _, c := range in.Check {
		if digest, ok := strings.CutPrefix(c, "sha256:"); ok {
			d.Check = append(d.Check, manifest.DraftCheck{SHA256: digest})
		} else {
			d.Check = append(d.Check, manifest.DraftCheck{Word: c})
		}
	}
	if len(in.Data) > 0 {
		d.Data = in.Data
	}
	if len(in.Output) > 0 {
		d.Output = in.Output
	}
	return d, nil
}

type delegated struct {
	TaskID   string          `json:"task_id"`
	State    string          `json:"state"`
	Joined   bool            `json:"joined"`
	Ask      string          `json:"ask_id,omitempty"`
	Until    *time.Time      `json:"until,omitempty"`
	Digest   string          `json:"manifest_digest"`
	Contract json.RawMessage `json:"contract,omitempty"`
	Next     next            `json:"next"`
}

var delegatedShape = object(
	must("task_id", text(80).says("the handle: give it to get_task and get_result")),
	must("state", word("waiting", "sent", "dry_run")),
	must("joined", flag.says("the same was asked before: this is that task")),
	maybe("ask_id", text(80).says("what your owner is asked")),
	maybe("until", instant.says("from then on no answer is a no")),
	must("manifest_digest", text(80)),
	maybe("contract", free.says("of a dry run")),
	must("next", nextShape))

func (c caller) delegate(ctx context.Context, in delegation) (out delegated, err error) {
	d, err := in.draft()
	if err != nil {
		return out, err
	}
	p, err := c.Gateway.Propose(ctx, c.by, gateway.Proposal{Draft: d, To: in.To, DryRun: in.DryRun, ID: in.ClientID})
	if err != nil {
		return out, err
	}
	out = delegated{TaskID: p.Task, State: "sent", Joined: p.Joined, Ask: p.Ask, Digest: p.Digest}
	switch {
	case in.DryRun:
		out.State, out.Contract = "dry_run", p.Manifest.Bytes()
		out.Next = next{"you", "nothing was asked or sent; call delegate_task without dry_run to ask"}
		return out, nil
	case p.Ask != "":
		out.State, out.Until = "waiting", &p.Until
	}
	v, err := c.Gateway.AgentTask(ctx, c.by, gateway.Ref{Task: p.Task})
	out.Next = c.nextOf(v.TaskView)
	return out, err
}

type contacts struct {
	Contacts []contact `json:"contacts"`
	Next     next      `json:"next"`
}

type contact struct {
	Name      string           `json:"name"`
	Confirmed bool             `json:"confirmed"`
	MayAsk    bool             `json:"may_ask"`
	MaySend   []string         `json:"may_send"`
	AtMost    map[string]int64 `json:"at_most"`
}

var contactsShape = object(
	must("contacts", list(500, object(
		must("name", text(64)),
		must("confirmed", flag.says("a person compared the six words; nothing is asked of the others")),
		must("may_ask", flag.says("a rule of your owner's policy lets you ask; each request still waits for a yes")),
		must("may_send", list(200, text(500)).says("globs of the paths that may go along; no others")),
		must("at_most", shape{"type": "object", "additionalProperties": count}.says("bounds of one request; seconds for time"))))),
	must("next", nextShape))

func (c caller) listContacts(ctx context.Context, _ struct{}) (out contacts, err error) {
	cs, err := c.Gateway.Askables(ctx, c.by, gateway.None{})
	if err != nil {
		return out, err
	}
	out = contacts{[]contact{}, next{"you", "delegate_task to a contact with confirmed and may_ask; request_contact where there is none"}}
	for _, k := range cs {
		most := map[string]int64{}
		for name, a := range map[string]*int64{"input_tokens": (*int64)(k.AtMost.InputTokens), "output_tokens": (*int64)(k.AtMost.OutputTokens),
			"tool_calls": (*int64)(k.AtMost.ToolCalls), "delegation_depth": k.AtMost.DelegationDepth} {
			if a != nil {
				most[name] = *a
			}
		}
		if t := k.AtMost.Time; t != nil {
			most["time"] = int64(time.Duration(*t) / time.Second)
		}
		out.Contacts = append(out.Contacts, contact{k.Name, k.Confirmed, k.May && k.Confirmed, append([]string{}, k.MaySend...), most})
	}
	return out, nil
}

type cancellation struct {
	Task   string `json:"task_id"`
	Reason string `json:"reason"`
}

type cancelled struct {
	Task  string `json:"task_id"`
	State string `json:"state"`
	Next  next   `json:"next"`
}

func (c caller) cancel(ctx context.Context, in cancellation) (cancelled, error) {
	v, err := c.Gateway.Cancel(ctx, c.by, gateway.Cancellation{Task: in.Task, Reason: in.Reason})
	return cancelled{v.TaskID, v.State, c.nextOf(v)}, err
}

func (c caller) contactsTool(s *mcp.Server) {
	add(c, s, tool{name: "list_contacts", title: "List contacts", hints: reads(), in: object(), out: contactsShape,
		about: "Lists the contacts whose agents can do work for you, which paths you may send them, and the bounds of a request. Call it before delegate_task."}, c.listContacts)
}

func (c caller) cancelTool(s *mcp.Server) {
	add(c, s, tool{name: "cancel_task", title: "Cancel a task", hints: changes(true, true, true),
		in:    object(must("task_id", taskID), maybe("reason", some(1000).says("the other side is told this"))),
		out:   object(must("task_id", text(80)), must("state", text(20)), must("next", nextShape)),
		about: "Ends a task that you asked for, or with a group_id all tasks of that group. It is final; a second time changes nothing."}, c.cancel)
}

func (c caller) requesterTools(s *mcp.Server) {
	c.contactsTool(s)
	add(c, s, tool{name: "delegate_task", title: "Ask a contact's agent for work", hints: changes(false, true, true), in: delegationShape, out: delegatedShape,
		about: "Asks a contact's agent to do a task. Answers at once with task_id: your owner is asked first, then the contact's owner, and the work takes minutes to days. " +
			"Go on with other work and call get_task later. The same call while your owner is being asked joins the first. Files outside may_send are refused before anybody is asked."}, c.delegate)
	c.severalTools(s)
	c.cancelTool(s)
	c.resultTools(s)
	add(c, s, tool{name: "request_contact", title: "Ask your owner for a contact", hints: changes(false, true, false),
		in:    object(must("who", some(100).says("the person or firm")), maybe("why", some(300))),
		out:   object(must("noted", flag), must("next", nextShape)),
		about: "Leaves your owner a note that you would like a contact with somebody. Only a person makes and confirms contacts; nothing is sent."}, c.requestContact)
}

type wish struct {
	Who string `json:"who"`
	Why string `json:"why"`
}

type noted struct {
	Noted bool `json:"noted"`
	Next  next `json:"next"`
}

func (c caller) requestContact(ctx context.Context, in wish) (noted, error) {
	_, err := c.Gateway.RequestContact(ctx, c.by, gateway.Wish{Who: in.Who, Why: in.Why})
	return noted{err == nil, next{"owner", "tell your owner: `sealbridge invite` makes an invite to send, `sealbridge contact add` takes one; list_contacts shows when it is there"}}, err
}

// nextOf is A7 for a task that this agent asked for.
func (c caller) nextOf(v gateway.TaskView) next {
	who := manifest.Display(v.With, 64)
	ask := openAsk(v)
	switch {
	case ask != "":
		return next{"owner", "nothing: your owner is asked and decides with `sealbridge gate show " + ending(ask) + "`" + c.cardAt(ask) + "; go on with other work, then get_task"}
	case v.State == "drafted" && v.Parent != "":
		return next{"contact", "nothing: " + manifest.Display(v.Waiting, 100) + " decides whether this part may be handed on; go on with your own work, then get_task"}
	case v.State == "dropped":
		return next{"nobody", "nothing was sent (" + v.Outcome + "); talk to your owner before you ask again"}
	case v.Outcome == "completed" && !v.Released:
		return next{"gateway", "get_task in a moment"}
	case v.Outcome == "completed":
		return next{"you", "get_result"}
	case v.Outcome != "":
		return next{"you", "it ended as " + v.Outcome + "; read reason in get_task, which is the other side's words where it is marked, and tell whoever asked you"}
	case v.Recovery != "" || v.Breach != "":
		return next{"owner", "your owner has to look at this task: `sealbridge task show " + ending(v.TaskID) + "`"}
	case v.NextActor == string(v.Role):
		return next{"gateway", "the delivery is being fetched and checked; get_task in a moment"}
	}
	return next{"contact", "nothing: " + who + "'s side acts; go on with other work, then get_task with wait_seconds"}
}

// openAsk is what our owner is asked about a task; "" nothing.
func openAsk(v gateway.TaskView) (ask string) {
	for _, g := range v.Gates {
		if g.State == string(approval.Waiting) {
			ask = g.AskID
		}
	}
	return ask
}

func (c caller) cardAt(ask string) string {
	if at := c.Gateway.CardURL(ask); at != "" {
		return " or at " + at
	}
	return ""
}

// ending is how a person types an id.
func ending(id string) string { return id[max(0, len(id)-4):] }
