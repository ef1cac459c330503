package llmdoor

import (
	"encoding/json"

	"sealbridge/gateway"
)

// maxFigure bounds a figure of tokens: beyond it a number is none (B6).
const maxFigure = 1 << 53

// nothing is known yet.
var nothing = gateway.ModelUse{Input: gateway.Unknown, Output: gateway.Unknown}

// then is what becomes of an event of a stream.
type then int

const (
	pass then = iota // to the agent, at once
	keep             // for a moment: the end of the call is near, and is to be written down first
	drop             // the agent did not ask for it
	ends             // the call is over: nothing more is used
)

// reader reads out of an answer what a call used (X4e).
type reader interface {
	whole(body []byte)      // an answer in one piece
	event(data []byte) then // one event of a stream
	used() gateway.ModelUse // what is known for good by now
}

// tokens is a figure of tokens; anything but a whole number from 0 to 2^53 is
// none. A pointer to it stays nil at null, which is how an API says that it has no such figure.
type tokens int64

func (t *tokens) UnmarshalJSON(b []byte) error {
	*t = tokens(gateway.Unknown)
	var n int64
	if json.Unmarshal(b, &n) == nil && n >= 0 && n <= maxFigure {
		*t = tokens(n)
	}
	return nil
}

// sum adds figures of which some may be absent; one that is there and none makes the sum unknown.
func sum(first *tokens, more ...*tokens) int64 {
	if first == nil {
		return gateway.Unknown
	}
	out := int64(*first)
	for _, t := range append([]*tokens{first}, more...) {
		if t != nil && *t < 0 {
			return gateway.Unknown
		}
	}
	for _, t := range more {
		if t != nil {
			out += int64(*t)
		}
	}
	return out
}

// messagesUsage is usage of the messages API: tokens of a cache stand apart.
type messagesUsage struct {
	Input   *tokens `json:"input_tokens"`
	Written *tokens `json:"cache_creation_input_tokens"`
	Read    *tokens `json:"cache_read_input_tokens"`
	Output  *tokens `json:"output_tokens"`
}

func (u messagesUsage) input() int64 { return sum(u.Input, u.Written, u.Read) }

type messagesReader struct{ use gateway.ModelUse }

func (r *messagesReader) whole(body []byte) {
	var m struct {
		Type  string        `json:"type"`
		Usage messagesUsage `json:"usage"`
	}
	if json.Unmarshal(body, &m) == nil && m.Type == "message" {
		r.use = gateway.ModelUse{Input: m.Usage.input(), Output: sum(m.Usage.Output)}
	}
}

func (r *messagesReader) event(data []byte) then {
	var e struct {
		Type    string `json:"type"`
		Message struct {
			Usage messagesUsage `json:"usage"`
		} `json:"message"`
		Delta struct {
			Stop *string `json:"stop_reason"`
		} `json:"delta"`
		Usage messagesUsage `json:"usage"`
	}
	if json.Unmarshal(data, &e) != nil {
		return pass
	}
	switch e.Type {
	case "message_start":
		r.use.Input = e.Message.Usage.input()
	case "message_delta":
		if e.Usage.Input != nil {
			r.use.Input = max(r.use.Input, e.Usage.input())
		}
		if e.Delta.Stop != nil { // before it the figure still grows
			r.use.Output = sum(e.Usage.Output)
			return keep
		}
	case "message_stop":
		return ends
	}
	return pass
}

func (r *messagesReader) used() gateway.ModelUse { return r.use }

// freeReader is of what costs nothing.
type freeReader struct{}

func (freeReader) whole([]byte)           {}
func (freeReader) event([]byte) then      { return pass }
func (freeReader) used() gateway.ModelUse { return gateway.ModelUse{} }

// chatUsage is usage of chat completions; tokens of a cache and of thinking are in it.
type chatUsage struct {
	Input  *tokens `json:"prompt_tokens"`
	Output *tokens `json:"completion_tokens"`
}

func (u *chatUsage) use() gateway.ModelUse {
	return gateway.ModelUse{Input: sum(u.Input), Output: sum(u.Output)}
}

type chatReader struct {
	use      gateway.ModelUse
	told     bool // the agent asked for the event that says the usage
	finished bool
}

func (r *chatReader) whole(body []byte) {
	var m struct {
		Object string     `json:"object"`
		Usage  *chatUsage `json:"usage"`
	}
	if json.Unmarshal(body, &m) == nil && m.Usage != nil {
		r.use, r.finished = m.Usage.use(), true
	}
}

func (r *chatReader) event(data []byte) then {
	if string(data) == "[DONE]" {
		return ends
	}
	var e struct {
		Choices []struct {
			Finish *string `json:"finish_reason"`
		} `json:"choices"`
		Usage *chatUsage `json:"usage"`
	}
	if json.Unmarshal(data, &e) != nil {
		return pass
	}
	for _, c := range e.Choices {
		r.finished = r.finished || c.Finish != nil
	}
	if e.Usage != nil { // some servers say it in every event: the last one counts
		r.use = e.Usage.use()
		if len(e.Choices) == 0 && !r.told {
			return drop
		}
	}
	if r.finished {
		return keep
	}
	return pass
}

func (r *chatReader) used() gateway.ModelUse {
	if !r.finished && r.use != nothing { // a stream that was cut: it may have gone on
		return gateway.ModelUse{Input: r.use.Input, Output: gateway.Unknown}
	}
	return r.use
}

// responsesUsage is usage of responses; tokens of a cache and of thinking are in it.
type responsesUsage struct {
	Input  *tokens `json:"input_tokens"`
	Output *tokens `json:"output_tokens"`
}

type responsesReader struct{ use gateway.ModelUse }

func (r *responsesReader) take(u *responsesUsage) {
	if u != nil {
		r.use = gateway.ModelUse{Input: sum(u.Input), Output: sum(u.Output)}
	}
}

func (r *responsesReader) whole(body []byte) {
	var m struct {
		Usage *responsesUsage `json:"usage"`
	}
	if json.Unmarshal(body, &m) == nil {
		r.take(m.Usage)
	}
}

func (r *responsesReader) event(data []byte) then {
	var e struct {
		Type     string `json:"type"`
		Response struct {
			Usage *responsesUsage `json:"usage"`
		} `json:"response"`
	}
	if json.Unmarshal(data, &e) != nil {
		return pass
	}
	switch e.Type {
	case "response.completed", "response.incomplete", "response.failed":
		r.take(e.Response.Usage)
		return ends
	}
	return pass
}

func (r *responsesReader) used() gateway.ModelUse { return r.use }
