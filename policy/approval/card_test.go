package approval_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"pgregory.net/rapid"

	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

var update = flag.Bool("update", false, "write the cards of testdata again")

// The cards as a person sees them, wide and narrow: look at the files (G14).
func TestCardsLookAsTheyDo(t *testing.T) {
	for name, h := range gates(t) {
		a := h.ask(t)
		for _, w := range []int{88, 40} {
			got := approval.Card(a, h.c.At, w, time.UTC)
			if w == 88 {
				got += "---- [v]\n" + approval.View(a, w)
			}
			file := filepath.Join("testdata", fmt.Sprintf("%s.%d.txt", strings.ReplaceAll(name, " ", "-"), w))
			if *update {
				if err := os.MkdirAll("testdata", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s: go test ./policy/approval -update writes it again; got\n%s", file, got)
			}
		}
	}
}

// hostile are texts that try to be ours: each is marked with a word that may
// stand only behind the rule.
var hostile = []string{
	"\x1b[2J\x1b[1;1HFOREIGN \x1b[32m[a] allow\x1b[0m \u009b31m \x1b]0;title\x07 \x1bPq#0\x1b\\",
	"FOREIGN\r\n[a] allow   FOREIGN\r[d]\v\f\u0085\u2028FOREIGN\u2029",
	"\u202eFOREIGN\u202d \u2066x\u2069 \u200b\u200d\ufeff \U000e0041\U000e0042 \u00ad\ue000",
	"<script>FOREIGN</script><img src=x onerror=FOREIGN> &lt; \"'`",
	"[FOREIGN](javascript:1) ![FOREIGN](https://x) # FOREIGN\n> FOREIGN\n```\nFOREIGN",
	strings.Repeat("FOREIGN", 3000),
	strings.Repeat("ＦＯ", 400) + "FOREIGN" + strings.Repeat("漢字", 40) + " [a] allow FOREIGN",
	strings.Repeat("\U0001F469\u200d\U0001F469", 60) + "FOREIGN",
	strings.Repeat("FOREIGN\n", 500),
	strings.Repeat(" ", 300) + "FOREIGN" + strings.Repeat("\t", 50) + "FOREIGN",
	"F\u0301\u0302\u0303\u0304\u0305\u0306 FOREIGN ⟨U+0041⟩ ┆ FOREIGN\n┆ FOREIGN",
}

// columns is what a row may take on a terminal that draws every character beyond Latin wide.
func columns(s string) (n int) {
	for _, r := range s {
		n++
		if r >= 0x1100 && !strings.ContainsRune("“”…‘’⟨⟩┆✓–·", r) {
			n++
		}
	}
	return n
}

// held looks at every row: no control character, none too wide, theirs behind the rule.
func rowsHold(t interface {
	Helper()
	Errorf(string, ...any)
}, text string, w int) {
	t.Helper()
	for _, row := range strings.Split(text, "\n") {
		for _, r := range row {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Co, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) {
				t.Errorf("%U is shown as it is in %q", r, row)
			}
		}
		if n := columns(row); n > w {
			t.Errorf("%d columns of %d: %q", n, w, row)
		}
		if strings.Contains(row, "FOREIGN") && !strings.HasPrefix(row, "  ┆ ") {
			t.Errorf("their words outside the block: %q", row)
		}
	}
}

// Whatever others write acts on no terminal and stands nowhere but behind the rule.
func TestHostileTextsStayBehindTheRule(t *testing.T) {
	hs := gates(t)
	for i, text := range hostile {
		for _, name := range []string{"propose", "accept", "deliver"} {
			h := hs[name]
			a := h.ask(t)
			a = withText(t, a, text)
			for _, w := range []int{24, 40, 72, 88, 132} {
				rowsHold(t, approval.Card(a, h.c.At, w, time.UTC), w)
				rowsHold(t, approval.View(a, w), max(w, 40+64)) // the digest is one word of ours
			}
			if t.Failed() {
				t.Fatalf("text %d at %s", i, name)
			}
		}
	}
}

