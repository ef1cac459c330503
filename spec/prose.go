package spec

import (
	"embed"
	"regexp"
	"strings"
)

// The prose is the law; it ships in the binary, so that `explain` can quote it
// and an auditor needs nothing else.
//
//go:embed *.md
var prose embed.FS

// Files lists the files of the prose in the order in which they are read.
func Files() []string {
	return []string{"signing.md", "manifest.md", "lifecycle.md", "policy.md", "boxes.md", "capabilities.md", "delegation.md", "groups.md", "agents.md", "models.md", "relay.md", "audit.md", "bridge.md", "errors.md"}
}

// File is the text of one of [Files].
func File(name string) (text string, ok bool) {
	b, err := prose.ReadFile(name)
	return string(b), err == nil
}

// Explain says what a word of [Reasons] means (errors.md), or quotes the rule
// with a number such as H1, R3a or S. A rule is a bullet that begins with its
// number in bold and goes on over indented lines. L1 to L8 number two lists,
// the invariants of a history and the limits of claim; both are quoted.
func Explain(word string) (title, text string, ok bool) {
	word = strings.TrimSpace(word)
	if row, ok := reasonRow(word); ok {
		return word, row, true
	}
	if word == "" {
		return "", "", false
	}
	word = strings.ToUpper(word[:1]) + word[1:]
	var places, texts []string
	for _, name := range Files() {
		if text, ok := ruleIn(name, word); ok {
			places, texts = append(places, name), append(texts, text)
		}
	}
	if len(texts) == 0 {
		return "", "", false
	}
	return word + " (" + strings.Join(places, ", ") + ")", strings.Join(texts, "\n\n"), true
}

// reasonRow turns a row of the table of errors.md into sentences.
func reasonRow(word string) (string, bool) {
	for _, r := range reasonRows() {
		if r[0] == word {
			return r[1] + "\nSaid by: " + r[2] + "\nWhat to do: " + r[3], true
		}
	}
	return "", false
}

// reasonRows are the rows of errors.md: word, meaning, who says it, what to do.
func reasonRows() (rows [][4]string) {
	text, _ := File("errors.md")
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 4 || !strings.HasPrefix(line, "| `") {
			continue
		}
		var row [4]string
		for i, c := range cells {
			row[i] = strings.TrimSpace(c)
		}
		row[0] = strings.Trim(row[0], "`")
		rows = append(rows, row)
	}
	return rows
}

// ruleStart is the beginning of a rule; the number is the first group.
var ruleStart = regexp.MustCompile(`^- \*\*([A-Z](?:[1-9][0-9]?[a-z]?)?)\*\* `)

// ruleIn returns a rule's text from one file, on one line.
func ruleIn(file, rule string) (string, bool) {
	text, _ := File(file)
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := ruleStart.FindStringSubmatch(line); m != nil {
			if out != nil {
				break
			}
			if m[1] == rule {
				out = []string{line[len(m[0]):]}
			}
			continue
		}
		if out == nil {
			continue
		}
		if !strings.HasPrefix(line, "  ") {
			break
		}
		out = append(out, strings.TrimSpace(line))
	}
	return strings.ReplaceAll(strings.Join(out, " "), "**", ""), out != nil
}

// rulesIn lists the rule numbers that a file defines, in its order.
func rulesIn(file string) (rules []string) {
	text, _ := File(file)
	for line := range strings.Lines(text) {
		if m := ruleStart.FindStringSubmatch(line); m != nil {
			rules = append(rules, m[1])
		}
	}
	return rules
}
