package bridge

import (
	"slices"
	"strings"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// packet is Prickle's description of one piece of work.
type packet struct {
	Task        string   `json:"task" rule:"len=1..500"`
	Deliverable string   `json:"deliverable_type"`
	Criteria    []string `json:"acceptance_criteria" rule:"items=1..20,each.len=1..500"`
	Context     string   `json:"context" rule:"len=0..4000"`
	Files       []string `json:"files"`
	DependsOn   []string `json:"depends_on"`
}

var deliverables = []string{"code", "doc", "answer", "screenshots", "reviewed_pr", "design", "data", "other"}

// Packet is a contract as a Prickle packet, for the worker's side after
// CONTRACT_ACCEPT. The manifest's digest stands on the first line of the
// context, so that a reader can tell which contract governs. What does not fit
// is refused whole (J6). Lost is as of [Workspace.Lane].
func Packet(m manifest.TaskManifest, digest signing.Digest) (v jcs.Value, lost []string, err error) {
	p := packet{Task: m.Task.Title, Deliverable: "other", Context: "manifest " + digest.String() + "\n\n" + m.Task.Description, Files: []string{}, DependsOn: []string{}}
	if word := strings.TrimPrefix(m.Task.TaskType, "prickle."); word != m.Task.TaskType && slices.Contains(deliverables, word) {
		p.Deliverable = word
	}
	if len([]rune(p.Context)) > 4000 {
		return v, nil, spec.Refuse(spec.TooLarge, "/task/description", "4000 characters with the manifest's digest: a packet has no place for more")
	}
	if p.Criteria, err = criteria(m); err != nil {
		return v, nil, err
	}
	v, err = jcs.Encode(p)
	return v, lostOf(m), err
}
