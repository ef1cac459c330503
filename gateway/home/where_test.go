package home

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWhatIsWrongInAPolicyHasLineAndColumn has one row for each kind of mistake.
func TestWhatIsWrongInAPolicyHasLineAndColumn(t *testing.T) {
	asks := "people: {me: owner}\nask:\n  contract: {who: [me]}\n  effect: {who: [me]}\n  budget: {who: [me]}\n  delegation: {who: [me]}\n  delivery: {who: [me]}\n"
	for what, c := range map[string]struct{ text, want string }{
		"an unknown key":         {"version: 1\nincomming: []\n", "[2:1] unknown field"},
		"a key twice":            {"version: 1\nversion: 1\n", "[2:1] mapping key"},
		"an anchor":              {"version: &a 1\n", "[1:10] no anchors"},
		"no YAML":                {"version: [\n", "[1:10] sequence"},
		"a person of no kind":    {"version: 1\npeople: {me: root}\n", "[2:14] a person is"},
		"a length without unit":  {"version: 1\nask:\n  contract: {who: [me], wait: 1w}\n", "[3:31] a length of time"},
		"a contact for a list":   {"version: 1\nincoming:\n  - {name: a, from: ben, then: ask}\n", "[3:21] a list of contacts"},
		"half a token":           {"version: 1\nincoming:\n  - name: x\n    at_most: {input_tokens: 1.5}\n", "[4:29] an amount"},
		"too long a wait":        {"version: 1\npeople: {me: owner}\nask:\n  contract: {who: [me], wait: 8d}\n", ":4:31 /ask/contract/wait"},
		"a rule without a name":  {"version: 1\n" + asks + "incoming:\n  - from: anyone\n    then: ask\n", ":10:9 /incoming/0/name"},
		"a rule that says yes":   {"version: 1\n" + asks + "incoming:\n  - {name: a, from: anyone, then: allow}\n", ":10:35 /incoming/0/then"},
		"a section that is gone": {"version: 1\npeople: {me: owner}\n", ":1:1 /ask/contract/who"},
	} {
		path := filepath.Join(t.TempDir(), "policy.yaml")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadPolicy(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}
