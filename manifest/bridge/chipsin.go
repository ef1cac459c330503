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

// Terms are what a contract needs and Chips does not say: the owner's own.
type Terms struct {
	Deadline  string               // "" is two days
	Budget    manifest.DraftBudget // empty figures are those of a draft
	Isolation string               // of a draft's sandbox
	ClaimedOK bool
}

// Imported is a Chips task as work that can be proposed.
type Imported struct {
	TaskID   manifest.TaskID
	Contact  string         // our name of the other side
	Draft    manifest.Draft // its inputs have no file yet: [Imported.Place] names them
	Files    []File
	Invented []string  // what Chips did not say and this gateway chose: shown to the owner
	Left     []string  // what has no place in a contract and stays in the sidecar
	Sidecar  jcs.Value // kept at home, never sent
}

// Import makes work for another owner of a Chips task. What is for this same
// owner, or for nobody we know, is refused: it stays in Chips.
func (w Workspace) Import(t Task, x Terms, at time.Time) (in Imported, err error) {
	if in.Contact, err = w.resolve(t); err != nil {
		return in, err
	}
	if in.TaskID, err = taskIDOf(t.WorkspaceID, t.TaskID); err != nil {
		return in, err
	}
	title, ok := titleOf(t.Goal)
	if !ok {
		return in, spec.Refuse(spec.Malformed, "/goal", "a line of text")
	}
	in.Files = t.Files
	in.Draft = manifest.Draft{Title: title, Goal: describe(t.Goal, t.Constraints), PaidBy: "worker", Budget: x.Budget,
		Check: []manifest.DraftCheck{{Word: "person"}}, Sandbox: manifest.DraftSandbox{Isolation: x.Isolation, ClaimedOK: x.ClaimedOK, Network: "none", Files: "inputs"},
		DoneWhen: []manifest.DraftDone{{ID: "ac_goal", Text: "The work does what the goal in the description asks."}}}
	in.Draft.Budget.Over = "stop"
	for i, c := range t.Constraints {
		if strings.TrimSpace(c) == "" {
			in.Left = append(in.Left, fmt.Sprintf("/constraints/%d: empty", i))
			continue
		}
		in.Draft.DoneWhen = append(in.Draft.DoneWhen, manifest.DraftDone{ID: fmt.Sprintf("ac_c%02d", i), Text: c})
	}
	for _, f := range t.Files {
		in.Draft.Inputs = append(in.Draft.Inputs, manifest.DraftInput{As: f.As, SHA256: strings.TrimPrefix(f.Digest.String(), "sha256:")})
	}
	if err := in.deadline(t, x, at); err != nil {
		return in, err
	}
	level := min(t.Autonomy, w.Autonomy)
	in.Draft.Gates = []string{"contract", "effect", "budget", "delegation", "delivery"}
	if level > 0 { // the overrun stops hard and nothing is handed on: these two gates have nothing to open
		in.Draft.Gates = []string{"contract", "effect", "delivery"}
	}
	in.Invented = append(in.Invented, "budget", "sandbox", "checks", "gates")
	in.Left = append(in.Left, leftOf(t.value)...)
	in.Sidecar, err = sidecar(t, in, level)
	return in, err
}

// resolve finds out for whom the work is: three meanings stand in one member.
func (w Workspace) resolve(t Task) (string, error) {
	stays := func(path, why string) error { return spec.Refuse(spec.NotPermitted, path, "stays in Chips: "+why) }
	fromLead := t.actor.ID == w.Lead || t.Seq != nil && t.actor.HarnessID == w.Lead // a sender's own harness_id is not believed
	name, known := w.Contacts[t.To]
	switch {
	case t.WorkspaceID != w.ID:
		return "", spec.Refuse(spec.NotPermitted, "/workspace_id", "another workspace")
	case !fromLead || t.actor.Kind != "harness" && t.actor.Kind != "agent":
		return "", spec.Refuse(spec.NotPermitted, "/actor", "a task of the lead")
	case t.OnBehalfOf != w.Owner:
		return "", stays("/on_behalf_of", "not for the lead's own owner")
	case t.child:
		return "", stays("/child", "a child is of the same owner")
	case t.home:
		return "", stays("/home", "a lane of one harness")
	case w.local(t.To):
		return "", stays("/to", "the same owner")
	case !known:
		return "", spec.Refuse(spec.NotFound, "/to", "no contact stands for this participant")
	}
	return name, nil
}

