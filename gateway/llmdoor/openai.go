package llmdoor

import (
	"encoding/json"
	"strings"

	"sealbridge/spec"
)

// What is let through of the chat completions API and of responses (spec/models.md).

// inlineImage is an image that travels in the request; an address would be fetched.
func inlineImage(v any, path string) error {
	s, ok := v.(string)
	if !ok {
		return wrong(path, "a text")
	}
	if !strings.HasPrefix(s, "data:image/") {
		return refuse(path, "only data:image/…: nothing is fetched")
	}
	return nil
}

var (
	formats = byType{"text": {}, "json_object": {}, "json_schema": {
		"json_schema": members{"name": text, "description": text, "schema": anything, "strict": orNull(boolean)}.shape}}.shape

	grammar = byType{"text": {}, "grammar": {"grammar": members{"syntax": text, "definition": text}.shape, "syntax": text, "definition": text}}.shape

	chatText  = members{"text": text}
	chatTexts = textOr(list(byType{"text": chatText, "refusal": {"refusal": text}}.shape))
	chatParts = textOr(list(byType{"text": chatText, "image_url": {"image_url": members{"url": inlineImage, "detail": text}.shape}}.shape))
	chatCalls = list(byType{
		"function": {"id": text, "index": number, "function": members{"name": text, "arguments": text}.shape},
		"custom":   {"id": text, "index": number, "custom": members{"name": text, "input": text}.shape},
	}.shape)
	chatChoice = textOr(byType{"function": {"function": members{"name": text}.shape}, "custom": {"custom": members{"name": text}.shape}}.shape)

	chatRoles = map[string]members{
		"system": {"content": chatTexts, "name": text}, "developer": {"content": chatTexts, "name": text}, "user": {"content": chatParts, "name": text},
		"assistant": {"content": orNull(chatTexts), "name": text, "refusal": orNull(text), "tool_calls": orNull(chatCalls), "reasoning_content": orNull(text)},
		"tool":      {"content": chatTexts, "tool_call_id": text, "name": text},
	}

	chatCall = members{
		"model": text, "messages": list(chatMessage), "max_tokens": orNull(number), "max_completion_tokens": orNull(number), "stream": orNull(boolean),
		"stream_options": orNull(members{"include_usage": boolean, "include_obfuscation": boolean}.shape), "temperature": orNull(number), "top_p": orNull(number),
		"stop": orNull(textOr(list(text))), "tool_choice": chatChoice, "parallel_tool_calls": boolean, "response_format": formats, "seed": orNull(number),
		"presence_penalty": orNull(number), "frequency_penalty": orNull(number), "logit_bias": anything, "logprobs": orNull(boolean), "top_logprobs": orNull(number),
		"n": orNull(only(json.Number("1"))), "user": text, "reasoning_effort": orNull(text), "verbosity": orNull(text), "modalities": orNull(list(word("text"))),
		"store": orNull(only(false)), "service_tier": orNull(word("auto", "default")), "prompt_cache_key": text, "safety_identifier": text,
		"tools": list(byType{
			"function": {"function": members{"name": text, "description": text, "parameters": anything, "strict": orNull(boolean)}.shape},
			"custom":   {"custom": members{"name": text, "description": text, "format": grammar}.shape},
		}.shape),
	}
)

// chatMessage is a message, by its role.
func chatMessage(v any, path string) error {
	o, ok := v.(*object)
	if !ok {
		return wrong(path, "an object")
	}
	role, _ := o.of["role"].(string)
	m, listed := chatRoles[role]
	if !listed {
		return refuse(path+"/role", "not on the list of roles")
	}
	return joined(m, members{"role": text}).shape(v, path)
}

// chat is POST /v1/chat/completions.
var chat = endpoint{kind: openAI, path: "/v1/chat/completions", members: chatCall, limit: "max_completion_tokens",
	prepare: func(o *object, stream bool) (told bool, err error) {
		_, old := o.get("max_tokens")
		if _, both := o.get("max_completion_tokens"); old && both {
			return false, spec.Refuse(spec.Malformed, "/max_tokens", "one limit")
		}
		options, _ := o.of["stream_options"].(*object)
		if options != nil {
			told, _ = options.of["include_usage"].(bool)
		}
		if stream {
			if options == nil {
				options = &object{of: map[string]any{}}
			}
			options.set("include_usage", true)
			o.set("stream_options", options)
		}
		return told, nil
	},
	reader: func(told bool) reader { return &chatReader{use: nothing, told: told} },
}

var (
	itemTexts = textOr(list(byType{"input_text": chatText, "output_text": {"text": text, "annotations": anything, "logprobs": anything}, "refusal": {"refusal": text},
		"input_image": {"image_url": inlineImage, "detail": text}, "text": chatText, "summary_text": chatText, "reasoning_text": chatText}.shape))
	state = orNull(text) // of an item that comes back: id and status

	itemMessage = members{"role": word("user", "assistant", "system", "developer"), "content": itemTexts, "id": state, "status": state, "phase": state}
	items       = list(byType{
		"": itemMessage, "message": itemMessage,
		"function_call":           {"id": state, "call_id": text, "name": text, "namespace": text, "arguments": text, "status": state},
		"function_call_output":    {"id": state, "call_id": text, "output": itemTexts, "status": state},
		"custom_tool_call":        {"id": state, "call_id": text, "name": text, "input": text, "status": state},
		"custom_tool_call_output": {"id": state, "call_id": text, "output": itemTexts, "status": state},
		"reasoning":               {"id": state, "summary": itemTexts, "content": orNull(itemTexts), "encrypted_content": orNull(text), "status": state},
	}.shape)

	responsesCall = members{
		"model": text, "input": textOr(items), "instructions": orNull(text), "max_output_tokens": orNull(number), "stream": orNull(boolean),
		"stream_options": orNull(members{"include_obfuscation": boolean}.shape), "temperature": orNull(number), "top_p": orNull(number),
		"tool_choice": textOr(byType{"function": {"name": text}, "custom": {"name": text}}.shape), "parallel_tool_calls": orNull(boolean),
		"text":      orNull(members{"verbosity": orNull(text), "format": orNull(byType{"text": {}, "json_object": {}, "json_schema": {"name": text, "description": text, "schema": anything, "strict": orNull(boolean)}}.shape)}.shape),
		"reasoning": orNull(members{"effort": orNull(text), "summary": orNull(text), "generate_summary": orNull(text)}.shape),
		"include":   orNull(list(word("reasoning.encrypted_content", "message.output_text.logprobs"))), "metadata": anything, "user": text,
		"truncation": orNull(word("auto", "disabled")), "top_logprobs": orNull(number), "store": orNull(only(false)), "service_tier": orNull(word("auto", "default")),
		"prompt_cache_key": orNull(text), "safety_identifier": orNull(text),
		"tools": list(byType{
			"function": {"name": text, "description": orNull(text), "parameters": anything, "strict": orNull(boolean)},
			"custom":   {"name": text, "description": text, "format": grammar},
		}.shape),
	}
)

// responses is POST /v1/responses; nothing of it stays at the provider.
var responses = endpoint{kind: openAI, path: "/v1/responses", members: responsesCall, limit: "max_output_tokens",
	least: func(*object) (int64, error) { return leastResponses, nil },
	prepare: func(o *object, _ bool) (bool, error) {
		o.set("store", false)
		return false, nil
	},
	reader: func(bool) reader { return &responsesReader{use: nothing} },
}
