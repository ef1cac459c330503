package manifest

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// A counter-proposal is a contract with other terms and nothing else changed
// (G7). Its terms have the names that a draft has.

// Setting is one term as a person types it: budget.time=10m.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// ParseSetting reads KEY=VALUE.
func ParseSetting(s string) (Setting, error) {
	k, v, ok := strings.Cut(s, "=")
	if !ok || k == "" || v == "" {
		return Setting{}, spec.Refuse(spec.Malformed, "", "KEY=VALUE, as in budget.time=10m")
	}
	return Setting{k, v}, nil
}

// Difference is one term that two contracts do not share.
type Difference struct {
	Key  string `json:"key"`
	From string `json:"from"`
	To   string `json:"to"`
}

// term is one thing that a counter-proposal may change.
type term struct {
	key string
	get func(TaskManifest) string
	set func(*TaskManifest, string, time.Time) error
}

func countTerm(key string, of func(*TaskManifest) *int64) term {
	return term{key, func(m TaskManifest) string { return formatCount(*of(&m)) }, func(m *TaskManifest, v string, _ time.Time) (err error) {
		*of(m), err = ParseCount(v)
		return err
	}}
}

func wordTerm(key string, of func(*TaskManifest) *string, pairs ...string) term {
	return term{key, func(m TaskManifest) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i+1] == *of(&m) {
				return pairs[i]
			}
		}
		return *of(&m)
	}, func(m *TaskManifest, v string, _ time.Time) error {
		word, err := oneOf("", v, pairs...)
		if err == nil {
			*of(m) = word
		}
		return err
	}}
}

func boolTerm(key string, of func(*TaskManifest) *bool) term {
	return term{key, func(m TaskManifest) string { return strconv.FormatBool(*of(&m)) }, func(m *TaskManifest, v string, _ time.Time) error {
		b, err := strconv.ParseBool(v)
		if err != nil {
			return spec.Refuse(spec.Malformed, "", "true or false")
		}
		*of(m) = b
		return nil
	}}
}

// terms are in the order of a draft.
var terms = []term{
	countTerm("budget.input_tokens", func(m *TaskManifest) *int64 { return &m.Budget.MaxInputTokens }),
	countTerm("budget.output_tokens", func(m *TaskManifest) *int64 { return &m.Budget.MaxOutputTokens }),
	countTerm("budget.tool_calls", func(m *TaskManifest) *int64 { return &m.Budget.MaxToolInvocations }),
	{"budget.time", func(m TaskManifest) string { return formatSpan(m.Budget.MaxWallClockSeconds) }, func(m *TaskManifest, v string, _ time.Time) error {
		d, err := ParseSpan(v)
		m.Budget.MaxWallClockSeconds = int64(d / time.Second)
		return err
	}},
	wordTerm("budget.over", func(m *TaskManifest) *string { return &m.Budget.OnOverrun }, "ask", "request_hitl_amendment", "stop", "hard_stop"),
	wordTerm("paid_by", func(m *TaskManifest) *string { return &m.Budget.CostBearer }, "worker", "worker_byok", "shared", "bilateral_quota", "plugin", "external_settlement_plugin"),
	{"deadline", func(m TaskManifest) string { return m.Deadline.String() }, func(m *TaskManifest, v string, at time.Time) error {
		d, err := ParseDeadline(v, at)
		m.Deadline = signing.TimeOf(d)
		return err
	}},
	countTerm("verify.retries", func(m *TaskManifest) *int64 { return &m.Verification.MaxRetries }),
	boolTerm("verify.usage_receipt", func(m *TaskManifest) *bool { return &m.Verification.RequireUsageReceipt }),
	boolTerm("verify.attestation", func(m *TaskManifest) *bool { return &m.Verification.RequireExecutionAttestation }),
	wordTerm("sandbox.isolation", func(m *TaskManifest) *string { return &m.SandboxPolicy.IsolationLevel }, "subprocess", "subprocess_restricted", "container", "oci_container", "wasm", "wasm"),
	wordTerm("sandbox.files", func(m *TaskManifest) *string { return &m.SandboxPolicy.FilesystemScope }, "inputs", "read_only_inputs", "workspace", "ephemeral_workspace_only"),
	countTerm("delegation_depth", func(m *TaskManifest) *int64 { return &m.Permissions.MaxDelegationDepth }),
	{"gates", gateNames, func(m *TaskManifest, v string, _ time.Time) (err error) {
		words := strings.Split(v, ",")
		if v == "none" {
			words = []string{}
		}
		m.HITLPolicy, err = Draft{Gates: words}.gates()
		return err
	}},
}

