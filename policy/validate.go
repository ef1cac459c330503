package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sealbridge/manifest"
	"sealbridge/spec"
)

// Validate says whether p can be a law. The error is malformed, with the path
// of the first member that is not good: /incoming/0/agent.
func (p Policy) Validate() error {
	v := validator{p: p}
	v.must(p.Version == Version1, "/version", "1")
	v.people()
	for _, w := range GateWords() {
		v.ask(w, p.Ask.Of(w.Gate()))
	}
	v.incoming()
	v.outgoing()
	v.tools()
	v.reach()
	for i, c := range p.Checks {
		v.text(c, fmt.Sprintf("/checks/%d", i))
		_, err := manifest.SplitCommand(c) // else it is the line of no check that a draft can have
		v.must(err == nil, fmt.Sprintf("/checks/%d", i), "M6: a program and plain words, single spaces")
	}
	v.defaults()
	return v.err
}

// validator keeps the first error.
type validator struct {
	p   Policy
	err error
}

func (v *validator) must(ok bool, path, limit string) {
	if !ok && v.err == nil {
		v.err = spec.Refuse(spec.Malformed, path, limit)
	}
}

func (v *validator) text(s, path string) {
	n := utf8.RuneCountInString(s)
	v.must(n >= 1 && n <= MaxPolicyText && utf8.ValidString(s), path, fmt.Sprintf("1 to %d characters", MaxPolicyText))
}

func (v *validator) count(n int, path string) {
	v.must(n <= MaxRules, path, fmt.Sprintf("at most %d", MaxRules))
}

func (v *validator) people() {
	v.count(len(v.p.People), "/people")
	for _, name := range slices.Sorted(maps.Keys(v.p.People)) {
		who, path := v.p.People[name], "/people/"+name
		v.text(name, path)
		v.must(who.Owner == who.Key.IsZero(), path, "the word owner, or a key")
		v.must(!who.Owner || len(who.Gates) == 0 && who.Until == "", path, "an owner decides every gate")
		v.must(who.Owner || len(who.Gates) > 0, path+"/gates", "at least one")
		for i, w := range who.Gates {
			v.must(w.Gate() != "", fmt.Sprintf("%s/gates/%d", path, i), "contract, effect, budget, delegation or delivery")
		}
		v.must(who.Until == "" || !who.Until.End().IsZero(), path+"/until", "a day: 2027-06-30")
	}
}

// ask: whoever is asked must be able to answer.
func (v *validator) ask(w GateWord, a Ask) {
	path := "/ask/" + string(w)
	v.must(len(a.Who) > 0, path+"/who", "somebody")
	v.must(a.Wait >= 0 && a.Wait.within(MaxAskWait), path+"/wait", "at most 7d")
	v.must(a.Need >= 0 && a.Need <= max(1, v.p.persons(a.Who)), path+"/need", "at most as many as are asked")
	for i, name := range a.Who {
		who, ok := v.p.People[name]
		at := fmt.Sprintf("%s/who/%d", path, i)
		v.must(ok, at, "somebody in people")
		v.must(!ok || who.Owner || slices.Contains(who.Gates, w), at, "somebody who may decide this gate")
		v.must(!slices.Contains(a.Who[:i], name), at, "each once")
	}
	for i, s := range a.Presence {
		v.must(presence(s), fmt.Sprintf("%s/presence/%d", path, i), "passkey, device, passphrase, channel:NAME or none")
	}
}

// presence is a kind of G10. None counts only where the owner wrote it down,
// as for machines without a person (I2); it is in no default.
func presence(s string) bool {
	switch s {
	case "passkey", "device", "passphrase", "none":
		return true
	}
	name, ok := strings.CutPrefix(s, "channel:")
	return ok && name != "" && len(name) <= 40
}

func (v *validator) incoming() {
	v.count(len(v.p.Incoming), "/incoming")
	for i, r := range v.p.Incoming {
		path := fmt.Sprintf("/incoming/%d", i)
		v.text(r.Name, path+"/name")
		v.names(r.From, path+"/from")
		v.rule(r.Then, path+"/then")
		v.bounds(r.AtMost, r.PerDay, r.AtOnce, path)
		for k, o := range v.p.Incoming[:i] {
			v.must(o.Name != r.Name, path+"/name", fmt.Sprintf("each once: also /incoming/%d", k))
		}
	}
}