func (in *Imported) deadline(t Task, x Terms, at time.Time) error {
	if t.Deadline.IsZero() {
		in.Draft.Deadline = x.Deadline
		in.Invented = append(in.Invented, "deadline")
		return nil
	}
	if !t.Deadline.After(at) {
		return spec.Refuse(spec.Expired, "/deadline", "M1: in the future when proposed")
	}
	in.Draft.Deadline = signing.TimeOf(t.Deadline).String()
	return nil
}

// Place says where the bytes of each file lie, by its attachment id. Whoever
// proposes holds them against the digest (K3).
func (in *Imported) Place(find func(File) (path string, ok bool)) error {
	for i, f := range in.Files {
		path, ok := find(f)
		if !ok {
			return spec.Refuse(spec.NotFound, fmt.Sprintf("/attachments/%d", i), "no bytes of "+manifest.Display(f.Name, 80))
		}
		in.Draft.Inputs[i].File = path
	}
	return nil
}

func titleOf(goal string) (string, bool) {
	for line := range strings.Lines(goal) {
		if line = strings.TrimSpace(line); line != "" {
			return cut(line, 200), true
		}
	}
	return "", false
}

// describe is the goal and, ruled off, the constraints: they bind how it is done.
func describe(goal string, constraints []string) string {
	var b strings.Builder
	b.WriteString(goal)
	for i, c := range constraints {
		if i == 0 {
			b.WriteString("\n\n--- constraints ---")
		}
		fmt.Fprintf(&b, "\n%d. %s", i+1, c)
	}
	return b.String()
}

// placed are the members of a task event that have a place in a contract.
var placed = map[string]bool{"v": true, "type": true, "ts": true, "workspace_id": true, "actor": true, "task_id": true, "to": true, "goal": true,
	"constraints": true, "deadline": true, "attachments": true, "autonomy": true}

// leftOf names what stays at home, unknown members too.
func leftOf(event jcs.Value) (left []string) {
	for name := range event.Members() {
		if !placed[name] {
			left = append(left, "/"+cut(name, 64))
		}
	}
	return left
}

// Sidecar is what a gateway keeps beside a task that came from elsewhere: local, never in a bundle.
type Sidecar struct {
	Kind     string            `json:"kind" rule:"enum=chips-task|prickle-task"`
	SHA256   signing.Digest    `json:"sha256"` // of Raw
	Raw      string            `json:"raw" rule:"len=2..122880"`
	Autonomy int64             `json:"autonomy" rule:"num=0..3"` // after the lead's own level
	Names    map[string]string `json:"names"`                    // artifact -> the name that Chips shows
	Invented []string          `json:"invented" rule:"items=0..20,each.len=1..40"`
}

func sidecar(t Task, in Imported, level int64) (jcs.Value, error) {
	s := Sidecar{Kind: "chips-task", SHA256: t.Digest(), Raw: string(t.raw), Autonomy: level, Names: map[string]string{}, Invented: in.Invented}
	for _, f := range in.Files {
		s.Names[f.As] = f.Name
	}
	return jcs.Encode(s)
}

// OpenSidecar reads a sidecar and holds it against its digest.
func OpenSidecar(v jcs.Value) (s Sidecar, err error) {
	if err := jcs.Decode(v, &s); err != nil {
		return s, err
	}
	if signing.DigestOf([]byte(s.Raw)) != s.SHA256 {
		return s, spec.Refuse(spec.BadDigest, "/sha256", "of the event as it came")
	}
	return s, nil
}

// Named is the table that a person makes by naming, for one event, the contact
// who stands behind its `to`. It believes the event about itself and nothing more.
func (t Task) Named(contact string) Workspace {
	lead := t.actor.ID
	if t.actor.Kind == "agent" && t.Seq != nil {
		lead = t.actor.HarnessID
	}
	return Workspace{ID: t.WorkspaceID, Lead: lead, Owner: t.OnBehalfOf, Contacts: map[string]string{t.To: contact}}
}
