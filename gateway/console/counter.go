package console

import (
	"net/http"
	"slices"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

// offered are the terms that the page offers to change, with what people call
// them; `sealbridge gate counter` can change the others too.
var offered = []struct{ Key, Word string }{
	{"budget.time", "work"}, {"budget.input_tokens", "tokens in"}, {"budget.output_tokens", "tokens out"}, {"budget.tool_calls", "tool calls"}, {"deadline", "deadline"},
}

// word is what people call a term.
func word(key string) string {
	for _, o := range offered {
		if o.Key == key {
			return o.Word
		}
	}
	return key
}

// term is one field of the form.
type term struct{ Key, Word, Now, Said string }

// termsOf are the fields for one ask; none where a no can carry no draft.
func termsOf(a approval.Ask, said func(string) string) (out []term) {
	now := approval.Changeable(a)
	for _, o := range offered {
		if i := slices.IndexFunc(now, func(s manifest.Setting) bool { return s.Key == o.Key }); i >= 0 {
			out = append(out, term{o.Key, o.Word, now[i].Value, said(o.Key)})
		}
	}
	return out
}

// counter takes a no that says under which terms it would be a yes (G7). A slip
// of the pen gives the form back; nothing was decided.
func (s *Server) counter(v *visit) error {
	a, err := s.find(v)
	if err != nil {
		return err
	}
	var set []manifest.Setting
	for _, t := range termsOf(a.Ask, v.PostFormValue) {
		if t.Said != "" && t.Said != t.Now {
			set = append(set, manifest.Setting{Key: t.Key, Value: t.Said})
		}
	}
	if len(set) == 0 {
		return s.askPage(v, http.StatusBadRequest, a, "Nothing was decided: change a term, or say no.")
	}
	return s.answered(v, a, gateway.Denial{Reason: v.PostFormValue("reason"), Set: set})
}

// answered says a no, and shows what came of it. Whoever comes second is told who won (G3).
func (s *Server) answered(v *visit, a gateway.AskView, no gateway.Denial) error {
	no.Ask = a.Ask.AskID.String()
	_, err := s.Gateway.DenyGate(v.Context(), owner, no)
	switch reason := spec.ReasonOf(err); {
	case err == nil:
		http.Redirect(v.w, v.Request, "/asks/"+no.Ask, http.StatusSeeOther)
		return nil
	case reason == spec.Conflict, reason == spec.GateExpired:
		if a, err = s.find(v); err != nil {
			return err
		}
		return s.askPage(v, http.StatusConflict, a, "Your no came second: this question was settled before. The first answer counts.")
	case len(no.Set) > 0 && reason != spec.Internal:
		return s.askPage(v, http.StatusBadRequest, a, "Nothing was decided. "+manifest.Display(err.Error(), 300))
	}
	return err
}