func gateNames(m TaskManifest) string {
	words := []string{}
	for _, g := range m.HITLPolicy.RequiredGates {
		words = append(words, GateWord(g))
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, ",")
}

// TermKeys lists what a counter-proposal may set.
func TermKeys() []string {
	out := make([]string, len(terms))
	for i, t := range terms {
		out[i] = t.key
	}
	return out
}

// Terms are the terms of a contract as a draft spells them, in the order of [TermKeys].
func (m TaskManifest) Terms() []Setting {
	out := make([]Setting, len(terms))
	for i, t := range terms {
		out[i] = Setting{t.key, t.get(m)}
	}
	return out
}

// Counter is the contract with other terms; a span as deadline counts from at.
// It refuses a term that does not exist, and a counter-proposal that changes nothing.
func (m TaskManifest) Counter(set []Setting, at time.Time) (TaskManifest, error) {
	before := m
	for _, s := range set {
		i := slices.IndexFunc(terms, func(t term) bool { return t.key == s.Key })
		if i < 0 {
			return m, spec.Refuse(spec.Malformed, "/"+s.Key, "one of "+strings.Join(TermKeys(), ", "))
		}
		if err := terms[i].set(&m, s.Value, at); err != nil {
			return m, spec.At("/"+s.Key, err)
		}
	}
	if len(Differences(before, m)) == 0 {
		return m, spec.Refuse(spec.Malformed, "", "G7: a counter-proposal changes a term")
	}
	v, err := jcs.Encode(m)
	if err == nil {
		_, err = ReadManifest(v)
	}
	return m, err
}

// Differences are the terms in which two contracts differ, in the order of a draft.
func Differences(a, b TaskManifest) (out []Difference) {
	for _, t := range terms {
		if x, y := t.get(a), t.get(b); x != y {
			out = append(out, Difference{t.key, x, y})
		}
	}
	return out
}

// CounterOf reads what a `declined` carries and holds it against the contract
// that was declined: other terms, and not a byte beside them (G7).
func CounterOf(m TaskManifest, counter jcs.Value) (TaskManifest, error) {
	c, err := ReadManifest(counter)
	if err != nil {
		return c, err
	}
	if len(Differences(m, c)) == 0 {
		return c, refuse("", "G7: a counter-proposal changes a term")
	}
	same := c
	same.Budget, same.Deadline, same.HITLPolicy = m.Budget, m.Deadline, m.HITLPolicy
	same.Budget.SettlementExtension = c.Budget.SettlementExtension
	same.Verification.MaxRetries, same.Verification.RequireUsageReceipt = m.Verification.MaxRetries, m.Verification.RequireUsageReceipt
	same.Verification.RequireExecutionAttestation = m.Verification.RequireExecutionAttestation
	same.SandboxPolicy.IsolationLevel, same.SandboxPolicy.FilesystemScope = m.SandboxPolicy.IsolationLevel, m.SandboxPolicy.FilesystemScope
	same.Permissions.MaxDelegationDepth = m.Permissions.MaxDelegationDepth
	m.Signatures, same.Signatures = nil, nil
	x, err := jcs.Encode(m)
	if err != nil {
		return c, err
	}
	y, err := jcs.Encode(same)
	if err == nil && x != y {
		err = refuse("", "G7: a counter-proposal changes terms and nothing else")
	}
	return c, err
}

// formatCount is the inverse of ParseCount.
func formatCount(n int64) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return strconv.FormatInt(n/1_000_000, 10) + "M"
	case n >= 1000 && n%1000 == 0:
		return strconv.FormatInt(n/1000, 10) + "k"
	}
	return strconv.FormatInt(n, 10)
}

// formatSpan is the inverse of ParseSpan.
func formatSpan(seconds int64) string {
	for _, u := range []struct {
		n    int64
		unit string
	}{{86400, "d"}, {3600, "h"}, {60, "m"}} {
		if seconds >= u.n && seconds%u.n == 0 {
			return strconv.FormatInt(seconds/u.n, 10) + u.unit
		}
	}
	return strconv.FormatInt(seconds, 10) + "s"
}
