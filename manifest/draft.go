package manifest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Draft is what a person writes to ask for work: a title and a goal are enough,
// the rest has defaults. [Draft.Manifest] makes the contract from it. File
// paths and ClaimedOK stay at home; they are not in the manifest.
type Draft struct {
	Title    string       `yaml:"title" json:"title"`
	Goal     string       `yaml:"goal" json:"goal"`
	DoneWhen []DraftDone  `yaml:"done_when" json:"doneWhen,omitempty"`
	Inputs   []DraftInput `yaml:"inputs" json:"inputs,omitempty"`
	Data     any          `yaml:"data" json:"data,omitempty"`
	Input    any          `yaml:"input" json:"input,omitempty"`   // a JSON Schema of data, inline (M12)
	Output   any          `yaml:"output" json:"output,omitempty"` // a JSON Schema, inline
	Check    []DraftCheck `yaml:"check" json:"check,omitempty"`
	Verify   DraftVerify  `yaml:"verify" json:"verify"`
	Budget   DraftBudget  `yaml:"budget" json:"budget"`
	PaidBy   string       `yaml:"paid_by" json:"paidBy,omitempty"` // worker, shared, plugin
	Deadline string       `yaml:"deadline" json:"deadline,omitempty"`
	Sandbox  DraftSandbox `yaml:"sandbox" json:"sandbox"`
	Depth    int64        `yaml:"delegation_depth" json:"delegationDepth,omitempty"`
	Grants   []DraftGrant `yaml:"grants" json:"grants,omitempty"` // our tools that the worker's agent may call
	Gates    []string     `yaml:"gates" json:"gates,omitempty"`
}

// DraftDone is one line that a delivery is judged by.
type DraftDone struct {
	Text     string `yaml:"text" json:"text"`
	Optional bool   `yaml:"-" json:"optional,omitempty"`
	ID       string `yaml:"-" json:"id,omitempty"` // of a bridge; ac_1… where absent
}

// DraftInput is one file that leaves this machine.
type DraftInput struct {
	File   string `yaml:"file" json:"file"`
	As     string `yaml:"as" json:"as,omitempty"`
	SHA256 string `yaml:"sha256" json:"sha256,omitempty"` // in hex, where the bytes are known before: other bytes do not leave
}

// DraftCheck is schema, person, a command or a digest.
type DraftCheck struct {
	Word   string `yaml:"-" json:"word,omitempty"` // schema or person
	Run    string `yaml:"run" json:"run,omitempty"`
	SHA256 string `yaml:"sha256" json:"sha256,omitempty"`
}

type DraftVerify struct {
	Retries      *int64 `yaml:"retries" json:"retries,omitempty"`
	UsageReceipt *bool  `yaml:"usage_receipt" json:"usageReceipt,omitempty"`
	Attestation  *bool  `yaml:"attestation" json:"attestation,omitempty"`
}

type DraftBudget struct {
	InputTokens  string `yaml:"input_tokens" json:"inputTokens,omitempty"`
	OutputTokens string `yaml:"output_tokens" json:"outputTokens,omitempty"`
	ToolCalls    string `yaml:"tool_calls" json:"toolCalls,omitempty"`
	Time         string `yaml:"time" json:"time,omitempty"`
	Over         string `yaml:"over" json:"over,omitempty"` // ask or stop
}

type DraftSandbox struct {
	Isolation string `yaml:"isolation" json:"isolation,omitempty"` // subprocess, container, wasm
	ClaimedOK bool   `yaml:"claimed_ok" json:"claimedOk,omitempty"`
	Fallback  bool   `yaml:"fallback" json:"fallback,omitempty"` // a subprocess will do where there is no container or module (X10)
	Network   any    `yaml:"network" json:"network,omitempty"`   // none, or a list of hosts
	Files     string `yaml:"files" json:"files,omitempty"`       // inputs or workspace
}

// UnmarshalYAML takes a plain line, or {optional: line}.
func (d *DraftDone) UnmarshalYAML(read func(any) error) error {
	if read(&d.Text) == nil {
		return nil
	}
	var m struct {
		Optional string `yaml:"optional"`
	}
	err := read(&m)
	d.Text, d.Optional = m.Optional, true
	return err
}

// UnmarshalYAML takes a file name, or {file: …, as: …}.
func (d *DraftInput) UnmarshalYAML(read func(any) error) error {
	if read(&d.File) == nil {
		return nil
	}
	type plain DraftInput
	return read((*plain)(d))
}

// UnmarshalYAML takes schema, person, {run: …} or {sha256: …}.
func (d *DraftCheck) UnmarshalYAML(read func(any) error) error {
	if read(&d.Word) == nil {
		return nil
	}
	type plain DraftCheck
	return read((*plain)(d))
}

// Terms are what a contract needs beside the draft.
type Terms struct {
	ID                TaskID
	At                time.Time
	Requester, Worker Party
	Inputs            []ArtifactRef // measured, in the order of Draft.Inputs; then input.json where there is data
}

