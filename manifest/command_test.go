package manifest_test

import (
	"slices"
	"strings"
	"testing"

	"sealbridge/manifest"
)

func TestACommandIsSplitByOneRule(t *testing.T) { // M6
	for line, want := range map[string][]string{
		"check":                         {"check"},
		"/usr/bin/check --in out/a.csv": {"/usr/bin/check", "--in", "out/a.csv"},
		"python3 -m json.tool a=b":      {"python3", "-m", "json.tool", "a=b"},
		"":                              nil, " ": nil, " check": nil, "check ": nil, "check  a": nil, "check\ta": nil, "check\na": nil,
		"check; rm": nil, "check $HOME": nil, "check 'a'": nil, `check "a"`: nil, "check *": nil, "check > a": nil, "check a|b": nil,
		"check `a`": nil, `check \a`: nil, "check ~": nil, "A=b check": nil, "-x": nil, "chéck": nil, "check\x00": nil, "check \u202ea": nil,
		strings.Repeat("a ", 64) + "a": nil,
	} {
		got, err := manifest.SplitCommand(line)
		if (err == nil) != (want != nil) || !slices.Equal(got, want) {
			t.Errorf("SplitCommand(%q) = %q, %v, want %q", line, got, err, want)
		}
	}
}

func FuzzSplitCommand(f *testing.F) {
	f.Add("check --in a")
	f.Fuzz(func(t *testing.T, line string) {
		if words, err := manifest.SplitCommand(line); err == nil && strings.Join(words, " ") != line {
			t.Fatalf("SplitCommand(%q) joins to another line", line)
		}
	})
}
