package bridge

import (
	"fmt"
	"strings"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// lane is the Chips task event that we write.
type lane struct {
	V              int          `json:"v"`
	Type           string       `json:"type"`
	ID             string       `json:"id"`
	Ts             signing.Time `json:"ts"`
	WorkspaceID    string       `json:"workspace_id"`
	IdempotencyKey string       `json:"idempotency_key" rule:"len=1..200"`
	Actor          Actor        `json:"actor"`
	TaskID         string       `json:"task_id"`
	To             string       `json:"to" rule:"len=1..120"`
	OnBehalfOf     string       `json:"on_behalf_of"`
	Goal           string       `json:"goal" rule:"len=1..4000"`
	Constraints    []string     `json:"constraints,omitempty" rule:"items=0..20,each.len=1..500"`
	Deadline       signing.Time `json:"deadline"`
	Autonomy       int64        `json:"autonomy" rule:"num=0..3"`
	Label          string       `json:"label" rule:"len=1..120"`
}

// Lane is the Chips task for a local specialist that does the work of a
// contract. It is for the worker's side, after CONTRACT_ACCEPT and never before
// (G13): whoever calls has looked. Text that does not fit is refused and never
// cut. Lost names what Chips has no place for: the gateway enforces it all the same.
func (w Workspace) Lane(m manifest.TaskManifest, digest signing.Digest, contact string) (event jcs.Value, lost []string, err error) {
	if w.Worker == "" {
		return event, nil, spec.Refuse(spec.NotFound, "/worker", "no participant works for others")
	}
	goal := m.Task.Description
	if !strings.HasPrefix(goal, m.Task.Title) { // else the title is only its beginning
		goal = m.Task.Title + "\n\n" + goal
	}
	if len([]rune(goal)) > 4000 {
		return event, nil, spec.Refuse(spec.TooLarge, "/task/description", "4000 characters with the title: Chips has no place for more")
	}
	constraints, err := criteria(m)
	if err != nil {
		return event, nil, err
	}
	name := m.Requester.OwnerDid.String() + "/" + m.TaskID.String()
	event, err = jcs.Encode(lane{
		V: 1, Type: "task", ID: manifest.DerivedID("evt_", "chips/task", digest.String()), Ts: m.CreatedAt, WorkspaceID: w.ID,
		IdempotencyKey: "sb:" + m.TaskID.String() + ":task:" + digest.String()[7:23],
		Actor:          Actor{Kind: "harness", ID: w.Lead}, TaskID: manifest.DerivedID("lane_", "chips/lane", name),
		To: w.Worker, OnBehalfOf: w.Owner, Goal: goal, Constraints: constraints, Deadline: m.Deadline, Autonomy: w.Autonomy,
		Label: cut("for "+contact, 120),
	})
	return event, lostOf(m), err
}

// criteria are the texts of a contract's criteria in their order. Chips and
// Prickle have the same room for them.
func criteria(m manifest.TaskManifest) (out []string, err error) {
	for i, c := range m.Task.AcceptanceCriteria {
		text := c.Description
		if !c.Required {
			text = "optional: " + text
		}
		if i == 20 || len([]rune(text)) > 500 {
			return nil, spec.Refuse(spec.TooLarge, fmt.Sprintf("/task/acceptanceCriteria/%d", i), "20 criteria of 500 characters: there is no place for more")
		}
		out = append(out, text)
	}
	return out, nil
}

// lostOf names what a contract says and neither Chips nor Prickle has a place for.
func lostOf(m manifest.TaskManifest) []string {
	lost := []string{"/requester", "/worker", "/io/inputSchema", "/io/outputSchema", "/verification", "/budget", "/permissions", "/sandboxPolicy", "/hitlPolicy"}
	if n := len(m.IO.InputArtifacts); n > 0 {
		lost = append(lost, fmt.Sprintf("/io/inputArtifacts: %d files, to be handed over by the gateway", n))
	}
	return lost
}

// ours are the members that our view of an ask has beside Chips' own.
var ours = []string{"askId", "taskId", "gate", "subjectDigest", "state"}

// Request makes of an ask in Chips' shape (G14) the event that the workspace is
// sent: as this harness, to this workspace, for the owner alone, with nothing of
// ours beside it. seconds is what is left until the answer is no; Chips counts
// from its own stamp, and this gateway enforces its own end all the same.
func (w Workspace) Request(ask jcs.Value, seconds int64) (jcs.Value, error) {
	if seconds <= 0 {
		return jcs.Value{}, spec.Refuse(spec.GateExpired, "/expires_in", "G4")
	}
	for _, name := range ours {
		ask = ask.Without(name)
	}
	actor, err := jcs.Encode(Actor{Kind: "harness", ID: w.Lead})
	if err != nil {
		return jcs.Value{}, err
	}
	left, err := jcs.Encode(min(seconds, maxWait))
	if err != nil {
		return jcs.Value{}, err
	}
	id, ok := jcs.Text(w.ID)
	if !ok {
		return jcs.Value{}, spec.Refuse(spec.Malformed, "/workspace", "ws_ and a ULID")
	}
	return ask.With("workspace_id", id).With("actor", actor).With("expires_in", left), nil
}

const maxWait = 7 * 24 * 3600 // seconds: G4, and Chips' own most
