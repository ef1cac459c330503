package mcptools_test

import (
	"encoding/json"
	"strings"
	"testing"

	"sealbridge/gateway/gatewaytest"
)

func TestAnAgentSaysWhichHostsTheOtherMayReach(t *testing.T) { // X1, M4
	h := newHouse(t, gatewaytest.Counter)
	c := h.over("socket", "claude-token")
	ask := func(hosts ...string) object {
		return object{"to": "Ben", "goal": "Read a page", "dry_run": true, "sandbox": object{"claimed_ok": true, "hosts": hosts}}
	}
	b, err := json.Marshal(c.must("delegate_task", ask("api.example.org"))["contract"])
	if text := string(b); err != nil || !strings.Contains(text, `"allowedHosts":["api.example.org"]`) || !strings.Contains(text, `"networkAccess":"allowlist_only"`) {
		t.Errorf("contract %s, %v", text, err)
	}
	for _, host := range []string{"*.example.org", "api.example.org:443", "127.1", "API.example.org"} {
		if _, word := c.call("delegate_task", ask(host)); !strings.HasPrefix(word, "malformed") {
			t.Errorf("%s: %q, want malformed", host, word)
		}
	}
}
