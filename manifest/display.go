package manifest

import (
	"crypto/hmac"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"math/big"
	"strings"
	"unicode"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
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

// Skeleton folds a name to what it looks like, for names that we give
// ourselves: case, and the letters of other scripts most often taken for Latin
// ones. It is a guard against slips, not against a typographer.
func Skeleton(name string) string {
	return strings.Map(func(r rune) rune {
		r = unicode.ToLower(r)
		if i := strings.IndexRune(lookalikes, r); i >= 0 {
			return []rune(latin)[len([]rune(lookalikes[:i]))]
		}
		if !visible(r) {
			return -1
		}
		return r
	}, strings.TrimSpace(name))
}

const (
	lookalikes = "аеорсухіјѕԁһԛԝαοιν01|"
	latin      = "aeopcyxijsdhqwaoivoll"
)

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

// inviteScheme stands before an invite's token, so that a person knows what it is.
const inviteScheme = "sealbridge-invite:"

// InviteToken is a signed invite as one line to send (K1).
func InviteToken(signed jcs.Value) (string, error) {
	token := inviteScheme + base64.RawURLEncoding.EncodeToString(signed.Bytes())
	if len(token) > maxInviteToken {
		return "", spec.Refuse(spec.TooLarge, "/relay/endpoint", fmt.Sprintf("K1: %d characters, 900 at most", len(token)))
	}
	return token, nil
}

// ParseInviteToken opens a token; white space that a chat put in is taken out.
func ParseInviteToken(token string) (*Invite, Signed, error) {
	token = strings.Join(strings.Fields(token), "")
	b64, ok := strings.CutPrefix(token, inviteScheme)
	if !ok || len(token) > maxInviteToken {
		return nil, Signed{}, spec.Refuse(spec.Malformed, "", "K1: "+inviteScheme+"… of at most 900 characters")
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(b64)
	if err != nil {
		return nil, Signed{}, spec.Refuse(spec.Malformed, "", "K1: the token is not whole")
	}
	s, err := Open(raw, nil)
	if err != nil {
		return nil, Signed{}, err
	}
	inv, ok := s.doc.(*Invite)
	if !ok {
		return nil, Signed{}, spec.Refuse(spec.UnknownType, "/type", "K1: an invite")
	}
	if err := within("/expiresAt", s.marks[0].At, inv.ExpiresAt, maxInviteTerm, "K1: 30 days at most"); err != nil {
		return nil, Signed{}, err
	}
	return inv, s, nil
}

// ContactProof is HMAC-SHA-256(secret, id and both owner DIDs): who redeems an invite had it (K1).
func ContactProof(secret string, id InviteID, inviter, redeemer signing.DID) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("sealbridge/0.2.0/contact-proof\x00" + id.String() + "\x00" + inviter.String() + "\x00" + redeemer.String()))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// ProofHolds compares in constant time.
func ProofHolds(secret string, id InviteID, inviter, redeemer signing.DID, proof string) bool {
	return hmac.Equal([]byte(proof), []byte(ContactProof(secret, id, inviter, redeemer)))
}
