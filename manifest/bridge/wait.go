package bridge

import (
	"maps"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Waited is where a wait loop stands: the cursor that was committed and what was
// handled. It is committed after the handling, so that a crash in between brings
// the same events again, and Seen knows them.
type Waited struct {
	Cursor string
	Seen   map[string]bool // messages, actions, and tasks in a state
}

// Heard is what one answer of wait_for_mention asks to be done.
type Heard struct {
	Inbox   bool // first: look at check_inbox, the old cursor is of no use (resync)
	Events  []Mention
	Skipped []string // kinds that nobody here knows: the loop goes on
	Next    Waited   // to be committed when all of it is done
}

// Mention is one event to handle.
type Mention struct {
	Kind  string
	Value jcs.Value
	Quiet bool // no reply is left, or it is not ours to give
}

// Hear reads one answer of the loop. Events count whatever the status says, each once.
func Hear(raw []byte, was Waited) (h Heard, err error) {
	v, err := jcs.Canonicalize(raw)
	if err != nil {
		return h, err
	}
	b, err := known[struct {
		Status string      `json:"status" rule:"enum=events|timeout|resync"`
		Cursor string      `json:"cursor" rule:"len=0..200"`
		Events []jcs.Value `json:"events" rule:"items=0..1000"`
	}](v)
	if err != nil {
		return h, err
	}
	h.Inbox = b.Status == "resync"
	h.Next = Waited{Cursor: b.Cursor, Seen: maps.Clone(was.Seen)}
	if h.Next.Seen == nil {
		h.Next.Seen = map[string]bool{}
	}
	for _, e := range b.Events {
		m, key := mention(e)
		switch {
		case key == "":
			h.Skipped = append(h.Skipped, cut(m.Kind, 64))
		case !h.Next.Seen[key]:
			h.Next.Seen[key] = true
			h.Events = append(h.Events, m)
		}
	}
	return h, nil
}

// mention reads an event and what makes it one and the same when it comes again.
func mention(e jcs.Value) (m Mention, key string) {
	text := func(pointer string) string {
		v, _ := e.At(pointer)
		s, _ := v.Text()
		return s
	}
	m = Mention{Kind: text("/kind"), Value: e}
	switch m.Kind {
	case "mention":
		key = text("/message/id")
	case "room":
		key = text("/message/id") // attempt and reannounced only say that it comes again
		left, _ := e.At("/replies_left")
		lead, _ := e.At("/lead")
		m.Quiet = left.String() == "0" || lead.String() != "true"
	case "task":
		if key = text("/task/id"); key != "" {
			key += " " + text("/task/state") + " " + text("/task/updated_at")
			if n, ok := e.At("/task/result/revision"); ok {
				key += " " + n.String()
			}
		}
	case "action":
		key = text("/action_id")
	}
	if key != "" {
		key = m.Kind + " " + key
	}
	return m, key
}

// CheckAction says whether an approved action may run now. An answer that needs
// the owner anew counts only from the owner's own channel, never from an agent.
func CheckAction(action jcs.Value, byOwner bool, owner string) error {
	get := func(name string) string {
		m, _ := action.Member(name)
		s, _ := m.Text()
		return s
	}
	step, _ := action.Member("step_up")
	switch {
	case get("status") != "approved":
		return spec.Refuse(spec.GateOpen, "/status", "not approved")
	case get("decided_by") != owner:
		return spec.Refuse(spec.NotPermitted, "/decided_by", "G1: the acting agent's owner")
	case step.String() != "false" && !byOwner:
		return spec.Refuse(spec.NotPermitted, "/step_up", "G10: the owner, in the owner's own channel")
	}
	return nil
}

func digestOf(v jcs.Value) string { return signing.DigestOf(v.Bytes()).String() }
