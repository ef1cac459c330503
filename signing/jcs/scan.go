package jcs

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads one JSON text once. The canonical pass allocates nothing and
// answers yes or no; the tolerant pass says which word and where.
type scanner struct {
	src    string
	i      int
	lim    Limits
	depth  int
	values int
	names  []string // of the objects that are open, the innermost last
	trail  []string // steps to the place of an error, innermost first
}

func (s *scanner) canonical() bool { return s.canonValue() && s.i == len(s.src) }

func (s *scanner) canonValue() bool {
	if s.i >= len(s.src) {
		return false
	}
	if s.values++; s.values > s.lim.Values {
		return false
	}
	switch c := s.src[s.i]; c {
	case '{':
		return s.canonObject()
	case '[':
		return s.canonArray()
	case '"':
		_, _, ok := s.canonString()
		return ok
	case 't':
		return s.word("true")
	case 'f':
		return s.word("false")
	case 'n':
		return s.word("null")
	}
	start := s.i
	s.skipNumber()
	return s.i > start && s.i-start <= s.lim.Number && canonNumber(s.src[start:s.i])
}

func (s *scanner) word(w string) bool {
	if !strings.HasPrefix(s.src[s.i:], w) {
		return false
	}
	s.i += len(w)
	return true
}

func (s *scanner) byte(c byte) bool {
	if s.i < len(s.src) && s.src[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scanner) canonObject() bool {
	if s.depth++; s.depth > s.lim.Depth {
		return false
	}
	s.i++
	if s.byte('}') {
		s.depth--
		return true
	}
	last, lastPlain, first := "", true, true
	for {
		name, isPlain, ok := s.canonString()
		if !ok {
			return false
		}
		rises := first || last < name
		if !isPlain || !lastPlain {
			rises = first || nameLess(last, name)
		}
		if !rises || !s.byte(':') || !s.canonValue() {
			return false
		}
		last, lastPlain, first = name, isPlain, false
		if s.byte('}') {
			s.depth--
			return true
		}
		if !s.byte(',') {
			return false
		}
	}
}

func (s *scanner) canonArray() bool {
	if s.depth++; s.depth > s.lim.Depth {
		return false
	}
	s.i++
	if s.byte(']') {
		s.depth--
		return true
	}
	for {
		if !s.canonValue() {
			return false
		}
		if s.byte(']') {
			s.depth--
			return true
		}
		if !s.byte(',') {
			return false
		}
	}
}

// isOrdinary are the bytes that stand for themselves in a string and need no look.
var isOrdinary = func() (table [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

// ordinary passes over ordinary bytes.
func (s *scanner) ordinary() {
	i := s.i
	for i < len(s.src) && isOrdinary[s.src[i]] {
		i++
	}
	s.i = i
}

// canonString reads a string in RFC 8785 spelling and returns what stands
// between the quotes, and whether that is plain.
func (s *scanner) canonString() (raw string, isPlain, ok bool) {
	if !s.byte('"') {
		return "", false, false
	}
	start := s.i
	for isPlain = true; ; isPlain = false {
		s.ordinary()
		if s.i >= len(s.src) {
			return "", false, false
		}
		switch c := s.src[s.i]; {
		case c == '"':
			s.i++
			return s.src[start : s.i-1], isPlain, true
		case c == '\\':
			n := canonEscape(s.src[s.i:])
			if n == 0 {
				return "", false, false
			}
			s.i += n
		case c < 0x20:
			return "", false, false
		default:
			r, n := utf8.DecodeRuneInString(s.src[s.i:])
			if r == utf8.RuneError && n == 1 || noncharacter(r) {
				return "", false, false
			}
			s.i += n
		}
	}
}

// canonEscape is the length of a canonical escape at the start of s, or 0.
func canonEscape(s string) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(s) < 6 || s[2] != '0' || s[3] != '0' || s[4] > '1' || s[4] < '0' {
			return 0
		}
		c := s[5]
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return 0
		}
		if s[4] == '0' && (c == '8' || c == '9' || c == 'a' || c == 'c' || c == 'd') {
			return 0 // \b \t \n \f \r have a shorter spelling
		}
		return 6
	}
	return 0
}

func noncharacter(r rune) bool { return r >= 0xfdd0 && r <= 0xfdef || r&0xfffe == 0xfffe }

