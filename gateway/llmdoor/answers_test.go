package llmdoor_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"net/http"
	"strings"
	"testing"

	"sealbridge/gateway"
)

// unknown is what nobody said.
const unknown = gateway.Unknown

const (
	messageBody  = `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],"usage":{"input_tokens":10,"cache_creation_input_tokens":20,"cache_read_input_tokens":30,"output_tokens":7}}`
	chatBody     = `{"id":"c","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"hi"}}],"usage":{"prompt_tokens":12,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":8},"completion_tokens_details":{"reasoning_tokens":3}}}`
	responseBody = `{"id":"r","object":"response","status":"completed","output":[],"usage":{"input_tokens":15,"input_tokens_details":{"cached_tokens":4},"output_tokens":6,"output_tokens_details":{"reasoning_tokens":2}}}`

	messageStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":10,\"cache_read_input_tokens\":5,\"output_tokens\":1}}}\n\n"
	messageText  = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n"
	messageDelta = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\n"
	messageStop  = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	messageError = "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"

	chatText   = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":null}],\"usage\":null}\n\n"
	chatFinish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":null}\n\n"
	chatUsage  = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":4}}\n\n"
	chatEach   = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"},\"finish_reason\":null}],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":1}}\n\n"
	chatDone   = "data: [DONE]\n\n"

	responseText = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"hi\"}\n\n"
	responseDone = "event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":" + responseBody + "}\n\n"
)