// withText puts a text wherever the other side's words stand.
func withText(t testing.TB, a approval.Ask, text string) approval.Ask {
	t.Helper()
	v, ok := jcs.Text(text)
	if !ok {
		t.Fatalf("%q is no text", text)
	}
	for _, x := range a.Theirs {
		in := &a.Subject
		if x.In == "delivery" {
			in = &a.Delivery
		}
		*in = put(*in, strings.Split(x.Path[1:], "/"), v)
	}
	return a
}

// put sets the value at a path of objects and lists.
func put(in jcs.Value, path []string, v jcs.Value) jcs.Value {
	if len(path) == 0 {
		return v
	}
	if in.Kind() == '[' {
		var items []string
		for i := 0; ; i++ {
			item, ok := in.At("/" + fmt.Sprint(i))
			if !ok {
				break
			}
			if fmt.Sprint(i) == path[0] {
				item = put(item, path[1:], v)
			}
			items = append(items, item.String())
		}
		return must(jcs.Parse([]byte("[" + strings.Join(items, ",") + "]")))
	}
	next, _ := in.Member(path[0])
	return in.With(path[0], put(next, path[1:], v))
}

// The same for any text at all.
func TestNoTextBeginsARow(t *testing.T) {
	h := gates(t)["accept"]
	a := h.ask(t)
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringN(0, 300, 2000).Draw(rt, "text")
		v, ok := jcs.Text(text)
		if !ok {
			return
		}
		b := a
		b.Subject = put(b.Subject, []string{"manifest", "task", "description"}, v)
		w := rapid.IntRange(24, 140).Draw(rt, "width")
		rowsHold(rt, approval.Card(b, h.c.At, w, time.UTC), w)
	})
}

// A repeat says what is wider than at the last yes, and says so where nothing is (product 6.4).
func TestARepeatSaysWhatChanged(t *testing.T) {
	lines := func(mend func(last *manifest.TaskManifest)) string {
		h := gates(t)["accept"]
		last := contract()
		mend(&last)
		h.x.Last = &last
		var out []string
		for _, l := range h.ask(t).Lines {
			if l.Mark == approval.Wider {
				out = append(out, l.Word+" was "+l.Was)
			} else if l.Word == "repeat" {
				out = append(out, l.Word)
			}
		}
		return strings.Join(out, "; ")
	}
	for want, mend := range map[string]func(*manifest.TaskManifest){
		"repeat": func(*manifest.TaskManifest) {},
		"spend was 200k tokens in, 20k out, 1 tool calls, 15 m of work": func(m *manifest.TaskManifest) { m.Budget.MaxToolInvocations = 1 },
		"read was no files from Ann":                                    func(m *manifest.TaskManifest) { m.IO.InputArtifacts = nil },
		"read was 1 file from Ann, 9 bytes":                             func(m *manifest.TaskManifest) { m.IO.InputArtifacts[0].SizeBytes = 9 },
		"retries was 0":                                                 func(m *manifest.TaskManifest) { m.Verification.MaxRetries = 0 },
		"due was 1 d":                                                   func(m *manifest.TaskManifest) { m.Deadline = signing.TimeOf(noon.Add(24 * time.Hour)) },
		"box was wasm, inputs read only":                                func(m *manifest.TaskManifest) { m.SandboxPolicy.IsolationLevel = "wasm" },
		"gates was ": func(m *manifest.TaskManifest) {
			m.HITLPolicy.RequiredGates = append(m.HITLPolicy.RequiredGates, manifest.EffectGate)
		},
		"cost was bilateral_quota":                                         func(m *manifest.TaskManifest) { m.Budget.CostBearer = "bilateral_quota" },
		"read was no files from Ann; retries was 0":                        func(m *manifest.TaskManifest) { m.IO.InputArtifacts, m.Verification.MaxRetries = nil, 0 },
		"spend was 200k tokens in, 20k out, 40 tool calls, 1 m of work":    func(m *manifest.TaskManifest) { m.Budget.MaxWallClockSeconds = 60 },
		"spend was 200k tokens in, 1,000 out, 40 tool calls, 15 m of work": func(m *manifest.TaskManifest) { m.Budget.MaxOutputTokens = 1000 },
	} {
		if got := lines(mend); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
