package llmdoor

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"sealbridge/gateway"
	"sealbridge/spec"
)

// endpoint is one call of an API that is let through.
type endpoint struct {
	kind    kind
	path    string
	members members
	limit   string // the member that bounds the output
	free    bool   // it asks no model

	least   func(*object) (int64, error)               // tokens of output without which the provider refuses; nil: 1
	prepare func(*object, bool) (told bool, err error) // what is set whatever the agent says; told: the agent asked for the usage
	reader  func(told bool) reader
}

// request is one call, read and held against the list.
type request struct {
	endpoint
	tree   *object
	model  string
	told   bool
	output int64 // tokens that it asks for
	least  int64
	images int64 // in it
	inside int64 // bytes of them
}

// read reads a body and judges it (X4c).
func (e endpoint) read(r *http.Request) (q request, err error) {
	if c := r.Header.Get("Content-Encoding"); c != "" && c != "identity" {
		return q, spec.Refuse(spec.Malformed, "", "X4c: no content encoding")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	if err != nil {
		return q, spec.Refuse(spec.Malformed, "", "X4c: the request was cut")
	}
	if len(body) > maxRequest {
		return q, spec.Refuse(spec.TooLarge, "", "X4c: 8 MiB")
	}
	q = request{endpoint: e, least: 1}
	if q.tree, err = readTree(body); err != nil {
		return q, err
	}
	if err := e.members.shape(q.tree, ""); err != nil {
		return q, err
	}
	if q.model, _ = q.tree.of["model"].(string); q.model == "" {
		return q, spec.Refuse(spec.Malformed, "/model", "a model")
	}
	q.countImages()
	if e.free {
		return q, nil
	}
	return q, q.prepared()
}

// prepared reads what the call asks for and sets what is set whatever it says.
func (q *request) prepared() (err error) {
	if q.prepare != nil {
		if q.told, err = q.prepare(q.tree, q.streams()); err != nil {
			return err
		}
	}
	if _, old := q.tree.get("max_tokens"); old {
		q.limit = "max_tokens" // of chat completions, as older servers know it
	}
	if q.output, err = q.tree.number(q.limit); err != nil {
		return err
	}
	if q.output == 0 {
		q.output = defaultOutput
	}
	if q.endpoint.least != nil {
		if q.least, err = q.endpoint.least(q.tree); err != nil {
			return err
		}
	}
	q.least = min(q.least, q.output)
	return nil
}

func (q *request) streams() bool { s, _ := q.tree.of["stream"].(bool); return s }

// bound is more than the call can be of input (X4d).
func (q *request) bound() int64 {
	each := int64(imageAnthropic)
	if q.kind == openAI {
		each = imageOpenAI
	}
	return int64(len(q.bytes())) - q.inside + around + q.images*each
}

// limitTo sets what the provider may write at most.
func (q *request) limitTo(tokens int64) {
	if !q.free {
		q.tree.set(q.limit, json.Number(itoa(tokens)))
	}
}

func (q *request) bytes() []byte {
	var b bytes.Buffer
	writeTree(&b, q.tree)
	return b.Bytes()
}

// countImages finds the images of a request where an image may stand and nowhere
// else: what an agent writes into its own data in the form of one stays text.
func (q *request) countImages() {
	for _, name := range []string{"messages", "input"} {
		if top, there := q.tree.get(name); there {
			q.imagesIn(top)
		}
	}
}

func (q *request) imagesIn(v any) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			q.imagesIn(x)
		}
	case *object:
		data := ""
		switch v.of["type"] {
		case "image":
			source, _ := v.of["source"].(*object)
			if source != nil {
				data, _ = source.of["data"].(string)
			}
		case "image_url":
			image, _ := v.of["image_url"].(*object)
			if image != nil {
				data, _ = image.of["url"].(string)
			}
		case "input_image":
			data, _ = v.of["image_url"].(string)
		}
		if data != "" {
			q.images, q.inside = q.images+1, q.inside+int64(len(data))
			return
		}
		for _, name := range []string{"content", "output", "source"} {
			q.imagesIn(v.of[name])
		}
	}
}

// call is the same as the gateway is asked for it.
func (q *request) call(g Guest) gateway.ModelCall {
	return gateway.ModelCall{Run: g.Run, Kind: string(q.kind), Model: q.model, Input: q.bound(), Output: q.output, Least: q.least, Free: q.free, Hold: g.Hold}
}

// header is what a provider gets beside the body: nothing of the agent's but what is on the list.
func (q *request) header(r *http.Request, key string) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept-Encoding": {"identity"}, "User-Agent": {"sealbridge"}, "Accept": {"application/json"}}
	if q.streams() {
		h.Set("Accept", "text/event-stream")
	}
	if q.kind == anthropic {
		h.Set("Anthropic-Version", "2023-06-01")
		if b := allowedBetas(r.Header.Values("Anthropic-Beta")); b != "" {
			h.Set("Anthropic-Beta", b)
		}
		if key != "" {
			h.Set("X-Api-Key", key)
		}
	} else if key != "" {
		h.Set("Authorization", "Bearer "+key)
	}
	return h
}

// at is where an endpoint is at a provider; one of kind openai is given with its /v1, as its clients have it.
func (q *request) at(base string) string {
	base = strings.TrimSuffix(base, "/")
	if q.kind == openAI && strings.HasSuffix(base, "/v1") {
		base = strings.TrimSuffix(base, "/v1")
	}
	return base + q.path
}
