package llmdoor_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"sealbridge/gateway/llmdoor"
	"sealbridge/spec"
)

var (
	inBrackets = regexp.MustCompile(`\([^)]*\)`)
	quoted     = regexp.MustCompile("`([^`]+)`")
)

// names are what stands in backticks.
func names(s string) (out []string) {
	for _, m := range quoted.FindAllStringSubmatch(s, -1) {
		out = append(out, m[1])
	}
	return out
}

// The lists of models.md and those of the door are one.
func TestTheLawListsWhatTheDoorLetsThrough(t *testing.T) { // X4c, X4g
	text, ok := spec.File("models.md")
	if !ok {
		t.Fatal("no models.md")
	}
	members, errors := map[string][]string{}, map[string][3]string{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) == 5 && strings.Contains(cells[2], "POST /v1/") {
			_, path, _ := strings.Cut(strings.Trim(cells[2], " `"), " ")
			list := names(inBrackets.ReplaceAllString(strings.SplitN(cells[3], ";", 2)[0], ""))
			slices.Sort(list)
			members[path] = list
		}
		if len(cells) == 6 && strings.Contains(cells[3], "_error") || len(cells) == 6 && strings.Contains(cells[3], "request_too_large") {
			for _, word := range names(cells[1]) {
				errors[word] = [3]string{strings.TrimSpace(cells[2]), strings.Trim(cells[3], " `"), strings.Trim(cells[4], " `")}
			}
		}
	}
	for path, list := range llmdoor.Members() {
		if !slices.Equal(list, members[path]) {
			t.Errorf("%s: the door takes\n%q\nmodels.md lists\n%q", path, list, members[path])
		}
		delete(members, path)
	}
	if len(members) > 0 {
		t.Errorf("models.md lists %v, which the door does not know", members)
	}
	said := llmdoor.Answers()
	said["internal"] = [3]string{"500", "api_error", "server_error"}
	for word, a := range said {
		if errors[word] != a {
			t.Errorf("%s leaves as %q, models.md says %q", word, a, errors[word])
		}
		delete(errors, word)
	}
	if len(errors) > 0 {
		t.Errorf("models.md has the words %v, which never leave", errors)
	}
	for _, h := range llmdoor.Passed() {
		if !strings.Contains(text, "`"+strings.ToLower(h)+"`") {
			t.Errorf("models.md does not name the header %s", h)
		}
	}
}