// nameLess orders names by UTF-16 code units (RFC 8785, 3.2.3).
func nameLess(a, b string) bool {
	if plain(a) && plain(b) {
		return a < b
	}
	x, y := utf16.Encode([]rune(unescape(a))), utf16.Encode([]rune(unescape(b)))
	for i := 0; i < len(x) && i < len(y); i++ {
		if x[i] != y[i] {
			return x[i] < y[i]
		}
	}
	return len(x) < len(y)
}

func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf || s[i] == '\\' {
			return false
		}
	}
	return true
}

func (s *scanner) skipNumber() {
	for s.i < len(s.src) {
		switch c := s.src[s.i]; {
		case c >= '0' && c <= '9', c == '-', c == '+', c == '.', c == 'e', c == 'E':
			s.i++
		default:
			return
		}
	}
}

const maxSafe = 1<<53 - 1

// canonNumber says whether tok is a number in ES6 spelling that D1 lets pass.
func canonNumber(tok string) bool {
	digits := strings.TrimPrefix(tok, "-")
	if digits == "" {
		return false
	}
	if isSmall, canonical := small(tok, digits); isSmall {
		return canonical
	}
	f, why := number(tok)
	return why == "" && tok == formatNumber(f)
}

// small says whether tok is a whole number of so few digits that it lies below
// 2^53, and whether it is spelt as RFC 8785 wants it.
func small(tok, digits string) (ok, canonical bool) {
	if len(digits) == 0 || len(digits) > 15 {
		return false, false
	}
	for i := 0; i < len(digits); i++ {
		if digits[i] < '0' || digits[i] > '9' {
			return false, false
		}
	}
	return true, tok == "0" || digits[0] != '0'
}

// number reads a token of RFC 8259 grammar; why is the rule it breaks.
func number(tok string) (f float64, why string) {
	if !numberGrammar(tok) {
		return 0, "not a number"
	}
	f, err := strconv.ParseFloat(tok, 64)
	switch {
	case err != nil || math.IsInf(f, 0):
		return 0, "number beyond a double"
	case f == 0 && strings.ContainsAny(mantissa(tok), "123456789"):
		return 0, "number too small for a double"
	case math.Abs(f) > maxSafe && f == math.Trunc(f):
		return 0, "whole number beyond ±9007199254740991: use a string"
	}
	return f, ""
}

func mantissa(tok string) string {
	if i := strings.IndexAny(tok, "eE"); i >= 0 {
		return tok[:i]
	}
	return tok
}

func numberGrammar(s string) bool {
	i := 0
	digits := func() bool {
		start := i
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
		}
		return i > start
	}
	if i < len(s) && s[i] == '-' {
		i++
	}
	if i < len(s) && s[i] == '0' {
		i++
	} else if !digits() {
		return false
	}
	if i < len(s) && s[i] == '.' {
		if i++; !digits() {
			return false
		}
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		if i++; i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		if !digits() {
			return false
		}
	}
	return i == len(s)
}

// formatNumber is Number::toString of ECMA-262 (RFC 8785, 3.2.2.3).
func formatNumber(f float64) string {
	if f == 0 {
		return "0"
	}
	if a := math.Abs(f); a >= 1e-6 && a < 1e21 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	if n := len(s); n >= 4 && s[n-2] == '0' && (s[n-3] == '-' || s[n-3] == '+') { // e-07 is written e-7
		s = s[:n-2] + s[n-1:]
	}
	return s
}

// unescape turns the inside of a valid JSON string into text. Lone surrogates do not get here.
func unescape(raw string) string {
	if strings.IndexByte(raw, '\\') < 0 {
		return raw
	}
	var b strings.Builder
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			b.WriteByte(raw[i])
			continue
		}
		i++
		switch raw[i] {
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'u':
			r := hex4(raw[i+1 : i+5])
			i += 4
			if utf16.IsSurrogate(r) {
				r = utf16.DecodeRune(r, hex4(raw[i+3:i+7]))
				i += 6
			}
			b.WriteRune(r)
		default:
			b.WriteByte(raw[i])
		}
	}
	return b.String()
}

func hex4(s string) rune {
	n, err := strconv.ParseUint(s, 16, 32)
	if err != nil {
		return -1
	}
	return rune(n)
}
