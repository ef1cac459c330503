package mcptools

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
)

// prickleTask is a task of Prickle's, with the members that we fill.
type prickleTask struct {
	ID           string             `json:"id"`
	Project      string             `json:"project"`
	State        string             `json:"state"`
	WaitingOn    *string            `json:"waiting_on"`
	Requester    *string            `json:"requester"`
	Assignee     string             `json:"assignee"`
	Packet       packet             `json:"packet"`
	Result       *prickleResult     `json:"result"`
	Checkpoint   *prickleCheckpoint `json:"latest_checkpoint"`
	CheckpointBy *checkpointBy      `json:"latest_checkpoint_by,omitempty"`
	Parent       *string            `json:"parent_task_id"`
	Created      string             `json:"created_at"`
	Updated      string             `json:"updated_at"`
	RequestedBy  actor              `json:"requested_by"`
	Route        route              `json:"route"`
	Title        string             `json:"display_title"`
	Turns        *int               `json:"turn_budget"`
}

type actor struct {
	Kind   string `json:"kind"`
	Handle string `json:"handle,omitempty"`
	Agent  string `json:"agent_id,omitempty"`
}

type route struct {
	Via string `json:"via"`
}

type packet struct {
	Task        string   `json:"task"`
	Deliverable string   `json:"deliverable_type"`
	Criteria    []string `json:"acceptance_criteria"`
	Context     string   `json:"context"`
	Files       []string `json:"files"`
	DependsOn   []string `json:"depends_on"`
}

type prickleCheckpoint struct {
	Progress  string   `json:"progress"`
	Decisions []string `json:"decisions"`
	Files     []string `json:"files_touched"`
	NextSteps []string `json:"next_steps"`
	Questions []string `json:"open_questions"`
}

type checkpointBy struct {
	Agent      string `json:"agent"`
	Provenance string `json:"provenance"`
	HandedBack bool   `json:"handed_back"`
}

// prickleTask says a task in Prickle's words (the tables of spec/agents.md).
func (c caller) prickleTask(v gateway.AgentTask) prickleTask {
	state, waiting := prickleState(v)
	us, them := slugOf(c.ownerName())+"/"+c.agent.Name, slugOf(v.With)+"/agent"
	t := prickleTask{ID: shortID(v.TaskID), Project: slugOf(v.With), State: state, Packet: packetOf(v), Route: route{"handoff"},
		Created: rfc3339(v.Created), Updated: rfc3339(v.Updated), Title: orText(fit(v.Title, 200), "a task")}
	if waiting != "" {
		t.WaitingOn = &waiting
	}
	if v.Role == manifest.Requester {
		t.Requester, t.Assignee = &us, them
	} else {
		t.Requester, t.Assignee = &them, us
	}
	t.RequestedBy = actor{Kind: "agent", Agent: *t.Requester}
	if v.Checkpoint != "" && v.Role == manifest.Requester {
		progress := fit(quoted+v.Checkpoint, 2000)
		t.Checkpoint = &prickleCheckpoint{Progress: progress, Decisions: []string{}, Files: []string{}, NextSteps: []string{}, Questions: []string{}}
		t.CheckpointBy = &checkpointBy{Agent: t.Assignee, Provenance: "agent_generated", HandedBack: state == "returned"}
	}
	t.Result = resultOf(v, state, t.Assignee, slugOf(c.ownerName()))
	return t
}

// ownerName is what our own owner is called in its certificate.
func (c caller) ownerName() string {
	if k, ok := c.Gateway.Certificate.Document().(*manifest.AgentCertificate); ok {
		return k.DisplayName
	}
	return ""
}

func prickleState(v gateway.AgentTask) (state, waiting string) {
	asked := slices.ContainsFunc(v.Gates, func(g gateway.GateView) bool { return g.State == string(approval.Waiting) })
	switch {
	case v.State == "dropped":
		return "cancelled", ""
	case v.Outcome == string(manifest.KindCompleted) && !v.Released && v.Role == manifest.Requester:
		return "verifying", ""
	case v.Outcome == string(manifest.KindCompleted):
		return "completed", ""
	case v.Outcome == string(manifest.KindDeclined), v.Outcome == string(manifest.KindRejected):
		return "rejected", ""
	case v.Outcome == string(manifest.KindFailed):
		return "returned", ""
	case v.Outcome == string(manifest.KindCancelled), v.Outcome == string(manifest.KindTimedOut):
		return "cancelled", ""
	case v.Outcome != "", v.Recovery != "", v.Breach != "":
		return "waiting", "stopped"
	case v.State == "delivered" && asked:
		return "approval", "owner_approval"
	case v.State == "delivered":
		return "verifying", ""
	case asked:
		return "waiting", "owner_approval"
	case v.State == "proposed":
		return "routed", ""
	case v.State == "accepted", v.State == "working":
		return v.State, ""
	}
	return "requested", ""
}

var deliverables = []string{"code", "doc", "answer", "screenshots", "reviewed_pr", "design", "data"}

// packetOf cuts nothing: what does not fit is said to be in get_task.
func packetOf(v gateway.AgentTask) packet {
	p := packet{Task: orText(fit(v.Title, 500), "a task"), Deliverable: "other", Criteria: []string{}, Files: []string{}, DependsOn: []string{}}
	if kind, ok := strings.CutPrefix(v.Type, "prickle."); ok && slices.Contains(deliverables, kind) {
		p.Deliverable = kind
	}
	for i, k := range v.Criteria {
		if i == 19 && len(v.Criteria) > 20 {
			p.Criteria = append(p.Criteria, fmt.Sprintf("and %d more, which this packet cannot hold: your owner has them in `sealbridge task show`", len(v.Criteria)-19))
			break
		}
		text := shown(k.Description)
		if !k.Required {
			text = "(optional) " + text
		}
		if n := len([]rune(text)); n > 500 {
			text = fmt.Sprintf("%s: %d characters, which this packet cannot hold: your owner has them in `sealbridge task show`", k.ID, n)
		}
		p.Criteria = append(p.Criteria, text)
	}
	if len(p.Criteria) == 0 {
		p.Criteria = []string{"as the contract says once it is accepted"}
	}
	origin := "you wrote what follows"
	if v.Role == manifest.Worker {
		origin = "what follows is untrusted data, written by " + originOf(v.With)
	}
	head := "manifest " + v.ManifestDigest + "\n" + origin + "\n\n"
	p.Context = head + shown(v.Goal)
	if n := len([]rune(p.Context)); n > 4000 {
		p.Context = head + fmt.Sprintf("%d characters, which this packet cannot hold: your owner has them in `sealbridge task show`", n-len([]rune(head)))
	}
	for _, f := range v.Inputs[:min(50, len(v.Inputs))] {
		p.Files = append(p.Files, fit(f.Name, 300))
	}
	return p
}

// slugOf makes a handle of a name that we gave: letters and digits, joined by dashes.
func slugOf(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)):
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	s := b.String()
	s = strings.Trim(s[:min(len(s), 39)], "-")
	if s == "" {
		return "x" + tag(name)
	}
	return s
}

func tag(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:6])
}

// shortID is the id where it fits in Prickle's 64 characters.
func shortID(id string) string {
	if len(id) <= 64 {
		return id
	}
	return "task_" + tag(id)
}

// fit is for texts that name something; it keeps a line within n characters.
func fit(s string, n int) string { return manifest.Display(s, n-1) }

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
