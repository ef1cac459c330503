package manifest_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sealbridge/manifest"
)

func TestAResourceHasOneSpelling(t *testing.T) { // C1, B008
	for _, good := range []string{"mcp://docs/a", "mcp://docs/*", "mcp://docs/a/*", "vault://acme/docs/v..2/notes.md", "a+b.c-1://x.y_z~0-/A.b_c~d-e", "mcp://docs/...", "mcp://docs/.git",
		"m://d/" + strings.Repeat("a", 506)} {
		if r, err := manifest.ParseResource(good); err != nil || r.String() != good {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "mcp", "mcp:", "mcp://", "mcp:///a", "mcp://docs", "mcp://docs/", "mcp://docs//", "mcp://docs//a", "mcp://docs/a/", "mcp://docs/./a", "mcp://docs/../a", "mcp://docs/a/..",
		"mcp://docs/a/.", `mcp://docs/a\b`, `mcp://docs/..\a`, "mcp://docs/%2e%2e", "mcp://docs/a%2fb", "mcp://docs/a?q", "mcp://docs/a#f", "mcp://docs/a b", "mcp://docs/a\n", "mcp://docs/a\x00",
		"MCP://docs/a", "mcp://Docs/a", "mcp://docs/ä", "mcp://dócs/a", "mcp://docs/**", "mcp://docs/a*", "mcp://docs/*a", "mcp://docs/*/a", "*://docs/a", "mcp://*/a", "*", "mcp://docs/*/", "1mcp://docs/a",
		"mcp://user@docs/a", "mcp://docs:80/a", "mcp://.docs/a", "mcp://docs/a,b", "mcp:docs/a", "mcp:/docs/a", "m://d/" + strings.Repeat("a", 507), " mcp://docs/a", "mcp://docs/ａ", "mcp://docs/a\u202e"} {
		if r, err := manifest.ParseResource(bad); err == nil || !r.IsZero() {
			t.Errorf("%q is a resource", bad)
		}
	}
}

func TestAStarIsOneOrMoreFurtherSegments(t *testing.T) { // C1, B008
	const docs = "vault://acme/docs/*"
	for _, tt := range []struct {
		outer, inner string
		want         bool
	}{
		{docs, "vault://acme/docs/a", true}, {docs, "vault://acme/docs/a/b", true}, {docs, "vault://acme/docs/a/*", true}, {docs, docs, true}, {docs, "vault://acme/docs/v..2/notes.md", true},
		{docs, "vault://acme/docs", false}, {docs, "vault://acme/docsx/a", false}, {docs, "vault://acme/doc/a", false}, {docs, "vault://acme/payroll/2030.csv", false}, {docs, "vault://acme/*", false},
		{docs, "vault://other/docs/a", false}, {docs, "mcp://acme/docs/a", false}, {docs, "vault://acme/DOCS/a", false},
		{"vault://acme/docs/a", "vault://acme/docs/a", true}, {"vault://acme/docs/a", "vault://acme/docs/a/b", false}, {"vault://acme/docs/a", "vault://acme/docs/a/*", false}, {"vault://acme/docs/a", "vault://acme/docs/A", false},
	} {
		if _, err := manifest.ParseResource(tt.inner); err != nil {
			continue // vault://acme/docs is none: it matches nothing
		}
		if got := must(manifest.ParseResource(tt.outer)).Covers(must(manifest.ParseResource(tt.inner))); got != tt.want {
			t.Errorf("%s covers %s: %v", tt.outer, tt.inner, got)
		}
	}
	if (manifest.Resource{}).Covers(manifest.Resource{}) {
		t.Error("nothing covers nothing")
	}
}

func drawResource(t *rapid.T, label string) manifest.Resource {
	segments := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab", "a.b", "..a"}), 0, 3).Draw(t, label)
	text := "mcp://d/" + strings.Join(append(segments, ""), "/")
	if len(segments) == 0 || rapid.Bool().Draw(t, label+" open") {
		return must(manifest.ParseResource(text + "*"))
	}
	return must(manifest.ParseResource(strings.TrimSuffix(text, "/")))
}

// Covering is an order, and what is covered gives no access that the cover does not.
func TestCoversIsAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawResource(t, "a"), drawResource(t, "b"), drawResource(t, "c")
		if !a.Covers(a) {
			t.Fatal(a, "does not cover itself")
		}
		if a.Covers(b) && b.Covers(c) && !a.Covers(c) {
			t.Fatal(a, b, c, "is not transitive")
		}
		if a.Covers(b) && b.Covers(a) && a != b {
			t.Fatal(a, b, "cover each other")
		}
	})
}

func FuzzParseResource(f *testing.F) {
	f.Add("mcp://docs/a/*")
	f.Add("mcp://docs/../a")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := manifest.ParseResource(text)
		if err != nil {
			if !r.IsZero() {
				t.Fatal("a resource and an error")
			}
			return
		}
		if r.String() != text {
			t.Fatal("another spelling")
		}
		for i, s := range strings.Split(text, "/") {
			if s == ".." || s == "." || s == "" && i != 1 || strings.ContainsAny(s, "%\\?#@ ") {
				t.Fatalf("%q has the segment %q", text, s)
			}
		}
	})
}
