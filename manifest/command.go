package manifest

import (
	"strings"

	"sealbridge/signing"
	"sealbridge/spec"
)

// CommandCheck is the kind of a check that is a program of the verifying owner's (M6).
const CommandCheck = "deterministic_command"

// maxWords of a check's command: target has at most 512 characters.
const maxWords = 64

// SplitCommand is the one rule by which a check's command becomes argv (M6): words of
// letters, digits and % + , - . / : = @ _ that are separated by single spaces.
// There is no shell, no quoting, no variable and no pattern, so there is
// nothing that two gateways could read in two ways; what would need them goes
// into a program of the verifying owner's.
func SplitCommand(line string) ([]string, error) {
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

// Expects is the exit code with which a command passes: 0 where the check names none.
func (c Check) Expects() int64 {
	if c.ExpectedExitCode == nil {
		return 0
	}
	return *c.ExpectedExitCode
}

// CheckRun is how a command ended that was run over a delivery (M6): the word of
// the gateway that ran it.
type CheckRun struct {
	Exit     int64          `json:"exit" rule:"num=-1..255"` // -1: it was ended
	TimedOut bool           `json:"timedOut"`
	Output   signing.Digest `json:"output"` // SHA-256 of the first bytes of stdout and of the last of stderr, as far as they were kept
	Millis   int64          `json:"millis" rule:"num=0..3600000"`
	Box      Isolation      `json:"box"` // that it ran in
}

// Passes says whether a run of the command satisfies its check. What was ended
// never does, whatever it exits with (B022).
func (r CheckRun) Passes(c Check) bool { return !r.TimedOut && r.Exit >= 0 && r.Exit == c.Expects() }
