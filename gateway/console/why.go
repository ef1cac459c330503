package console

import (
	"context"
	"fmt"
	"strings"

	"sealbridge/gateway"
	"sealbridge/manifest"
)

// why is what `sealbridge why` says of a task (E1), as the page shows it.
type why struct {
	Who, What, Then string
	Refused         []refused
}

type refused struct{ At, What, Word, By, Rule, Words string }

// why asks the gateway; nil where nothing was refused.
func (s *Server) why(ctx context.Context, task string) (*why, error) {
	w, err := s.Gateway.Why(ctx, owner, gateway.Ref{Task: task})
	if err != nil || len(w.Refused) == 0 {
		return nil, err
	}
	out := &why{Who: "nobody", What: "nothing is left to do"}
	if n := w.Next; n != nil {
		out.Who, out.What = manifest.Display(n.Who, 64), manifest.Display(n.What, 200)
		if !n.Until.IsZero() {
			out.Then = s.clock(n.Until) + " at the latest, then " + n.Then
		}
	}
	for _, r := range w.Refused {
		x := refused{What: r.What, Word: string(r.Word), By: whose(r), Rule: ruleOf(r), Words: manifest.Display(r.Words, 300)}
		if !r.At.IsZero() {
			x.At = s.clock(r.At)
		}
		out.Refused = append(out.Refused, x)
	}
	return out, nil
}

// whose says in words whose no it was.
func whose(r gateway.Refusal) string {
	switch r.By {
	case "contact":
		return "by " + manifest.Display(r.Name, 64)
	case "rules":
		return "by your rules"
	case "person", "you":
		return "by you"
	case "time":
		return "because nobody answered"
	case "check":
		return "by our checks"
	}
	return "by the protocol"
}

// ruleOf names rule, place, link, path, limit and the values that were compared.
func ruleOf(r gateway.Refusal) string {
	var out []string
	add := func(format string, of ...any) { out = append(out, fmt.Sprintf(format, of...)) }
	if r.Rule != "" {
		add("rule %s", r.Rule)
	}
	for _, text := range []string{r.Where, r.Path, r.Limit} {
		if text != "" {
			add("%s", text)
		}
	}
	if r.Link > 0 {
		add("link %d of the chain", r.Link)
	}
	if r.Have != "" || r.Most != "" {
		add("%s, held against %s", r.Have, r.Most)
	}
	if r.Times > 1 {
		add("%d times", r.Times)
	}
	return manifest.Display(strings.Join(out, " · "), 600)
}
