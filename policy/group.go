package policy

import (
	"fmt"
	"slices"
	"strings"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// MaxGroup is how many tasks one group has at most: each is a question to the
// owner, and ten of one kind are the most that a person still reads.
const MaxGroup = 10

// Group is the tasks of one requester that belong together, as they stand (P4).
// It is the requester's own: neither a worker nor an auditor has one.
type Group struct {
	Kind    manifest.GroupKind
	Need    int64 // owners who must deliver the same; 1 for a race
	Members []Member
}

// Member is one task of a group.
type Member struct {
	Task  manifest.TaskKey
	Owner signing.DID    // of the worker
	Same  signing.Digest // [Sameness] of a delivery that passed every check and waits; zero: there is none
	Taken bool           // completed
	Over  bool           // ended in another way, dropped, or broken
}

// GroupState is where a group stands.
type GroupState string

const (
	GroupOpen      GroupState = "open"      // next: the workers
	GroupAgreed    GroupState = "agreed"    // of a quorum: enough are the same; next: the owner or the gateway
	GroupDisagreed GroupState = "disagreed" // of a quorum: enough can not be the same any more; next: the owner
	GroupTaken     GroupState = "taken"     // one is completed; next: nobody
	GroupOver      GroupState = "over"      // every task ended otherwise; next: nobody
)

// Check refuses what cannot be a group, and one whose answer could not be told from another (P4).
func (g Group) Check() error {
	n := int64(len(g.Members))
	owners := map[signing.DID]bool{}
	for _, m := range g.Members {
		owners[m.Owner] = true
	}
	switch {
	case n < 2 || n > MaxGroup:
		return spec.Refuse(spec.Malformed, "/to", "P4: 2 to 10 contacts")
	case int64(len(owners)) != n:
		return spec.Refuse(spec.Malformed, "/to", "P4: each task has another owner")
	case g.Kind == manifest.Race && g.Need == 1:
		return nil
	case g.Kind == manifest.Quorum && g.Need >= 2 && g.Need <= n && 2*g.Need > n:
		return nil
	case g.Kind == manifest.Quorum:
		return spec.Refuse(spec.Malformed, "/quorum", "P4: a majority of at least 2, and no more than are asked")
	}
	return spec.Refuse(spec.Malformed, "/group", "P4: race or quorum")
}

// fitsGroup refuses a contract that no group of a kind may have: a race that any
// answer of the right shape would win, a quorum whose workers could be one.
func fitsGroup(k manifest.GroupKind, m manifest.TaskManifest) *Decision {
	switch {
	case k == manifest.Race && !judged(m):
		return denied("P4", spec.PolicyDenied, "/verification/checks", "P4: a race needs a check beyond the schema, or a person")
	case k == manifest.Quorum && m.Permissions.MaxDelegationDepth > 0:
		return denied("P4", spec.PolicyDenied, "/permissions/maxDelegationDepth", "P4: a quorum hands nothing on")
	}
	return nil
}

// judged says whether a delivery is judged by more than its shape.
func judged(m manifest.TaskManifest) bool {
	if mode := m.Verification.Mode; mode == "human_in_the_loop" || mode == "hybrid" || m.HITLPolicy.Names(manifest.DeliveryGate) {
		return true
	}
	return m.Verification.Mode != "schema_only" &&
		slices.ContainsFunc(m.Verification.Checks, func(c manifest.Check) bool { return c.Kind != "json_schema" })
}

// Sameness is what makes two deliveries one answer: output and files, by the
// SHA-256 of their canonical JSON. Evidence and usage do not count.
func Sameness(d manifest.Delivery) signing.Digest {
	type file struct {
		Name   string         `json:"name"`
		Digest signing.Digest `json:"digest"`
	}
	files := make([]file, len(d.Artifacts))
	for i, a := range d.Artifacts {
		files[i] = file{a.Name, a.Digest}
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.Name, b.Name) })
	return subject(struct {
		Output    jcs.Value `json:"output"`
		Artifacts []file    `json:"artifacts"`
	}{d.Output, files})
}

// Agree is how many waiting deliveries are the same as that of a task; 0 where it has none.
func (g Group) Agree(task manifest.TaskKey) (n int64) {
	same := g.of(task).Same
	if same.IsZero() {
		return 0
	}
	for _, m := range g.Members {
		if m.Same == same && !m.Over {
			n++
		}
	}
	return n
}

func (g Group) of(task manifest.TaskKey) Member {
	i := slices.IndexFunc(g.Members, func(m Member) bool { return m.Task == task })
	if i < 0 {
		return Member{}
	}
	return g.Members[i]
}

// Taken is the task of the group that was completed.
func (g Group) Taken() (key manifest.TaskKey, ok bool) {
	for _, m := range g.Members {
		if m.Taken {
			return m.Task, true
		}
	}
	return key, false
}

// State is where the group stands, as a function of its tasks alone.
func (g Group) State() GroupState {
	if _, ok := g.Taken(); ok {
		return GroupTaken
	}
	open, best := int64(0), int64(0) // tasks that may still deliver; the most that are the same
	waits := false
	for _, m := range g.Members {
		switch {
		case m.Over:
		case m.Same.IsZero():
			open++
		default:
			waits = true
			best = max(best, g.Agree(m.Task))
		}
	}
	switch {
	case g.Kind == manifest.Quorum && best >= g.Need:
		return GroupAgreed
	case open == 0 && !waits:
		return GroupOver
	case g.Kind == manifest.Quorum && best+open < g.Need:
		return GroupDisagreed
	}
	return GroupOpen
}

// complete says why a delivery of the group may not be completed now; nil where it may.
func (g Group) complete(task manifest.TaskKey) *Decision {
	if by, ok := g.Taken(); ok && by != task {
		return denied("P4", spec.Conflict, "", "P4: "+by.ID.String()+" of its group is completed")
	}
	if g.Kind == manifest.Quorum && g.Agree(task) < g.Need {
		return denied("P4", spec.VerificationFailed, "/body/delivery", fmt.Sprintf("P4: %d of %d owners delivered the same", g.Agree(task), g.Need))
	}
	return nil
}

// grouped holds what our own side would say against the group that its task
// belongs to; nil where nothing is against it.
func (l *law) grouped() *Decision {
	if l.Group == nil {
		return nil
	}
	switch l.fact.(type) {
	case manifest.Proposed:
		return fitsGroup(l.Group.Kind, l.m)
	case manifest.Completed:
		key, _, _ := l.parties()
		return l.Group.complete(key)
	}
	return nil
}
