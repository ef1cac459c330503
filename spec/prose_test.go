package spec

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the module's folder, seen from this package.
const root = ".."

func TestErrorsAndReasonsAreOneListInOneOrder(t *testing.T) {
	var written []Reason
	for _, row := range reasonRows() {
		written = append(written, Reason(row[0]))
		for i, cell := range row {
			if cell == "" {
				t.Errorf("%s: cell %d of its row is empty", row[0], i+1)
			}
		}
	}
	if !slices.Equal(written, Reasons()) {
		t.Errorf("errors.md has\n%v\nReasons() is\n%v", written, Reasons())
	}
	for _, r := range Reasons() {
		title, text, ok := Explain(string(r))
		if !ok || title != string(r) || !strings.Contains(text, "\nWhat to do: ") {
			t.Errorf("Explain(%q) = %q, %q, %v", r, title, text, ok)
		}
	}
}

func TestFilesAreTheEmbeddedProse(t *testing.T) {
	entries, err := prose.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	want := slices.Sorted(slices.Values(Files()))
	if !slices.Equal(have, want) {
		t.Errorf("embedded are %v, Files() lists %v", have, want)
	}
	if text, ok := File("nothing.md"); ok || text != "" {
		t.Errorf("File of no file = %q, %v", text, ok)
	}
}

func TestExplainQuotesTheRule(t *testing.T) {
	for _, tt := range []struct{ word, title, begins string }{
		{"H5", "H5 (lifecycle.md)", "The same event twice"},
		{"h5", "H5 (lifecycle.md)", "The same event twice"},
		{"V3a", "V3a (audit.md)", "Release"},
		{"R3b", "R3b (relay.md)", "A mailbox takes"},
		{"S", "S (signing.md)", "A signed document"},
		{"L1", "L1 (lifecycle.md, audit.md)", "The same events"},
	} {
		title, text, ok := Explain(tt.word)
		if !ok || title != tt.title || !strings.HasPrefix(text, tt.begins) || strings.Contains(text, "**") {
			t.Errorf("Explain(%q) = %q, %q, %v", tt.word, title, text, ok)
		}
	}
	for _, word := range []string{"", " ", "H", "H0", "H99", "h1x", "bad digest", "#", "é1"} {
		if title, text, ok := Explain(word); ok {
			t.Errorf("Explain(%q) = %q, %q", word, title, text)
		}
	}
}

// TestEveryRuleStandsOnce: one number is one rule, but for the two lists of L.
func TestEveryRuleStandsOnce(t *testing.T) {
	where := map[string][]string{}
	for _, f := range Files() {
		for _, r := range rulesIn(f) {
			where[r] = append(where[r], f)
		}
	}
	for r, files := range where {
		if len(files) > 1 && (r[0] != 'L' || !slices.Equal(files, []string{"lifecycle.md", "audit.md"})) {
			t.Errorf("%s stands in %v", r, files)
		}
	}
	if len(where) < 90 {
		t.Errorf("only %d rules were found", len(where))
	}
}

// cited matches a rule's number standing for itself: H1, S3, V3a.
var cited = regexp.MustCompile(`(?:^|[\s("/,–‖])([ADISTMHGBCPRKXVELJ][1-9][0-9]?[a-z]?)(?:$|[\s)":;,.–]|\.)`)

// noRules are texts of that form that are something else.
var noRules = map[string]string{
	"B64": "an encoding in the shape of an envelope",
}

// TestEveryRuleThatCodeCitesIsInTheProse reads comments and strings of every Go file of the module.
func TestEveryRuleThatCodeCitesIsInTheProse(t *testing.T) {
	found := 0
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		switch {
		case e.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "spec"):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return nil // it went away while we looked
		}
		for rule, pos := range citedIn(path, src) {
			found++
			if _, _, ok := Explain(rule); !ok && noRules[rule] == "" {
				t.Errorf("%s cites %s, which no file of spec explains", pos, rule)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 200 {
		t.Errorf("only %d citations were found", found)
	}
}

// citedIn lists the rules that a file cites, each with its first place.
func citedIn(path string, src []byte) map[string]token.Position {
	fset := token.NewFileSet()
	f := fset.AddFile(path, -1, len(src))
	var s scanner.Scanner
	s.Init(f, src, func(token.Position, string) {}, scanner.ScanComments)
	out := map[string]token.Position{}
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return out
		}
		if tok != token.COMMENT && tok != token.STRING || strings.Contains(lit, "<svg") || strings.Contains(lit, "<path") {
			continue
		}
		for rest := lit; ; {
			m := cited.FindStringSubmatchIndex(rest)
			if m == nil {
				break
			}
			rule := rest[m[2]:m[3]]
			if _, ok := out[rule]; !ok {
				out[rule] = fset.Position(pos)
			}
			rest = rest[m[3]:]
		}
	}
}

// TestTheProseHasEveryMetricOfTheRelay: names are a contract with an operator's alerts.
func TestTheProseHasEveryMetricOfTheRelay(t *testing.T) {
	src, err := os.ReadFile(filepath.Join(root, "relay", "server", "ops.go"))
	if err != nil {
		t.Fatal(err)
	}
	text, _ := File("relay.md")
	names := regexp.MustCompile(`(?:name|gauge)\("([a-z_]+)"|Subsystem: "relay", Name: "([a-z_]+)"`).FindAllSubmatch(src, -1)
	if len(names) < 15 {
		t.Fatalf("only %d metrics were found", len(names))
	}
	for _, n := range names {
		if name := "sealbridge_relay_" + string(n[1]) + string(n[2]); !strings.Contains(text, "`"+name+"`") {
			t.Errorf("relay.md does not name %s", name)
		}
	}
}
