package llmdoor

import "strings"

// What is let through of the messages API (spec/models.md).

var (
	cached = orNull(members{"type": word("ephemeral"), "ttl": word("5m", "1h"), "scope": text}.shape)

	messagesText  = members{"text": text, "citations": anything, "cache_control": cached}
	messagesImage = members{"source": byType{"base64": {"media_type": text, "data": text}}.shape, "cache_control": cached}
	messagesParts = list(byType{"text": messagesText, "image": messagesImage}.shape)
	messagesPaper = members{"source": byType{"text": {"media_type": text, "data": text}, "content": {"content": textOr(messagesParts)}}.shape,
		"title": orNull(text), "context": orNull(text), "citations": anything, "cache_control": cached}

	messagesBlocks = list(byType{
		"text": messagesText, "image": messagesImage, "document": messagesPaper,
		"tool_use": {"id": text, "name": text, "input": anything, "cache_control": cached, "caller": members{"type": word("direct")}.shape},
		"tool_result": {"tool_use_id": text, "is_error": boolean, "cache_control": cached,
			"content": textOr(list(byType{"text": messagesText, "image": messagesImage, "document": messagesPaper}.shape))},
		"thinking":          {"thinking": text, "signature": text},
		"redacted_thinking": {"data": text},
	}.shape)

	messagesTool = members{"name": text, "description": text, "input_schema": anything, "cache_control": cached, "strict": boolean,
		"eager_input_streaming": boolean, "input_examples": anything, "allowed_callers": list(word("direct"))}

	// messagesBoth is what a call and a count of its tokens have in common.
	messagesBoth = members{
		"model":         text,
		"messages":      list(members{"role": word("user", "assistant", "system"), "content": textOr(messagesBlocks)}.shape),
		"system":        textOr(list(byType{"text": messagesText}.shape)),
		"tools":         list(byType{"": messagesTool, "custom": messagesTool}.shape),
		"tool_choice":   members{"type": word("auto", "any", "tool", "none"), "name": text, "disable_parallel_tool_use": boolean}.shape,
		"thinking":      members{"type": word("enabled", "disabled", "adaptive"), "budget_tokens": number, "display": text}.shape,
		"cache_control": cached,
		"output_config": members{"effort": text, "format": orNull(byType{"json_schema": {"schema": anything}}.shape)}.shape,
		"context_management": orNull(members{"edits": list(byType{
			"clear_tool_uses_20250919": {"trigger": anything, "keep": anything, "clear_at_least": anything, "exclude_tools": list(text), "clear_tool_inputs": anything},
			"clear_thinking_20251015":  {"keep": anything},
		}.shape)}.shape),
	}

	messagesCall = joined(messagesBoth, members{
		"max_tokens": number, "stream": boolean, "temperature": number, "top_p": number, "top_k": number, "stop_sequences": list(text),
		"metadata": members{"user_id": orNull(text)}.shape, "service_tier": word("auto", "standard_only"),
	})
)

func joined(ms ...members) members {
	out := members{}
	for _, m := range ms {
		for name, s := range m {
			out[name] = s
		}
	}
	return out
}

// messages is POST /v1/messages.
var messages = endpoint{kind: anthropic, path: "/v1/messages", members: messagesCall, limit: "max_tokens",
	least: func(o *object) (int64, error) { // thinking has to fit into what may be written
		t, ok := o.of["thinking"].(*object)
		if !ok {
			return 1, nil
		}
		n, err := t.number("budget_tokens")
		return n + 1, err
	},
	reader: func(bool) reader { return &messagesReader{use: nothing} },
}

// counting is POST /v1/messages/count_tokens: it asks no model.
var counting = endpoint{kind: anthropic, path: "/v1/messages/count_tokens", members: messagesBoth, free: true,
	reader: func(bool) reader { return freeReader{} }}

// betas are the values of the header anthropic-beta that change the form of an
// answer or how much of a conversation fits; what they would let a request ask
// for has to be on the list all the same.
var betas = map[string]bool{
	"claude-code-20250219": true, "interleaved-thinking-2025-05-14": true, "fine-grained-tool-streaming-2025-05-14": true,
	"prompt-caching-2024-07-31": true, "extended-cache-ttl-2025-04-11": true, "prompt-caching-scope-2026-01-05": true, "token-counting-2024-11-01": true,
	"token-efficient-tools-2025-02-19": true, "output-128k-2025-02-19": true, "context-1m-2025-08-07": true,
	"context-management-2025-06-27": true, "effort-2025-11-24": true, "structured-outputs-2025-11-13": true,
	"mid-conversation-system-2026-04-07": true, "thinking-token-count-2026-05-13": true,
}

func allowedBetas(headers []string) string {
	var out []string
	for _, h := range headers {
		for b := range strings.SplitSeq(h, ",") {
			if b = strings.TrimSpace(b); betas[b] {
				out = append(out, b)
			}
		}
	}
	return strings.Join(out, ",")
}
