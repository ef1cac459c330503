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

// Workspace says who is who in one Chips workspace. It is the owner's own
// table: ids of Chips are claims of its server, and no id is guessed.
type Workspace struct {
	ID       string            // ws_…; events of another are refused
	Lead     string            // hrn_…: the harness whose tasks leave, and as which this gateway speaks
	Owner    string            // usr_…: the lead's own owner, for whom all work is
	Contacts map[string]string // participant id -> our name of the contact behind it
	Locals   []string          // participants of this same owner: their work never leaves
	Autonomy int64             // the lead's own level, 0 to 3; no task has more
	Worker   string            // the participant that does what others ask for
}

// Check holds the table against its own rules; path and limit of an error name the place.
func (w Workspace) Check() error {
	switch {
	case !ulidOf(w.ID, "ws_"):
		return spec.Refuse(spec.Malformed, "/workspace", "ws_ and a ULID")
	case !ulidOf(w.Lead, "hrn_"):
		return spec.Refuse(spec.Malformed, "/lead", "hrn_ and a ULID")
	case !ulidOf(w.Owner, "usr_"):
		return spec.Refuse(spec.Malformed, "/owner", "usr_ and a ULID")
	case w.Autonomy < 0 || w.Autonomy > 3:
		return spec.Refuse(spec.Malformed, "/autonomy", "0 to 3")
	case len([]rune(w.Worker)) > 120:
		return spec.Refuse(spec.Malformed, "/worker", "at most 120 characters")
	}
	for id := range w.Contacts {
		if w.local(id) {
			return spec.Refuse(spec.Conflict, "/contacts", "a participant of this owner is no contact")
		}
	}
	return nil
}

// local says whether a participant is of this same owner.
func (w Workspace) local(id string) bool {
	for _, l := range w.Locals {
		if l == id {
			return true
		}
	}
	return id == w.Lead || id == w.Owner || w.Worker != "" && id == w.Worker
}

// Task is a Chips task event, read. Its texts are a stranger's.
type Task struct {
	event
	TaskID      string
	To          string
	OnBehalfOf  string
	Goal        string
	Constraints []string
	Deadline    time.Time // zero: Chips had none
	Autonomy    int64     // 0 where Chips had none
	Files       []File
	child, home bool
}

// File is one attachment, as Chips describes it. Nothing of it is believed but the digest.
type File struct {
	ID     string         // att_…
	Name   string         // to show; never a path
	As     string         // the artifact's name (M3)
	Digest signing.Digest // that the bytes must have
	Size   int64
}

const maxFile = 1 << 30 // bytes: what an artifact may have

type taskBody struct {
	TaskID      string      `json:"task_id" rule:"len=31..31"`
	To          string      `json:"to" rule:"len=1..120"`
	Child       jcs.Value   `json:"child,omitempty"`
	OnBehalfOf  string      `json:"on_behalf_of" rule:"len=1..120"`
	Goal        string      `json:"goal" rule:"len=1..4000"`
	Constraints []string    `json:"constraints,omitempty" rule:"items=0..20,each.len=0..500"`
	Deadline    string      `json:"deadline,omitempty" rule:"len=20..60"`
	Autonomy    *int64      `json:"autonomy,omitempty" rule:"num=0..3"`
	Attachments []jcs.Value `json:"attachments,omitempty" rule:"items=0..20"`
	Home        jcs.Value   `json:"home,omitempty"`
}

type attachment struct {
	ID       string `json:"attachment_id" rule:"len=30..30"`
	Filename string `json:"filename" rule:"len=1..255"`
	MimeType string `json:"mime_type" rule:"len=1..255"`
	ByteSize int64  `json:"byte_size" rule:"num=0..9007199254740991"`
	SHA256   string `json:"sha256" rule:"len=64..64"`
}

// ReadTask reads a Chips task event.
func ReadTask(raw []byte, may Profile) (t Task, err error) {
	if t.event, err = readEvent(raw, "task", may); err != nil {
		return t, err
	}
	b, err := known[taskBody](t.value)
	if err != nil {
		return t, err
	}
	if !ulidOf(b.TaskID, "lane_") {
		return t, spec.Refuse(spec.Malformed, "/task_id", "lane_ and a ULID")
	}
	t.TaskID, t.To, t.OnBehalfOf, t.Goal, t.Constraints = b.TaskID, b.To, b.OnBehalfOf, b.Goal, b.Constraints
	t.child, t.home = !b.Child.IsZero(), !b.Home.IsZero()
	if b.Autonomy != nil {
		t.Autonomy = *b.Autonomy
	}
	if b.Deadline != "" {
		if t.Deadline, err = instant(b.Deadline); err != nil {
			return t, spec.At("/deadline", err)
		}
	}
	for i, v := range b.Attachments {
		at := fmt.Sprintf("/attachments/%d", i)
		a, err := known[attachment](v)
		if err != nil {
			return t, spec.At(at, err)
		}
		d, err := signing.ParseDigest("sha256:" + a.SHA256)
		switch {
		case err != nil:
			return t, spec.At(at+"/sha256", err)
		case !ulidOf(a.ID, "att_"):
			return t, spec.Refuse(spec.Malformed, at+"/attachment_id", "att_ and a ULID")
		case a.ByteSize > maxFile:
			return t, spec.Refuse(spec.TooLarge, at+"/byte_size", "1 GiB")
		}
		t.Files = append(t.Files, File{ID: a.ID, Name: a.Filename, As: artifactName(i, a.Filename), Digest: d, Size: a.ByteSize})
	}
	return t, nil
}

// Digest is the SHA-256 of the event as it came.
func (t Task) Digest() signing.Digest { return signing.DigestOf(t.raw) }

// artifactName makes a good name (M3) of a name that somebody chose: two names
// that come to the same are told apart by their place, and no name is a path, an
// option, a hidden file or a device.
func artifactName(i int, name string) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-':
			return r
		}
		return '_'
	}, name)
	for strings.Contains(safe, "..") {
		safe = strings.ReplaceAll(safe, "..", ".")
	}
	if n := len(safe); n > 90 { // the end tells what kind of file it is
		safe = safe[n-90:]
	}
	safe = strings.Trim(safe, "._-")
	if safe == "" {
		safe = "file"
	}
	return fmt.Sprintf("%02d_%s", i, safe)
}

// taskIDOf is the manifest's taskId for a lane: the same at every import. The
// lane's own id is not enough, because another workspace can repeat it.
func taskIDOf(workspace, lane string) (manifest.TaskID, error) {
	sum := signing.DigestOf([]byte(workspace + "|" + lane)).String()
	return manifest.ParseTaskID("task_" + strings.TrimPrefix(lane, "lane_") + "_" + strings.TrimPrefix(sum, "sha256:")[:16])
}