// Manifest makes the contract. Every default is stated here, once.
func (d Draft) Manifest(t Terms) (m TaskManifest, err error) {
	deadline, err := ParseDeadline(orText(d.Deadline, "2d"), t.At)
	if err != nil {
		return m, spec.At("/deadline", err)
	}
	m = TaskManifest{
		ProtocolVersion: ProtocolVersion, TaskID: t.ID,
		CreatedAt: signing.TimeOf(t.At), Deadline: signing.TimeOf(deadline),
		Requester: t.Requester, Worker: &t.Worker,
		Task:        Work{Title: d.Title, Description: d.Goal, AcceptanceCriteria: d.criteria()},
		IO:          IO{InputSchema: jcs.EmptyObject, OutputSchema: jcs.EmptyObject, InputArtifacts: t.Inputs},
		Permissions: Permissions{MaxDelegationDepth: d.Depth},
	}
	if m.Permissions.GrantedCapabilities, err = d.grants(t, deadline); err != nil {
		return m, err
	}
	if d.Input != nil {
		if m.IO.InputSchema, err = ValueOf(d.Input); err != nil {
			return m, spec.At("/input", err)
		}
	}
	if d.Output != nil {
		if m.IO.OutputSchema, err = ValueOf(d.Output); err != nil {
			return m, spec.At("/output", err)
		}
	}
	if m.Verification, err = d.verification(); err != nil {
		return m, err
	}
	if m.Budget, err = d.budget(); err != nil {
		return m, err
	}
	if m.SandboxPolicy, err = d.sandbox(); err != nil {
		return m, err
	}
	m.HITLPolicy, err = d.gates()
	return m, err
}

func (d Draft) criteria() []Criterion {
	lines := d.DoneWhen
	if len(lines) == 0 {
		lines = []DraftDone{{Text: "The goal is met."}}
	}
	out := make([]Criterion, len(lines))
	for i, l := range lines {
		id := orText(l.ID, "ac_"+strconv.Itoa(i+1)) // a bad one is found when the contract is read
		out[i] = Criterion{CriterionID{id}, l.Text, !l.Optional}
	}
	return out
}

func (d Draft) verification() (v Verification, err error) {
	v = Verification{RequireUsageReceipt: orBool(d.Verify.UsageReceipt, true),
		RequireExecutionAttestation: orBool(d.Verify.Attestation, true), MaxRetries: 1}
	if d.Verify.Retries != nil {
		v.MaxRetries = *d.Verify.Retries
	}
	checks := d.Check
	if len(checks) == 0 {
		checks = []DraftCheck{{Word: "schema"}, {Word: "person"}}
	}
	schema, person, other := false, false, false
	for i, c := range checks {
		k := Check{CheckID: CheckID{"chk_" + strconv.Itoa(i+1)}, Target: "output"}
		switch {
		case c.Word == "schema":
			k.Kind, schema = "json_schema", true
		case c.Word == "person":
			k.Kind, k.Target, person = "human_review", "delivery", true
		case c.Run != "":
			if _, err := SplitCommand(c.Run); err != nil {
				return v, spec.At("/check/"+strconv.Itoa(i)+"/run", err)
			}
			k.Kind, k.Target, other = CommandCheck, c.Run, true
		case c.SHA256 != "":
			k.Kind, k.Target, other = "sha256_match", c.SHA256, true
		default:
			return v, spec.Refuse(spec.Malformed, "/check/"+strconv.Itoa(i), "schema, person, run: or sha256:")
		}
		v.Checks = append(v.Checks, k)
	}
	switch {
	case person && (schema || other):
		v.Mode = "hybrid"
	case person:
		v.Mode = "human_in_the_loop"
	case other:
		v.Mode = "automated_checks"
	default:
		v.Mode = "schema_only"
	}
	return v, nil
}

func (d Draft) budget() (b Budget, err error) {
	in := d.Budget
	for _, f := range []struct {
		path, text, def string
		to              *int64
	}{
		{"input_tokens", in.InputTokens, "200k", &b.MaxInputTokens},
		{"output_tokens", in.OutputTokens, "20k", &b.MaxOutputTokens},
		{"tool_calls", in.ToolCalls, "40", &b.MaxToolInvocations},
	} {
		if *f.to, err = ParseCount(orText(f.text, f.def)); err != nil {
			return b, spec.At("/budget/"+f.path, err)
		}
	}
	work, err := ParseSpan(orText(in.Time, "15m"))
	if err != nil {
		return b, spec.At("/budget/time", err)
	}
	b.MaxWallClockSeconds = int64(work / time.Second)
	if b.OnOverrun, err = oneOf("/budget/over", orText(in.Over, "stop"), "ask", "request_hitl_amendment", "stop", "hard_stop"); err != nil {
		return b, err
	}
	b.CostBearer, err = oneOf("/paid_by", orText(d.PaidBy, "worker"), "worker", "worker_byok", "shared", "bilateral_quota", "plugin", "external_settlement_plugin")
	return b, err
}

