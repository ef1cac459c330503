// Package bridge answers one question: how do others say it? It turns work and
// questions of other agent systems into drafts of ours and back, by the tables
// of spec/bridge.md.
//
//	Chips task             -> [Imported]: a draft, a deterministic taskId, a sidecar
//	an accepted contract   -> [Workspace.Lane]: a Chips task for a local specialist
//	an ask of ours         -> [Workspace.Request]: a Chips approval.request
//	a Chips decision       -> [Workspace.Answer]: a verdict, or why it is none
//	an accepted contract   -> [Packet]: a Prickle packet
//
// Everything here is a view. Across owners the signed manifest governs; what the
// other form has no place for stays in a sidecar at home and is never hidden in
// a member that was made for something else.
//
// Objects of others are open: unknown members are passed over and mean nothing,
// above all no permission. The raw bytes are kept.
package bridge

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// MaxEvent is the most bytes of one event of another system: quoted whole it
// still fits into a document of ours (D1).
const MaxEvent = 120 << 10

// Profile says where an event stands on its way into Chips.
type Profile int

const (
	Sent   Profile = 1 << iota // a client's write: it has its key and no seq
	Stored                     // as Chips echoed it: it has its seq
)

// known reads the members of an open object that T names, strictly, and passes over the others.
func known[T any](v jcs.Value) (out T, err error) {
	if v.Kind() != '{' {
		return out, spec.Refuse(spec.Malformed, "", "an object")
	}
	kept := jcs.EmptyObject
	for i := range reflect.TypeFor[T]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[T]().Field(i).Tag.Get("json"), ",")
		if m, ok := v.Member(name); ok {
			kept = kept.With(name, m)
		}
	}
	return out, jcs.Decode(kept, &out)
}

// head is what every Chips event begins with.
type head struct {
	V              int64     `json:"v" rule:"num=1..1"`
	Type           string    `json:"type" rule:"len=1..64"`
	ID             string    `json:"id" rule:"len=30..30"`
	Ts             string    `json:"ts" rule:"len=20..60"`
	WorkspaceID    string    `json:"workspace_id" rule:"len=29..29"`
	SpaceID        string    `json:"space_id,omitempty" rule:"len=30..30"`
	RunID          string    `json:"run_id,omitempty" rule:"len=30..30"`
	Seq            *int64    `json:"seq,omitempty" rule:"num=1..9007199254740991"`
	IdempotencyKey string    `json:"idempotency_key,omitempty" rule:"len=1..200"`
	Actor          jcs.Value `json:"actor" rule:"object"`
}

// Actor is who an event is attributed to.
type Actor struct {
	Kind      string `json:"kind" rule:"enum=person|harness|agent|system"`
	ID        string `json:"id" rule:"len=1..200"`
	HarnessID string `json:"harness_id,omitempty" rule:"len=30..30"`
}

// event is the common part of an event, read and held against the profile.
type event struct {
	head
	value jcs.Value // canonical, whole
	raw   []byte    // as it came
	actor Actor
	at    time.Time // by Chips' clock, if it is stored; else the sender's word
}

func readEvent(raw []byte, typ string, may Profile) (e event, err error) {
	if len(raw) > MaxEvent {
		return e, spec.Refuse(spec.TooLarge, "", strconv.Itoa(MaxEvent)+" bytes")
	}
	if e.value, err = jcs.Canonicalize(raw); err != nil {
		return e, err
	}
	e.raw = raw
	if e.head, err = known[head](e.value); err != nil {
		return e, err
	}
	if e.Type != typ {
		return e, spec.Refuse(spec.UnknownType, "/type", typ)
	}
	for _, id := range []struct{ path, id, prefix string }{
		{"/id", e.ID, "evt_"}, {"/workspace_id", e.WorkspaceID, "ws_"}, {"/space_id", e.SpaceID, "spc_"}, {"/run_id", e.RunID, "run_"},
	} {
		if id.id != "" && !ulidOf(id.id, id.prefix) {
			return e, spec.Refuse(spec.Malformed, id.path, id.prefix+" and a ULID")
		}
	}
	if e.actor, err = known[Actor](e.Actor); err != nil {
		return e, spec.At("/actor", err)
	}
	if e.at, err = instant(e.Ts); err != nil {
		return e, spec.At("/ts", err)
	}
	switch stored := e.Seq != nil; {
	case stored && may&Stored == 0:
		return e, spec.Refuse(spec.Malformed, "/seq", "absent on the way in: Chips gives it")
	case !stored && may&Sent == 0:
		return e, spec.Refuse(spec.Malformed, "/seq", "the event as Chips stored it, not as it was sent")
	case !stored && e.IdempotencyKey == "":
		return e, spec.Refuse(spec.Malformed, "/idempotency_key", "on every write of a client")
	}
	return e, nil
}

func ulidOf(id, prefix string) bool {
	tail, ok := strings.CutPrefix(id, prefix)
	return ok && manifest.IsULID(tail)
}

// instant reads a time with any offset (D5 wants UTC of us, not of others).
func instant(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || strings.Contains(s, ",") {
		return t, spec.Refuse(spec.Malformed, "", "a time of RFC 3339")
	}
	return t.UTC(), nil
}

// cut keeps the first n characters of a text.
func cut(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n])
	}
	return s
}
