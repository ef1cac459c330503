package manifest

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"math/big"
	"strings"
	"unicode"

	"sealbridge/signing"
)

// Display is text from others as a person may see it: on one line, at most max
// characters, with control, bidi, invisible, private-use and tag characters
// spelled out (M8).
func Display(s string, max int) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > max {
			b.WriteString("…")
			break
		}
		if visible(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "⟨U+%04X⟩", r)
		}
	}
	return b.String()
}

// DisplayLines is Display for text that may have line ends; each line stands alone.
func DisplayLines(s string, maxLines, maxWidth int) []string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	more := len(lines) > maxLines
	if more {
		lines = lines[:maxLines]
	}
	for i, l := range lines {
		lines[i] = Display(l, maxWidth)
	}
	if more {
		lines = append(lines, "…")
	}
	return lines
}

func visible(r rune) bool {
	if r == ' ' {
		return true
	}
	if r == '⟨' || r == '⟩' || r == '\u2800' { // our own brackets would forge a spelling; the blank Braille pattern is no letter
		return false
	}
	return unicode.IsGraphic(r) && !unicode.Is(unicode.Zs, r) && !unicode.Is(unicode.Cf, r) &&
		!unicode.Is(unicode.Co, r) && !unicode.Is(unicode.Variation_Selector, r) && !unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

// Skeleton folds a name to what it looks like, to tell apart the names that we
// give ourselves (M8). It knows case, width, the letters of Cyrillic and Greek
// that are drawn like Latin ones, a few digits, and rn for m. It does not know
// other scripts, accents or fonts: it guards against slips and the common
// tricks, not against a typographer.
func Skeleton(name string) string {
	folded := strings.Map(func(r rune) rune {
		if r >= '！' && r <= '～' { // full width
			r -= '！' - '!'
		}
		if !visible(r) || r == ' ' {
			return -1
		}
		r = unicode.ToLower(r)
		if l, ok := looksLike[r]; ok {
			return l
		}
		return r
	}, name)
	return strings.NewReplacer("rn", "m", "vv", "w").Replace(folded)
}

// looksLike maps lower-case letters whose small or capital form is drawn like a Latin one.
var looksLike = func() map[rune]rune {
	foreign := []rune("авеԁһіјкӏмнорԛѕтухѵԝү" + "αβεζηικμνορτυχ" + "01|!iı")
	latin := []rune("abedhijklmhopqstyxvwy" + "abezhikmnoptyx" + "ollll" + "l")
	m := make(map[rune]rune, len(foreign))
	for i, r := range foreign {
		l := latin[i]
		if l == 'i' {
			l = 'l'
		}
		m[r] = l
	}
	m['с'] = 'c'
	return m
}()

// Fingerprint is the short form of a DID: five groups of five digits of its SHA-256 (M8).
func Fingerprint(d signing.DID) string {
	sum := sha256.Sum256([]byte(d.String()))
	n := new(big.Int).SetBytes(sum[:])
	digits := fmt.Sprintf("%025s", new(big.Int).Mod(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(25), nil)))
	var groups []string
	for i := 0; i < 25; i += 5 {
		groups = append(groups, digits[i:i+5])
	}
	return strings.Join(groups, " ")
}

//go:embed words.txt
var wordList string

var words = strings.Fields(wordList)

// SixWords is what two people compare (K2): 66 bits of SHA-256 over both owner
// DIDs, in a fixed order, and the invite id.
func SixWords(a, b signing.DID, invite InviteID) string {
	if b.String() < a.String() {
		a, b = b, a
	}
	sum := sha256.Sum256([]byte("sealbridge/0.2.0/six-words\x00" + a.String() + "\x00" + b.String() + "\x00" + invite.String()))
	n := new(big.Int).SetBytes(sum[:])
	out := make([]string, 6)
	for i := range out {
		out[i] = words[new(big.Int).And(n, big.NewInt(2047)).Int64()]
		n.Rsh(n, 11)
	}
	return strings.Join(out, " ")
}
