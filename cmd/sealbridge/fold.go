package main

import "strings"

// fold breaks the lines of a text at spaces, so that none is wider than width
// characters where a space allows it.
func fold(text string, width int) string {
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		var row string
		for word := range strings.FieldsSeq(line) {
			switch {
			case row == "":
				row = word
			case len([]rune(row))+1+len([]rune(word)) > width:
				out = append(out, row)
				row = word
			default:
				row += " " + word
			}
		}
		out = append(out, row)
	}
	return strings.Join(out, "\n")
}
