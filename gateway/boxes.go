package gateway

import (
	"cmp"
	"maps"
	"slices"

	"sealbridge/gateway/runner"
	"sealbridge/manifest"
	"sealbridge/policy"
)

// level is what an agent that is run is held at.
func (a Agent) level() string { return runner.Command{Module: a.Module, Image: a.Image}.Level() }

// isolationOf is what this gateway can say of an agent's box now: an agent in
// its owner's session is in none of ours (X6).
func (t *turn) isolationOf(a Agent) manifest.Isolation {
	switch {
	case a.Session:
		return manifest.Isolation{Level: runner.Subprocess, Enforced: "claimed"}
	case t.g.Runner == nil:
		return manifest.Isolation{}
	}
	return t.g.Runner.Isolation(a.level())
}

// holds says that an agent would be held now at least as it was accepted: its
// command or this machine may have changed since.
func (t *turn) holds(row taskRow, a Agent) bool {
	said := row.Task.Accepted()
	return said != nil && policy.Holds(t.isolationOf(a), said.Isolation)
}

// worker is the agent that the rules name for a contact's work, else the one
// whose box fits the contract best (X10).
func (t *turn) worker(row taskRow) string {
	m := row.Task.Manifest()
	if name := t.rules.Policy.Worker(t.trust.Contacts[row.Peer].Name, m.Task.TaskType); name != "" {
		return name
	}
	fit := func(name string) int {
		box, agent := t.isolationOf(t.rules.Agents[name]), t.rules.Agents[name]
		switch fits := policy.Suffices(box.Level, m.SandboxPolicy); {
		case fits == policy.TooLittle:
			return 0
		case agent.Session:
			return 1
		case fits == policy.Enough && box.Enforced == "gateway":
			return 4
		case fits == policy.InStead && box.Enforced == "gateway":
			return 3
		}
		return 2
	}
	names := slices.Sorted(maps.Keys(t.rules.Agents))
	if len(names) == 0 {
		return ""
	}
	return slices.MinFunc(names, func(a, b string) int { return cmp.Or(-cmp.Compare(fit(a), fit(b)), cmp.Compare(a, b)) })
}
