package server_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"testing"

	"sealbridge/relay/relaytest"
	"sealbridge/relay/server"
	"sealbridge/spec"
)

// The table of spec/relay.md and the registry name the same figures, of the
// same kinds, with the same labels.
func TestTheMetricsAreThoseOfTheSpec(t *testing.T) {
	law, _ := spec.File("relay.md")
	want := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(sealbridge_relay_\\w+)` \\| (\\w+)(?:, `(\\w+)`)? \\|").FindAllStringSubmatch(law, -1) {
		want[m[1]] = fmt.Sprint(m[2], " ", m[3])
	}
	s := start(t, nil)
	a := dial(t, s, ann)
	relaytest.Ready(t, a, ann)
	put(t, a, ann, "taken")
	if _, err := a.DropGet(t.Context(), "none"); err == nil {
		t.Fatal("not refused")
	}
	w := httptest.NewRecorder()
	server.Metrics(s).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body := w.Body.String()
	got := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) (\w+)$`).FindAllStringSubmatch(body, -1) {
		label := ""
		if l := regexp.MustCompile(`(?m)^` + m[1] + `(?:_bucket)?\{(\w+)="`).FindStringSubmatch(body); l != nil {
			label = l[1]
			if label == "le" {
				label = regexp.MustCompile(`(?m)^` + m[1] + `_bucket\{le="[^"]*",(\w+)=`).FindStringSubmatch(body)[1]
			}
		}
		got[m[1]] = fmt.Sprint(m[2], " ", label)
	}
	if len(want) < 10 {
		t.Fatalf("spec/relay.md names %d figures", len(want))
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] != want[name] {
			t.Errorf("%s is %q, the spec says %q", name, got[name], want[name])
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s is not in the spec", name)
	}
}
