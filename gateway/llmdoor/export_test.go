package llmdoor

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
)

// Rewritten reads a request and writes it anew.
func Rewritten(b []byte) ([]byte, error) {
	o, err := readTree(b)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	writeTree(&out, o)
	return out.Bytes(), nil
}

// Members are the members of a request that each endpoint takes.
func Members() map[string][]string {
	out := map[string][]string{}
	for _, e := range endpoints {
		out[e.path] = slices.Sorted(maps.Keys(e.members))
	}
	return out
}

// Answers are the words that leave, with their status and types.
func Answers() map[string][3]string {
	out := map[string][3]string{}
	for r, a := range answers {
		out[string(r)] = [3]string{strconv.Itoa(a.status), a.anthropic, a.openAI}
	}
	return out
}

// Passed are the headers of an answer that reach an agent.
func Passed() []string { return append(slices.Clone(passed), "Content-Type") }