// Every way in which an answer can come, and what it is charged with.
func TestACallIsChargedWithWhatTheProviderSaid(t *testing.T) { // X4e, B1, B6
	for _, test := range []struct {
		name     string
		path     string
		ask      string
		provider http.HandlerFunc
		in, out  int64
		status   int    // that the agent gets; 0: 200
		gets     string // a part of what the agent gets
		cut      bool   // the agent sees that the answer was cut
	}{
		{"messages", messagesPath, askMessages, writes(200, nil, messageBody), 60, 7, 0, `"text":"hi"`, false},
		{"messages without figures of a cache", messagesPath, askMessages, writes(200, nil, `{"type":"message","usage":{"input_tokens":10,"cache_read_input_tokens":null,"output_tokens":7}}`), 10, 7, 0, "", false},
		{"chat", chatPath, askChat, writes(200, nil, chatBody), 12, 5, 0, `"content":"hi"`, false},
		{"responses", responsesPath, askResponses, writes(200, nil, responseBody), 15, 6, 0, `"completed"`, false},
		{"no usage", messagesPath, askMessages, writes(200, nil, `{"type":"message","content":[]}`), unknown, unknown, 0, "", false},
		{"a negative figure", messagesPath, askMessages, writes(200, nil, `{"type":"message","usage":{"input_tokens":-10,"output_tokens":7}}`), unknown, 7, 0, "", false},
		{"a fraction", chatPath, askChat, writes(200, nil, `{"usage":{"prompt_tokens":12,"completion_tokens":5.5}}`), 12, unknown, 0, "", false},
		{"a figure beyond everything", chatPath, askChat, writes(200, nil, `{"usage":{"prompt_tokens":1e300,"completion_tokens":9223372036854775808}}`), unknown, unknown, 0, "", false},
		{"a text for a figure", responsesPath, askResponses, writes(200, nil, `{"usage":{"input_tokens":"15","output_tokens":6}}`), unknown, 6, 0, "", false},
		{"a bad figure of a cache", messagesPath, askMessages, writes(200, nil, `{"type":"message","usage":{"input_tokens":10,"cache_read_input_tokens":-1,"output_tokens":7}}`), unknown, 7, 0, "", false},
		{"no JSON", messagesPath, askMessages, writes(200, nil, `{"type":"message",`), unknown, unknown, 503, "unavailable", false},
		{"cut in the middle", messagesPath, askMessages, cuts(nil, messageBody[:40]), unknown, unknown, 503, "unavailable", false},

		{"stream of messages", messagesPath, askStream, writes(200, stream, messageStart, messageText, messageDelta, messageStop), 15, 9, 0, "message_stop", false},
		{"without its last event", messagesPath, askStream, writes(200, stream, messageStart, messageText, messageDelta), 15, 9, 0, "message_delta", false},
		{"cut after the text", messagesPath, askStream, cuts(stream, messageStart, messageText), 15, unknown, 0, "hi", true},
		{"cut within an event", messagesPath, askStream, cuts(stream, messageStart, messageText, messageDelta[:50]), 15, unknown, 0, "hi", true},
		{"ended within an event", messagesPath, askStream, writes(200, stream, messageStart, messageDelta[:50]), 15, unknown, 0, "message_start", true},
		{"an error in the stream", messagesPath, askStream, writes(200, stream, messageStart, messageText, messageError), 15, unknown, 0, "overloaded_error", false},
		{"an event that is no JSON", messagesPath, askStream, writes(200, stream, messageStart, "data: {{{\n\n", messageDelta, messageStop), 15, 9, 0, "{{{", false},
		{"an empty stream", messagesPath, askStream, writes(200, stream), unknown, unknown, 0, "", false},
		{"lines that end as on Windows", messagesPath, askStream, writes(200, stream, strings.ReplaceAll(messageStart+messageDelta+messageStop, "\n", "\r\n")), 15, 9, 0, "message_stop", false},
		{"an answer in one piece to a stream", messagesPath, askStream, writes(200, nil, messageBody), 60, 7, 0, `"text":"hi"`, false},

		{"stream of chat", chatPath, askChatFlow, writes(200, stream, chatText, chatFinish, chatUsage, chatDone), 11, 4, 0, "[DONE]", false},
		{"stream of chat without usage", chatPath, askChatFlow, writes(200, stream, chatText, chatFinish, chatDone), unknown, unknown, 0, "[DONE]", false},
		{"usage in every event", chatPath, askChatFlow, writes(200, stream, chatEach, chatFinish, chatUsage, chatDone), 11, 4, 0, "hi", false},
		{"usage in every event, cut", chatPath, askChatFlow, cuts(stream, chatEach), 11, unknown, 0, "hi", true},
		{"stream of responses", responsesPath, `{"model":"m","input":"x","stream":true}`, writes(200, stream, responseText, responseDone), 15, 6, 0, "response.completed", false},
		{"stream of responses, cut", responsesPath, `{"model":"m","input":"x","stream":true}`, cuts(stream, responseText), unknown, unknown, 0, "hi", true},

		{"400", messagesPath, askMessages, writes(400, nil, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}`), 0, 0, 400, "prompt is too long", false},
		{"429", chatPath, askChat, writes(429, map[string]string{"Retry-After": "7"}, `{"error":{"type":"tokens","code":"rate_limit_exceeded","message":"slow down"}}`), 0, 0, 429, "rate_limit_exceeded", false},
		{"500", messagesPath, askMessages, writes(500, nil, `oops`), 0, 0, 500, "answered 500", false},
		{"529", messagesPath, askStream, writes(529, nil, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), 0, 0, 529, "overloaded_error", false},
		{"502: nobody knows", messagesPath, askMessages, writes(502, nil, `<html>`), unknown, unknown, 502, "answered 502", false},
		{"another address", messagesPath, askMessages, writes(307, map[string]string{"Location": "http://127.0.0.1:1/"}), 0, 0, 503, "unavailable", false},
		{"an unknown encoding", messagesPath, askMessages, writes(200, map[string]string{"Content-Encoding": "br"}, "xx"), unknown, unknown, 503, "unavailable", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, test.provider)
			a := r.post(test.path, test.ask)
			if got, want := r.charged(), (gateway.ModelUse{Input: test.in, Output: test.out}); got != want {
				t.Errorf("charged %+v, want %+v", got, want)
			}
			if want := max(test.status, 200); test.status != 0 && a.status != want || test.status == 0 && a.status != 200 {
				t.Errorf("the agent gets %d: %s", a.status, a.body)
			}
			if !strings.Contains(a.body, test.gets) {
				t.Errorf("the agent gets %q, want %q in it", a.body, test.gets)
			}
			if (a.err != nil) != test.cut {
				t.Errorf("reading the answer: %v", a.err)
			}
		})
	}
}

func TestAnAnswerThatIsZippedIsRead(t *testing.T) { // X4e
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(messageStart + messageText + messageDelta + messageStop))
	z.Close()
	r := newRig(t, writes(200, map[string]string{"Content-Type": "text/event-stream; charset=utf-8", "Content-Encoding": "gzip"}, b.String()))
	a := r.post(messagesPath, askStream)
	if got := r.charged(); got != (gateway.ModelUse{Input: 15, Output: 9}) || !strings.Contains(a.body, "message_stop") || a.header.Get("Content-Encoding") != "" {
		t.Errorf("%+v, %v", got, a)
	}
}

func TestACallThatNeverLeftCostsNothing(t *testing.T) { // X4e
	r := newRig(t, writes(200, nil, messageBody))
	r.door.Client = failing{}
	if a := r.post(messagesPath, askMessages); a.status != 503 || strings.Contains(a.body, "dial") {
		t.Errorf("%+v", a)
	}
	if got := r.charged(); got != (gateway.ModelUse{}) {
		t.Errorf("charged %+v", got)
	}
}

type failing struct{}

func (failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNothing }

func TestACallThatLeftAndGotNoAnswerIsChargedWhole(t *testing.T) { // B1
	r := newRig(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if a := r.post(messagesPath, askMessages); a.status != 503 {
		t.Errorf("%+v", a)
	}
	if got := r.charged(); got != (gateway.ModelUse{Input: unknown, Output: unknown}) {
		t.Errorf("charged %+v", got)
	}
}

func TestAnAgentThatHangsUpEndsTheCallAtTheProvider(t *testing.T) { // X4g, B1
	gone := make(chan struct{})
	r := newRig(t, func(w http.ResponseWriter, q *http.Request) {
		writes(200, stream, messageStart, messageText)(w, q)
		<-q.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(t.Context())
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.at+messagesPath, strings.NewReader(askStream))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-Api-Key", r.token)
	res, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	first := make([]byte, 10)
	if _, err := res.Body.Read(first); err != nil { // events come while the provider still writes
		t.Fatal(err)
	}
	cancel()
	<-gone
	if got := r.charged(); got != (gateway.ModelUse{Input: 15, Output: unknown}) {
		t.Errorf("charged %+v", got)
	}
}

// The turn that charges comes before the event that ends the call.
func TestAnAgentHearsOfTheEndAfterItIsWrittenDown(t *testing.T) { // X4e
	for _, test := range []struct{ name, path, ask, end string }{
		{"messages", messagesPath, askStream, messageStart + messageText + messageDelta + messageStop},
		{"chat", chatPath, askChatFlow, chatText + chatFinish + chatUsage + chatDone},
		{"responses", responsesPath, `{"model":"m","input":"x","stream":true}`, responseText + responseDone},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, writes(200, stream, test.end))
			held := &held{books: r.books, at: make(chan struct{}), on: make(chan struct{})}
			r.door.Gateway = held
			got := make(chan string, 1)
			go func() { got <- r.post(test.path, test.ask).body }()
			<-held.at
			select {
			case body := <-got:
				t.Errorf("the answer was over before its charge: %s", body)
			default:
			}
			close(held.on)
			if body := <-got; !strings.Contains(body, "hi") {
				t.Errorf("%q", body)
			}
		})
	}
}

// held is a Budget whose end waits.
type held struct {
	*books
	at, on chan struct{}
}

func (h *held) EndModelCall(ctx context.Context, l gateway.ModelLease, u gateway.ModelUse) error {
	close(h.at)
	<-h.on
	return h.books.EndModelCall(ctx, l, u)
}

func TestUsageThatNobodyAskedForIsKeptBack(t *testing.T) { // X4e
	for _, test := range []struct {
		ask  string
		gets bool
	}{
		{askChatFlow, false},
		{`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[]}`, true},
		{`{"model":"m","stream":true,"stream_options":{"include_usage":false},"messages":[]}`, false},
	} {
		r := newRig(t, writes(200, stream, chatText, chatFinish, chatUsage, chatDone))
		a := r.post(chatPath, test.ask)
		if got := strings.Contains(a.body, "prompt_tokens"); got != test.gets {
			t.Errorf("%s: %s", test.ask, a.body)
		}
		if _, body := r.sent(); !strings.Contains(body, `"include_usage":true`) {
			t.Errorf("the provider was sent %s", body)
		}
	}
}
