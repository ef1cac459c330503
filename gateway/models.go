package gateway

import (
	"slices"
	"strings"

	"sealbridge/gateway/runner"
	"sealbridge/manifest/task"
	"sealbridge/spec"
)

// The forms of providers' APIs that the LLM door knows (spec/models.md).
const (
	KindAnthropic = "anthropic"
	KindOpenAI    = "openai"
)

// Models of an agent, and what accepted says of them (X6).
const (
	modelDoor = "door" // by the gateway's LLM door
	modelOwn  = "own"  // the agent brings its own
	modelNone = "none"
)

// Provider is a model provider of the owner's, without its key (X4a).
type Provider struct {
	Kind   string   // KindAnthropic or KindOpenAI
	Host   string   // who reads the inputs, as a person sees it
	Models []string // names; a star at the end stands for any ending
}

// serves says whether a model is on the owner's list.
func (p Provider) serves(model string) bool {
	return slices.ContainsFunc(p.Models, func(m string) bool {
		begin, open := strings.CutSuffix(m, "*")
		return m == model || open && strings.HasPrefix(model, begin)
	})
}

// model is how an agent gets at a model, as accepted says it.
func (a Agent) model() string {
	if a.Model == "" {
		return modelNone
	}
	return a.Model
}

// label is a provider's name and host: what accepted states and a card shows (X5).
func label(name string, p Provider) string { return name + " (" + p.Host + ")" }

// providersOf are those that an agent may use, by name.
func (r Rules) providersOf(a Agent) (names []string) {
	if a.model() != modelDoor {
		return nil
	}
	for name := range r.Providers {
		if len(a.Providers) == 0 || slices.Contains(a.Providers, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Serving are those of a kind that an agent may use and that have a model, by name (X4a).
func (r Rules) Serving(a Agent, kind, model string) (names []string) {
	for _, name := range r.providersOf(a) {
		if p := r.Providers[name]; p.Kind == kind && p.serves(model) {
			names = append(names, name)
		}
	}
	return names
}

// labelsOf are all that an agent may use, as accepted states them (X4h).
func (r Rules) labelsOf(a Agent) []string {
	out := []string{}
	for _, name := range r.providersOf(a) {
		out = append(out, label(name, r.Providers[name]))
	}
	return out
}

// accepted is what our own acceptance said of box and model; the zero value before it.
func (r taskRow) accepted() task.Terms {
	if a := r.Task.Accepted(); a != nil {
		return *a
	}
	return task.Terms{}
}

// doorFor says whether this gateway can keep what accepted would say of the door.
func (t *turn) doorFor(a Agent) error {
	if len(t.rules.providersOf(a)) == 0 {
		return spec.Refuse(spec.PolicyDenied, "", "X4a: the agent has no model provider: models in config.yaml")
	}
	if a.Session {
		return nil
	}
	if box := t.isolationOf(a); t.g.Models == nil || box.Enforced != "gateway" || box.Level != runner.Subprocess { // a port is given to a boxed program only (X3)
		return spec.Refuse(spec.UnsupportedIsolation, "", "X4b: no door in the box")
	}
	return nil
}
