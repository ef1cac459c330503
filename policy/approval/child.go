package approval

import (
	"fmt"
	"strings"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/policy"
	"sealbridge/signing"
)

// handOn asks an owner whether a part of the task may go to a third one (G11).
// second says that the worker's owner is asked, after the requester's.
func (w *words) handOn(part manifest.Child, second bool) error {
	m, err := part.Contract()
	if err != nil {
		return err
	}
	third := w.third()
	if second {
		w.a.Question = cut(fmt.Sprintf("Hand a part of %s's task on to %s?", w.who, third), 200)
		w.a.Effect = cut(fmt.Sprintf("%s has said yes. Yours takes the part's budget out of this task; you are asked once more before the contract goes to %s.", w.who, third), 500)
	} else {
		w.a.Question = cut(fmt.Sprintf("Let %s hand a part of your task on to %s?", w.who, third), 200)
		w.a.Effect = cut(fmt.Sprintf("%s's owner decides next; then %s may ask %s. What is used there counts as used by %s.", w.who, w.who, third, w.who), 500)
	}
	w.tree(m, third, second)
	w.leaves(m, second)
	w.line(Newly, "share", "at most "+meters(m.Budget.Limits()), "of "+meters(w.m.Budget.Limits())+" for the whole task; what is not used comes back")
	w.line(Newly, "until", m.Deadline.String())
	if n := m.Permissions.MaxDelegationDepth; n > 0 {
		w.line(Newly, "deeper", fmt.Sprintf("%s may hand a part of the part on, %d more times, each time by a yes of both sides", third, n))
	}
	w.line(Newly, "learn", "whoever does it learns that there is a task above: its id and limits and the keys of the agents, not its text and no name")
	w.risk("external", "privacy")
	tools := "use your tools"
	if second {
		tools = "use " + w.who + "'s tools"
	}
	if len(m.Permissions.GrantedCapabilities) > 0 {
		w.handTools(m, second)
		tools = strings.Replace(tools, " ", " other ", 1)
	}
	w.line(Cannot, "cannot", "get more than this task has, reach another host, "+tools+", weaken its box, checks or gates")
	w.childText(m)
	return nil
}

// tree draws the chain as far as this owner knows it.
func (w *words) tree(m manifest.TaskManifest, third string, second bool) {
	chain := []string{"you", w.who, third}
	if second {
		chain = []string{w.who, "you", third}
	}
	if n := w.x.Above; n > 0 {
		chain = append([]string{fmt.Sprintf("%d more above", n)}, chain...)
	}
	w.line(Newly, "tree", strings.Join(chain, " → "), "the part's worker is "+manifest.Fingerprint(m.Worker.OwnerDid))
}

// third is the owner who would do the part, by the name that we gave. What it
// calls itself stands behind the rule, with what others wrote (G14).
func (w *words) third() string {
	if w.x.Third != "" {
		return manifest.Display(w.x.Third, 64)
	}
	return "an owner whom you do not know"
}

// leaves says which files go along: the parent's, which another owner gave, and others.
func (w *words) leaves(m manifest.TaskManifest, second bool) {
	theirs := policy.Leaves(w.m, m)
	whose := "of yours"
	if second {
		whose = "of " + w.who
	}
	w.line(Newly, "leave", files(theirs, whose), artifactNames(theirs))
	if n := len(m.IO.InputArtifacts) - len(theirs); n > 0 {
		w.line(Newly, "also", fmt.Sprintf("%d more that the worker made or brings", n), artifactNames(m.IO.InputArtifacts))
	}
}

// childText points at what the part's contract says.
func (w *words) childText(m manifest.TaskManifest) {
	if m.Worker.DisplayName != "" {
		w.a.Theirs = append(w.a.Theirs, Text{"what the owner of the part is called", "subject", "/manifest/worker/displayName"})
	}
	whole := w.m
	w.m = m
	w.contractText()
	w.m = whole
}

// handedOn says whether what an ask about a child would let happen cannot happen any more.
func handedOn(a Ask, t task.Task) bool {
	child, _ := a.Subject.Member("manifest")
	for _, c := range t.Children() {
		if c.Manifest.String() == signing.DigestOf(child.Bytes()).String() {
			return true
		}
	}
	return false
}

// deeper says of a contract that it may be handed on, and of a child that it is one.
func (w *words) deeper(worker string) {
	if n := w.x.Above; n > 0 && w.a.Side == manifest.Worker {
		w.line(Newly, "part", fmt.Sprintf("it is a part of other work: whoever is above %s (%d) learns nothing of you but what it says", w.who, n))
	}
	if n := w.m.Permissions.MaxDelegationDepth; n > 0 {
		w.line(Newly, "hand on", fmt.Sprintf("%s may hand parts of it on to others, up to %d deep, each by a yes of both owners", worker, n))
	}
}

// onward adds that the work is not handed on, where it is not.
func (w *words) onward(cannot string) string {
	if w.m.Permissions.MaxDelegationDepth > 0 {
		return cannot
	}
	return cannot + ", hand the work on"
}

// handTools says which tools go along, and that their owner and whoever calls
// them are introduced to each other (C7).
func (w *words) handTools(m manifest.TaskManifest, second bool) {
	owner := "your"
	if second {
		owner = w.who + "'s"
	}
	for i, g := range m.Permissions.GrantedCapabilities {
		if i == 10 {
			w.line(Newly, "tools", fmt.Sprintf("and %d more", len(m.Permissions.GrantedCapabilities)-i))
			break
		}
		w.line(Newly, "tools", "call "+owner+" "+grant(g), arguments(g))
	}
	w.line(Newly, "meet", "for these calls both gateways are introduced: each learns the other's owner key, relay and current keys, and neither becomes a contact")
	w.risk("credential")
}
