package runner

import (
	"strings"

	"sealbridge/spec"
)

// maxWords of a check's command: target has at most 512 characters.
const maxWords = 64

// Split is the one rule by which a check's command becomes argv (M6): words of
// letters, digits and % + , - . / : = @ _ that are separated by single spaces.
// There is no shell, no quoting, no variable and no pattern, so there is
// nothing that two gateways could read in two ways; what would need them goes
// into a program of the verifying owner's.
func Split(line string) ([]string, error) {
	words := strings.Split(line, " ")
	if len(words) > maxWords {
		return nil, spec.Refuse(spec.TooLarge, "", "M6: 64 words")
	}
	for _, w := range words {
		if w == "" || strings.IndexFunc(w, notInWord) >= 0 {
			return nil, spec.Refuse(spec.Malformed, "", "M6: plain words, single spaces")
		}
	}
	if words[0][0] == '-' || strings.Contains(words[0], "=") {
		return nil, spec.Refuse(spec.Malformed, "", "M6: the first word is a program")
	}
	return words, nil
}

func notInWord(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("%+,-./:=@_", r))
}