func (d Draft) sandbox() (s SandboxPolicy, err error) {
	in := d.Sandbox
	if s.IsolationLevel, err = oneOf("/sandbox/isolation", orText(in.Isolation, "subprocess"), "subprocess", "subprocess_restricted", "container", "oci_container", "wasm", "wasm"); err != nil {
		return s, err
	}
	if in.Fallback {
		if s.IsolationLevel == "subprocess_restricted" {
			return s, spec.Refuse(spec.Malformed, "/sandbox/fallback", "only with isolation: container or wasm")
		}
		s.AllowSubprocessFallback = &in.Fallback
	}
	if s.FilesystemScope, err = oneOf("/sandbox/files", orText(in.Files, "inputs"), "inputs", "read_only_inputs", "workspace", "ephemeral_workspace_only"); err != nil {
		return s, err
	}
	switch n := in.Network.(type) {
	case nil:
		s.NetworkAccess = "none"
	case string:
		s.NetworkAccess, err = oneOf("/sandbox/network", n, "none", "none")
	case []any:
		s.NetworkAccess = "allowlist_only"
		for _, h := range n {
			s.AllowedHosts = append(s.AllowedHosts, fmt.Sprint(h))
		}
	default:
		err = spec.Refuse(spec.Malformed, "/sandbox/network", "none, or a list of hosts")
	}
	return s, err
}

var gateWords = map[string]Gate{"contract": ContractGate, "effect": EffectGate, "budget": BudgetGate, "delegation": SubGate, "delivery": DeliveryGate}

func (d Draft) gates() (h HITLPolicy, err error) {
	words := d.Gates
	if d.Gates == nil {
		words = []string{"contract", "effect", "delivery"}
		if d.Depth > 0 {
			words = append(words, "delegation")
		}
		if d.Budget.Over == "ask" {
			words = append(words, "budget")
		}
	}
	h.RequiredGates = []Gate{}
	for i, w := range words {
		g, ok := gateWords[w]
		if !ok {
			return h, spec.Refuse(spec.Malformed, "/gates/"+strconv.Itoa(i), "contract, effect, budget, delegation or delivery")
		}
		h.RequiredGates = append(h.RequiredGates, g)
	}
	return h, nil
}

// GateWord is how people call a gate in drafts, policies and commands.
func GateWord(g Gate) string {
	for w, have := range gateWords {
		if have == g {
			return w
		}
	}
	return string(g)
}

func oneOf(path, word string, pairs ...string) (string, error) {
	var allowed []string
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] == word {
			return pairs[i+1], nil
		}
		allowed = append(allowed, pairs[i])
	}
	return "", spec.Refuse(spec.Malformed, path, strings.Join(allowed, ", "))
}

func orText(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

func orBool(b *bool, def bool) bool {
	if b == nil {
		return def
	}
	return *b
}

// ParseCount reads 40, 200k or 2M.
func ParseCount(s string) (int64, error) {
	unit := int64(1)
	num := s
	if n := len(s); n > 0 {
		switch s[n-1] {
		case 'k':
			unit, num = 1_000, s[:n-1]
		case 'M':
			unit, num = 1_000_000, s[:n-1]
		}
	}
	n, err := strconv.ParseInt(num, 10, 64)
	if err != nil || n < 0 || n > 1_000_000_000 {
		return 0, spec.Refuse(spec.Malformed, "", "a count: 40, 200k, 2M")
	}
	return n * unit, nil
}

// ParseSpan reads 45s, 15m, 2h, 7d.
func ParseSpan(s string) (time.Duration, error) {
	bad := spec.Refuse(spec.Malformed, "", "a time span: 45s, 15m, 2h, 7d")
	if len(s) < 2 {
		return 0, bad
	}
	unit := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[s[len(s)-1]]
	n, err := strconv.ParseInt(s[:len(s)-1], 10, 32)
	if err != nil || n <= 0 || unit == 0 {
		return 0, bad
	}
	return time.Duration(n) * unit, nil
}

// ParseDeadline reads a span from at, or an instant.
func ParseDeadline(s string, at time.Time) (time.Time, error) {
	if span, err := ParseSpan(s); err == nil {
		return at.Add(span), nil
	}
	t, err := signing.ParseTime(s)
	if err != nil {
		return time.Time{}, spec.Refuse(spec.Malformed, "", "a deadline: 2d, or 2026-12-02T09:15:00Z")
	}
	return t.Time(), nil
}

// ValueOf canonicalises what a YAML or JSON reader made: maps, lists, text, numbers.
func ValueOf(in any) (jcs.Value, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return jcs.Value{}, &spec.Error{Reason: spec.Malformed, Err: err}
	}
	return jcs.Canonicalize(raw)
}
