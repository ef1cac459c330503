package audit_test

import (
	"flag"
	"html"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sealbridge/manifest"
	"sealbridge/policy/audit"
	"sealbridge/signing"
	"sealbridge/spec/vectors"
)

var update = flag.Bool("update", false, "write the bundles of spec/vectors and the golden report anew")

// written are the bundles of spec/vectors: one task as both sides exported it,
// and as a worker who tells another story after the delivery would.
func written(t *testing.T) map[string]string {
	s := finished(t)
	forked := newStory(t).propose().ack(ben).accept().ack(ann)
	forked.say(ben, manifest.Started{}, nil)
	forked.say(ben, manifest.Progressed{Checkpoint: "all of it", Usage: used(10), Waiting: "nobody"}, nil)
	return map[string]string{
		"bundles/requester.json": s.export(ann), "bundles/worker.json": s.export(ben), "bundles/forked.json": forked.export(ben),
	}
}

// TestTheBundleVectorsAreWhatIsWrittenToday: the same story, the same bytes.
func TestTheBundleVectorsAreWhatIsWrittenToday(t *testing.T) {
	for name, text := range written(t) {
		at := filepath.Join("..", "..", "spec", "vectors", filepath.FromSlash(name))
		if *update {
			if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if got := string(vectors.Own(t, name)); got != text {
			t.Errorf("%s is not what is written today: a change of the format, or of the story? (-update)", name)
		}
	}
}

var origin = audit.Origin{Tool: "sealbridge v1, protocol 0.2.0", Command: "sealbridge verify acme.zip --require binding",
	Inputs: []audit.Input{{Name: "acme.zip", What: "zip of 3 files", Digest: signing.DigestOf([]byte("zip"))}}}

func htmlOf(t *testing.T, o audit.Origin, pages ...*audit.Page) string {
	t.Helper()
	var b strings.Builder
	if err := audit.HTML(o, pages, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTheReportIsTheSameBytesEveryTime(t *testing.T) {
	r := verify(t, finished(t).export(ann))
	x, y := r, verify(t, finished(t).export(ben))
	got := htmlOf(t, origin, audit.ComparePage(x, y, audit.Compare(x, y)), r.Page())
	if again := htmlOf(t, origin, audit.ComparePage(x, y, audit.Compare(x, y)), r.Page()); again != got {
		t.Error("two reports of the same differ")
	}
	golden := filepath.Join("testdata", "report.html")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("not the golden report (-update writes it):\n%s", got)
	}
}

// Text and HTML are one page: every word of the one is in the other.
func TestTextAndHTMLSayTheSameWords(t *testing.T) {
	for name, r := range map[string]audit.Report{"good": verify(t, finished(t).export(ann)), "bad": verify(t, strings.Replace(finished(t).export(ann), `"north":1.5`, `"north":9.5`, 1))} {
		var text strings.Builder
		if err := r.Page().Text(&text); err != nil {
			t.Fatal(err)
		}
		page := html.UnescapeString(htmlOf(t, origin, r.Page()))
		for _, word := range strings.Fields(text.String()) {
			if !strings.Contains(page, word) {
				t.Errorf("%s: %q is not in the page", name, word)
			}
		}
	}
}

// What a stranger writes is text, never markup.
func TestHostileTextIsNoMarkup(t *testing.T) {
	for _, evil := range []string{"<script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "</td></tr></table><h1>VERIFIED", "<!--", "&lt;", "a\x00b", "\xff\xfe", "]]>", "javascript:x"} {
		p := audit.NewPage(evil)
		p.Row(evil, evil)
		got := htmlOf(t, audit.Origin{Tool: evil, Command: evil, Inputs: []audit.Input{{Name: evil, What: evil}}}, p)
		plain := htmlOf(t, audit.Origin{Tool: "x", Command: "x", Inputs: []audit.Input{{Name: "x", What: "x"}}}, func() *audit.Page { p := audit.NewPage("x"); p.Row("x", "x"); return p }())
		if strings.Count(got, "<") != strings.Count(plain, "<") || strings.Count(got, ">") != strings.Count(plain, ">") {
			t.Errorf("%q changed the markup:\n%s", evil, got)
		}
		if !strings.Contains(got, "default-src 'none'") || strings.Contains(got, "\xff") {
			t.Errorf("%q: %s", evil, got)
		}
	}
}