func (v *validator) outgoing() {
	v.count(len(v.p.Outgoing), "/outgoing")
	for i, r := range v.p.Outgoing {
		path := fmt.Sprintf("/outgoing/%d", i)
		v.text(r.Name, path+"/name")
		v.names(r.To, path+"/to")
		v.rule(r.Then, path+"/then")
		v.bounds(r.AtMost, r.PerDay, r.AtOnce, path)
		v.count(len(r.MaySend), path+"/may_send")
		for k, g := range r.MaySend {
			_, err := compileGlob(g)
			v.must(err == nil, fmt.Sprintf("%s/may_send/%d", path, k), "an absolute path, with * and ** for parts")
		}
		for k, o := range v.p.Outgoing[:i] {
			v.must(o.Name != r.Name, path+"/name", fmt.Sprintf("each once: also /outgoing/%d", k))
		}
	}
}

func (v *validator) names(n Names, path string) {
	v.must(len(n) > 0, path, "a list of contacts, or anyone")
	v.must(len(n) == 1 || !slices.Contains(n, Anyone), path, "anyone stands alone")
	for i, s := range n {
		v.text(s, fmt.Sprintf("%s/%d", path, i))
	}
}

// rule: no rule can say yes to a contract.
func (v *validator) rule(t Then, path string) {
	v.must(t == ThenAsk || t == ThenRefuse, path, "ask or refuse")
}

func (v *validator) bounds(m AtMost, d PerDay, once *int64, path string) {
	for _, x := range []struct {
		name string
		have *Amount
	}{
		{"/at_most/input_tokens", m.InputTokens}, {"/at_most/output_tokens", m.OutputTokens}, {"/at_most/tool_calls", m.ToolCalls},
		{"/per_day/tasks", d.Tasks}, {"/per_day/input_tokens", d.InputTokens}, {"/per_day/output_tokens", d.OutputTokens},
		{"/per_day/tool_calls", d.ToolCalls},
	} {
		v.must(x.have == nil || *x.have >= 0, path+x.name, "not negative")
	}
	v.must(m.Time == nil || *m.Time >= 0, path+"/at_most/time", "not negative")
	v.must(m.DelegationDepth == nil || *m.DelegationDepth >= 0 && *m.DelegationDepth <= 5, path+"/at_most/delegation_depth", "0 to 5")
	v.must(once == nil || *once >= 0, path+"/at_once", "not negative")
}

func (v *validator) tools() {
	v.count(len(v.p.Tools), "/tools")
	for i, t := range v.p.Tools {
		path := fmt.Sprintf("/tools/%d", i)
		v.text(t.Match, path+"/match")
		v.must(!strings.Contains(strings.TrimSuffix(t.Match, "*"), "*"), path+"/match", "a name, or a beginning and *")
		v.must(t.Then == ThenAllow || t.Then == ThenAsk || t.Then == ThenRefuse, path+"/then", "allow, ask or refuse")
		v.must(t.Then != ThenAllow || len(t.Effect) > 0, path+"/effect", "none, or what it does outside")
		v.must(!slices.Contains(t.Effect, "none") || len(t.Effect) == 1, path+"/effect", "none stands alone")
		v.count(len(t.Resource), path+"/resource")
		for k, text := range t.Resource {
			if _, err := ParseTemplate(text); err != nil {
				v.must(false, fmt.Sprintf("%s/resource/%d", path, k), limitOf(err))
			}
		}
		_, err := t.defaults()
		v.must(err == nil, path+"/defaults", "arguments that a document can hold")
	}
}

func (v *validator) defaults() {
	d := v.p.Defaults
	v.must(d.Deadline > 0 && d.Deadline.within(90*24*time.Hour), "/defaults/deadline", "more than nothing, at most 90d")
	for i, w := range d.Gates {
		v.must(w.Gate() != "", fmt.Sprintf("/defaults/gates/%d", i), "contract, effect, budget, delegation or delivery")
		v.must(!slices.Contains(d.Gates[:i], w), fmt.Sprintf("/defaults/gates/%d", i), "each once")
	}
	v.must(d.Budget.Time > 0, "/defaults/budget/time", "more than nothing")
	v.must(d.Budget.InputTokens >= 0 && d.Budget.OutputTokens >= 0 && d.Budget.ToolCalls >= 0, "/defaults/budget", "not negative")
	v.must(d.Budget.Over == "stop" || d.Budget.Over == "ask", "/defaults/budget/over", "stop or ask")
}
