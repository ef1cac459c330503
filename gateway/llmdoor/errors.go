package llmdoor

import (
	"encoding/json"
	"errors"
	"net/http"

	"sealbridge/spec"
)

// kind is the form of an API.
type kind string

// answer is how a word of ours looks in each form (spec/models.md, Errors).
type answer struct {
	status            int
	anthropic, openAI string
}

var answers = map[spec.Reason]answer{
	spec.Malformed:       {http.StatusBadRequest, "invalid_request_error", "invalid_request_error"},
	spec.UnknownType:     {http.StatusBadRequest, "invalid_request_error", "invalid_request_error"},
	spec.Conflict:        {http.StatusConflict, "invalid_request_error", "invalid_request_error"},
	spec.NotPermitted:    {http.StatusForbidden, "permission_error", "invalid_request_error"},
	spec.PolicyDenied:    {http.StatusForbidden, "permission_error", "invalid_request_error"},
	spec.NotFound:        {http.StatusNotFound, "not_found_error", "invalid_request_error"},
	spec.TooLarge:        {http.StatusRequestEntityTooLarge, "request_too_large", "invalid_request_error"},
	spec.BudgetExhausted: {http.StatusPaymentRequired, "billing_error", "insufficient_quota"},
	spec.Quota:           {http.StatusTooManyRequests, "rate_limit_error", "rate_limit_error"},
	spec.Unavailable:     {http.StatusServiceUnavailable, "api_error", "server_error"},
}

// refusal is the body of an error in the form of an API. Only words of ours
// leave; what has none is internal, without its text (E).
func refusal(k kind, err error) (status int, body []byte) {
	var known *spec.Error
	if !errors.As(err, &known) {
		known = &spec.Error{Reason: spec.Internal}
	}
	a, ok := answers[known.Reason]
	if !ok {
		known, a = &spec.Error{Reason: spec.Internal}, answer{http.StatusInternalServerError, "api_error", "server_error"}
	}
	said := (&spec.Error{Reason: known.Reason, Path: known.Path, Limit: known.Limit}).Error()
	if k == openAI {
		return a.status, errorBody(k, a.openAI, string(known.Reason), said)
	}
	return a.status, errorBody(k, a.anthropic, "", said)
}

func errorBody(k kind, what, code, said string) []byte {
	e := map[string]any{"type": what, "message": said}
	out := map[string]any{"error": e}
	if k == openAI {
		e["param"], e["code"] = nil, orNil(code)
	} else {
		out["type"] = "error"
	}
	b, _ := json.Marshal(out) //nolint:errcheck // plain texts
	return b
}

func orNil(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func writeError(w http.ResponseWriter, k kind, err error) {
	status, body := refusal(k, err)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}
