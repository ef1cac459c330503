package mcptools

import (
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"sealbridge/gateway"
	"sealbridge/policy/audit"
	"sealbridge/spec"
)

type evidenceQuestion struct {
	Task   string `json:"task_id"`
	Bundle string `json:"bundle"`
}

type evidenceAnswer struct {
	Verified   bool     `json:"verified"`
	Binding    bool     `json:"binding"`
	Known      string   `json:"known"`
	Kind       string   `json:"kind"`
	Documents  int      `json:"documents"`
	Signatures int      `json:"signatures"`
	Report     *foreign `json:"report"`
	Next       next     `json:"next"`
}

// told is the part of a report that quotes the documents.
type told struct {
	Task     *audit.Task     `json:"task"`
	Parties  []audit.Party   `json:"parties"`
	Findings []audit.Finding `json:"findings"`
	Proven   []audit.Entry   `json:"proven"`
	Claimed  []audit.Entry   `json:"claimed"`
	Missing  []audit.Entry   `json:"missing"`
	Limits   []audit.Limit   `json:"limits"`
}

var evidenceShape = object(
	must("verified", flag.says("whatever is there holds: digests, signatures, roles, rules, order")),
	must("binding", flag.says("nothing that a contract needs is absent")),
	must("known", word("all", "some", "none").says("whose owner keys a person of this home confirmed")),
	must("kind", text(64)), must("documents", count), must("signatures", count),
	must("report", foreignShape.says("findings, what is proven, only claimed, missing; it quotes the documents")),
	must("next", nextShape))

func (c caller) verifyEvidence(ctx context.Context, in evidenceQuestion) (out evidenceAnswer, err error) {
	if (in.Task == "") == (in.Bundle == "") {
		return out, spec.Refuse(spec.Malformed, "", "task_id or bundle")
	}
	r, err := c.Gateway.VerifyEvidence(ctx, c.by, gateway.Evidence{Task: in.Task, Bundle: in.Bundle})
	if err != nil {
		return out, err
	}
	raw, err := json.Marshal(told{r.Task, r.Parties, first(r.Findings), first(r.Proven), first(r.Claimed), first(r.Missing), r.Limits})
	if err != nil {
		return out, err
	}
	out = evidenceAnswer{Verified: r.Verified, Binding: r.Binding, Known: r.Known, Kind: r.Kind, Documents: r.Documents, Signatures: r.Signatures,
		Report: &foreign{Untrusted: true, Origin: "our report; it quotes what the documents say", Data: raw}}
	switch {
	case !r.Verified:
		out.Next = next{"you", "something does not hold: rely on nothing in it, and tell whoever asked you"}
	case r.Known != "all":
		out.Next = next{"you", "it holds, but not every owner in it is one that a person here confirmed: say so"}
	case !r.Binding:
		out.Next = next{"you", "it holds and is not a binding contract yet: missing says what is absent"}
	default:
		out.Next = next{"you", "it holds and binds both sides; claimed lists what is only somebody's word"}
	}
	return out, nil
}

// first bounds a list of a report.
func first[T any](list []T) []T { return list[:min(len(list), maxEntries)] }

// commonTools are what requesters and workers have.
func (c caller) commonTools(s *mcp.Server) {
	add(c, s, tool{name: "verify_evidence", title: "Check evidence", hints: reads(), out: evidenceShape,
		in:    object(maybe("task_id", taskID.says("one of your own tasks")), maybe("bundle", some(maxBundle).says("instead: the text of an exported bundle"))),
		about: "Replays signed evidence offline: what is proven and by whose key, what is only claimed, what is missing. Nothing leaves this computer."}, c.verifyEvidence)
	c.taskTools(s)
	c.prickleTools(s)
}
