package jcs

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"sealbridge/spec"
)

// tolerant reads a text laid out in any way and says the first rule that it
// breaks, and where (D2). It is linear in the input.
func (s *scanner) tolerant() error {
	if strings.HasPrefix(s.src, "\ufeff") {
		return malformed("", "byte order mark")
	}
	s.space()
	if err := s.value(); err != nil {
		return s.placed(err)
	}
	s.space()
	if s.i != len(s.src) {
		return malformed("", "bytes after the value")
	}
	return nil
}

// under notes one step of the way to an error, from the inside out.
func (s *scanner) under(step string, err error) error {
	if s.trail == nil {
		s.trail = make([]string, 0, s.lim.Depth)
	}
	s.trail = append(s.trail, step)
	return err
}

// placed puts the way before the path of err, once: a copy of the error at each
// level would cost more than the reading.
func (s *scanner) placed(err error) error {
	var b strings.Builder
	for _, step := range slices.Backward(s.trail) {
		b.WriteByte('/')
		b.WriteString(step)
	}
	return spec.At(b.String(), err)
}

func (s *scanner) space() {
	for s.i < len(s.src) {
		switch s.src[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
		default:
			return
		}
	}
}

func (s *scanner) value() error {
	if s.i >= len(s.src) {
		return malformed("", "ends too early")
	}
	if s.values++; s.values > s.lim.Values {
		return tooLarge("", "%d values", s.lim.Values)
	}
	switch s.src[s.i] {
	case '{':
		return s.nested((*scanner).object)
	case '[':
		return s.nested((*scanner).array)
	case '"':
		_, err := s.str()
		return err
	case 't', 'f', 'n':
		if s.word("true") || s.word("false") || s.word("null") {
			return nil
		}
		return malformed("", "not JSON")
	}
	return s.num()
}

func (s *scanner) nested(read func(*scanner) error) error {
	if s.depth++; s.depth > s.lim.Depth {
		return tooLarge("", "depth %d", s.lim.Depth)
	}
	s.i++
	s.space()
	err := read(s)
	s.depth--
	return err
}

func (s *scanner) object() error {
	if s.byte('}') {
		return nil
	}
	from := len(s.names)
	defer func() { s.names = s.names[:from] }()
	var fallen nameSet
	for {
		if s.i >= len(s.src) || s.src[s.i] != '"' {
			return malformed("", "expected a member name")
		}
		raw, err := s.str()
		if err != nil {
			return err
		}
		name := unescape(raw)
		if !s.isNew(name, from, &fallen) {
			return malformed("/"+pointer(name), "duplicate member name")
		}
		if s.space(); !s.byte(':') {
			return malformed("/"+pointer(name), "expected a colon")
		}
		s.space()
		if err := s.value(); err != nil {
			return s.under(pointer(name), err)
		}
		s.space()
		if s.byte('}') {
			return nil
		}
		if !s.byte(',') {
			return malformed("/"+pointer(name), "expected a comma or the end of the object")
		}
		s.space()
	}
}

func (s *scanner) array() error {
	if s.byte(']') {
		return nil
	}
	for n := 0; ; n++ {
		if err := s.value(); err != nil {
			return s.under(strconv.Itoa(n), err)
		}
		s.space()
		if s.byte(']') {
			return nil
		}
		if !s.byte(',') {
			return malformed("/"+strconv.Itoa(n), "expected a comma or the end of the list")
		}
		s.space()
	}
}

func (s *scanner) num() error {
	start := s.i
	s.skipNumber()
	tok := s.src[start:s.i]
	if len(tok) > s.lim.Number {
		return tooLarge("", "number of %d characters", s.lim.Number)
	}
	if _, plain := small(tok, strings.TrimPrefix(tok, "-")); plain {
		return nil
	}
	if _, why := number(tok); why != "" {
		return malformed("", why)
	}
	return nil
}

// str reads a string of RFC 8259 and RFC 7493 and returns what stands between the quotes.
func (s *scanner) str() (string, error) {
	s.i++
	start := s.i
	for {
		s.ordinary()
		if s.i >= len(s.src) {
			return "", malformed("", "string without an end")
		}
		switch c := s.src[s.i]; {
		case c == '"':
			s.i++
			return s.src[start : s.i-1], nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return "", err
			}
		case c < 0x20:
			return "", malformed("", "control character in a string")
		default:
			r, n := utf8.DecodeRuneInString(s.src[s.i:])
			if r == utf8.RuneError && n == 1 {
				return "", malformed("", "invalid UTF-8")
			}
			if noncharacter(r) {
				return "", malformed("", "noncharacter")
			}
			s.i += n
		}
	}
}

func (s *scanner) escape() error {
	rest := s.src[s.i:]
	if len(rest) < 2 {
		return malformed("", "string without an end")
	}
	if rest[1] != 'u' {
		if strings.IndexByte(`"\/bfnrt`, rest[1]) < 0 {
			return malformed("", "unknown escape")
		}
		s.i += 2
		return nil
	}
	r, ok := unit(rest)
	if !ok {
		return malformed("", "unknown escape")
	}
	s.i += 6
	if utf16.IsSurrogate(r) {
		low, ok := unit(rest[6:])
		if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
			return malformed("", "lone surrogate")
		}
		s.i += 6
	}
	if noncharacter(r) {
		return malformed("", "noncharacter")
	}
	return nil
}

// unit reads \uXXXX at the start of s.
func unit(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for i := 2; i < 6; i++ {
		c := s[i]
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return 0, false
		}
	}
	return hex4(s[2:6]), true
}

// pointer escapes a name for a JSON pointer (RFC 6901) and bounds it, because it came from input.
func pointer(name string) string {
	if len(name) > 64 {
		name = strings.ToValidUTF8(name[:64], "") + "…"
	}
	if strings.IndexByte(name, '~') < 0 && strings.IndexByte(name, '/') < 0 {
		return name
	}
	return toPointer.Replace(name)
}

// Making a replacer costs more than reading the member that it is made for.
var (
	toPointer   = strings.NewReplacer("~", "~0", "/", "~1")
	fromPointer = strings.NewReplacer("~1", "/", "~0", "~")
)
