package bridge

import (
	"fmt"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Room says who is who on one Prickle server. A handle is that server's claim:
// only handles that the owner pinned to contacts stand for anybody.
type Room struct {
	Server   string            // its address, as the owner wrote it: part of every id
	Owner    string            // our own owner's handle
	Contacts map[string]string // owner handle -> our name of the contact
}

// Work is a Prickle task, read. Its texts are a stranger's.
type Work struct {
	ID, Project, Title     string
	Requester, Assignee    string // owner/agent; a requester that is a person is the handle alone
	State, WaitingOn       string
	Deliverable, Context   string
	Criteria, Files, Needs []string
	CreatedAt              time.Time
	Result                 *Result
	raw                    []byte
}

type workBody struct {
	ID          string    `json:"id" rule:"len=1..64"`
	Project     string    `json:"project" rule:"len=1..39"`
	State       string    `json:"state" rule:"enum=requested|routed|accepted|working|waiting|verifying|approval|completed|rejected|cancelled|returned"`
	WaitingOn   jcs.Value `json:"waiting_on"`
	Requester   jcs.Value `json:"requester"`
	RequestedBy jcs.Value `json:"requested_by,omitempty"`
	Assignee    string    `json:"assignee" rule:"len=3..79"`
	Packet      jcs.Value `json:"packet" rule:"object"`
	Result      jcs.Value `json:"result"`
	CreatedAt   string    `json:"created_at" rule:"len=20..60"`
}

type author struct {
	Kind    string `json:"kind" rule:"enum=person|agent|system"`
	Handle  string `json:"handle,omitempty" rule:"len=1..39"`
	AgentID string `json:"agent_id,omitempty" rule:"len=3..79"`
}

// ReadWork reads one Prickle task.
func ReadWork(raw []byte) (w Work, err error) {
	if len(raw) > MaxEvent {
		return w, spec.Refuse(spec.TooLarge, "", fmt.Sprintf("%d bytes", MaxEvent))
	}
	v, err := jcs.Canonicalize(raw)
	if err != nil {
		return w, err
	}
	b, err := known[workBody](v)
	if err != nil {
		return w, err
	}
	w = Work{ID: b.ID, Project: b.Project, State: b.State, Assignee: b.Assignee, raw: raw}
	w.WaitingOn, _ = b.WaitingOn.Text()
	if w.State == "waiting" && w.WaitingOn == "" {
		w.WaitingOn = "stopped" // it does not say: the stricter reading
	}
	if err := w.requester(b); err != nil {
		return w, err
	}
	if w.CreatedAt, err = instant(b.CreatedAt); err != nil {
		return w, spec.At("/created_at", err)
	}
	p, err := known[packet](b.Packet)
	if err != nil {
		return w, spec.At("/packet", err)
	}
	w.Title, w.Deliverable, w.Criteria, w.Context, w.Files, w.Needs = p.Task, p.Deliverable, p.Criteria, p.Context, p.Files, p.DependsOn
	if b.Result.Kind() == 'n' {
		return w, nil
	}
	r, err := readResult(b.Result)
	w.Result = &r
	return w, spec.At("/result", err)
}

// requester is the agent that asked, or the person where no agent did.
func (w *Work) requester(b workBody) error {
	if text, ok := b.Requester.Text(); ok {
		w.Requester = text
		return nil
	}
	if b.RequestedBy.Kind() != '{' {
		return spec.Refuse(spec.Malformed, "/requester", "nobody asks for it")
	}
	by, err := known[author](b.RequestedBy)
	w.Requester = by.AgentID
	if by.Kind == "person" {
		w.Requester = by.Handle
	}
	if err == nil && w.Requester == "" {
		err = spec.Refuse(spec.Malformed, "", "a handle or an agent's id")
	}
	return spec.At("/requested_by", err)
}

// ownerOf is the owner's part of owner/agent, or a handle alone.
func ownerOf(id string) string {
	owner, _, _ := strings.Cut(id, "/")
	return owner
}

// Import makes a proposal of a Prickle task that our own owner, or its agent, asks of a contact's agent.
func (r Room) Import(w Work, x Terms) (in Imported, err error) {
	contact, known := r.Contacts[ownerOf(w.Assignee)]
	switch {
	case ownerOf(w.Requester) != r.Owner:
		return in, spec.Refuse(spec.NotPermitted, "/requester", "asked for by another owner")
	case ownerOf(w.Assignee) == r.Owner:
		return in, spec.Refuse(spec.NotPermitted, "/assignee", "stays in Prickle: the same owner")
	case !known:
		return in, spec.Refuse(spec.NotFound, "/assignee", "no contact stands for this handle")
	case w.State != "requested" && w.State != "routed":
		return in, spec.Refuse(spec.NotPermitted, "/state", "only what nobody has begun is proposed")
	}
	in.Contact = contact
	sum := signing.DigestOf([]byte(r.Server + "|" + w.Project + "|" + w.ID)).String()
	if in.TaskID, err = manifest.ParseTaskID("task_p_" + strings.TrimPrefix(sum, "sha256:")[:32]); err != nil {
		return in, err
	}
	title, ok := titleOf(w.Title)
	if !ok {
		return in, spec.Refuse(spec.Malformed, "/packet/task", "a line of text")
	}
	in.Draft = manifest.Draft{Title: title, Goal: w.describe(), Deadline: x.Deadline, Budget: x.Budget, PaidBy: "worker",
		Sandbox: manifest.DraftSandbox{Isolation: x.Isolation, ClaimedOK: x.ClaimedOK, Network: "none", Files: "inputs"},
		Check:   []manifest.DraftCheck{{Word: "person"}}, Gates: []string{"contract", "effect", "budget", "delegation", "delivery"}}
	in.Draft.Budget.Over = "stop"
	for i, c := range w.Criteria {
		in.Draft.DoneWhen = append(in.Draft.DoneWhen, manifest.DraftDone{ID: criterionID(i), Text: c})
	}
	in.Invented = []string{"deadline", "budget", "sandbox", "checks", "gates"}
	in.Sidecar, err = jcs.Encode(Sidecar{Kind: "prickle-task", SHA256: signing.DigestOf(w.raw), Raw: string(w.raw), Names: map[string]string{}, Invented: in.Invented})
	return in, err
}

// criterionID keeps the place: evidence names criteria by it.
func criterionID(i int) string { return fmt.Sprintf("ac_p%02d", i) }

// describe is the packet as prose. Names of files are no bytes, and what it
// depends on orders nothing: both are words for whoever works.
func (w Work) describe() string {
	var b strings.Builder
	b.WriteString(w.Title)
	if w.Context != "" {
		b.WriteString("\n\n--- context ---\n" + w.Context)
	}
	for _, block := range []struct {
		name  string
		lines []string
	}{{"files, by name only", w.Files}, {"depends on", w.Needs}} {
		for i, l := range block.lines {
			if i == 0 {
				b.WriteString("\n\n--- " + block.name + " ---")
			}
			b.WriteString("\n- " + l)
		}
	}
	return b.String()
}
