package approval

import (
	"fmt"
	"slices"
	"strings"

	"sealbridge/manifest"
)

// hosts says which hosts the agent of a contract may come to reach, all of them,
// wider where there are more than at the last yes (X1). tail ends the sentence.
func (w *words) hosts(tail string) {
	now := w.m.SandboxPolicy.AllowedHosts
	if len(now) == 0 {
		return
	}
	mark, was := Newly, ""
	if last := w.x.Last; last != nil {
		had := last.SandboxPolicy.AllowedHosts
		if slices.ContainsFunc(now, func(h string) bool { return !slices.Contains(had, h) }) {
			mark, was = Wider, orText(cut(strings.Join(had, ", "), maxNames), "no host")
		}
	}
	again := "the contract does not ask again before one is opened"
	if w.m.HITLPolicy.Names(manifest.EffectGate) {
		again = "a person is asked before each one is opened, for this task alone"
	}
	lines := apart(now, maxNames)
	for i, text := range lines {
		if i < len(lines)-1 {
			w.line(mark, "reach", text)
			continue
		}
		w.line(mark, "reach", text+tail, again, was)
	}
	w.risk("external_communication")
}

// apart joins words into lines of at most n characters.
func apart(words []string, n int) (out []string) {
	for _, s := range words {
		if k := len(out) - 1; k >= 0 && len(out[k])+len(s)+2 <= n {
			out[k] += ", " + s
			continue
		}
		out = append(out, s)
	}
	return out
}

// open asks our owner whether our agent may reach one host, for one task.
func (w *words) open(f manifest.Opens) {
	agent := manifest.Display(orText(w.x.Agent, "your agent"), 60)
	host := manifest.Display(f.Host, 253)
	w.a.Question = cut(fmt.Sprintf("Let %s reach %s?", quoted(agent), host), 200)
	w.a.Effect = fmt.Sprintf("This gateway opens the host for this task of %s, until it ends. The agent stands still until you answer.", w.who)
	where := "any address of the internet that it has"
	if len(w.x.Reach.At) > 0 {
		where += ", and at " + strings.Join(w.x.Reach.At, ", ") + ", as your policy lists"
	}
	ports := []string{"80", "443"}
	for _, n := range w.x.Reach.Ports {
		if s := fmt.Sprint(n); !slices.Contains(ports, s) {
			ports = append(ports, s)
		}
	}
	w.line(Newly, "reach", host+", ports "+strings.Join(ports, ", "), where)
	w.line(Newly, "send", "whatever the agent has can go there: "+files(w.m.IO.InputArtifacts, "and the text of the task"), "what is said inside the connections is not seen by this gateway")
	for _, text := range apart(without(w.m.SandboxPolicy.AllowedHosts, f.Host), maxNames) {
		w.line(Cannot, "not yet", "reach "+text, "each is another question")
	}
	w.line(Cannot, "cannot", "reach any host that the contract does not name")
	w.risk("external", "external_communication")
	if len(w.m.IO.InputArtifacts) > 0 {
		w.risk("privacy")
	}
}

func without(list []string, x string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == x })
}

// network is what a boxed agent has of it.
func network(s manifest.SandboxPolicy) string {
	if len(s.AllowedHosts) > 0 {
		return "no network but the hosts below"
	}
	return "no network"
}
