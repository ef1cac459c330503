package jcs

import (
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"
)

// skip returns the index behind the canonical value that starts at i.
func skip(b string, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		for depth := 0; ; {
			switch b[i] {
			case '"':
				i = skipString(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' {
		i++
	}
	return i
}

func skipString(b string, i int) int {
	quote := i
	for i++; ; {
		if quote < i { // behind the last escape: each byte is looked at once for each of the two searches
			quote = i + strings.IndexByte(b[i:], '"')
		}
		escape := strings.IndexByte(b[i:quote], '\\')
		if escape < 0 {
			return quote + 1
		}
		i += escape + 2
	}
}

// span is one member of an object: b[start:end] is its value.
type span struct{ nameStart, start, end int }

// spans walks the members of the object v, names as they stand between the quotes.
func (v Value) spans(yield func(raw string, s span) bool) {
	if v.Kind() != '{' {
		return
	}
	for i := 1; v.b[i] != '}'; {
		if v.b[i] == ',' {
			i++
		}
		at := i
		i = skipString(v.b, i)
		raw := v.b[at+1 : i-1]
		end := skip(v.b, i+1)
		if !yield(raw, span{at, i + 1, end}) {
			return
		}
		i = end
	}
}

// Members walks an object in canonical order; anything else has none.
func (v Value) Members() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		v.spans(func(raw string, s span) bool { return yield(unescape(raw), Value{v.b[s.start:s.end]}) })
	}
}

// Items walks a list; anything else has none.
func (v Value) Items() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		if v.Kind() != '[' {
			return
		}
		for i := 1; v.b[i] != ']'; {
			if v.b[i] == ',' {
				i++
			}
			end := skip(v.b, i)
			if !yield(Value{v.b[i:end]}) {
				return
			}
			i = end
		}
	}
}

// Member returns the value of a member of an object.
func (v Value) Member(name string) (out Value, ok bool) {
	for have, m := range v.Members() {
		if have == name {
			return m, true
		}
	}
	return Value{}, false
}

// Without cuts a member out of an object; nothing is encoded anew.
func (v Value) Without(member string) Value {
	if start, end := v.cut(member); end > 0 {
		return Value{v.b[:start] + v.b[end:]}
	}
	return v
}

// BytesWithout is the bytes of Without, copied once: what is digested.
func (v Value) BytesWithout(member string) []byte {
	start, end := v.cut(member)
	return append(append(make([]byte, 0, len(v.b)), v.b[:start]...), v.b[end:]...)
}

// cut is what goes with a member, its comma too; 0, 0 if there is none.
func (v Value) cut(member string) (start, end int) {
	v.spans(func(raw string, s span) bool {
		if unescape(raw) != member {
			return true
		}
		start, end = s.nameStart, s.end
		if v.b[end] == ',' {
			end++
		} else if v.b[start-1] == ',' {
			start--
		}
		return false
	})
	return start, end
}

// With puts a member into an object, in its canonical place, instead of one of
// that name. What is no object, and the zero m, leave nothing to put: v without
// the member comes back.
func (v Value) With(member string, m Value) Value {
	v = v.Without(member)
	if m.IsZero() || v.Kind() != '{' {
		return v
	}
	entry := quote(member) + ":" + m.b
	at, empty := len(v.b)-1, v.b == "{}"
	first := true
	v.spans(func(raw string, s span) bool {
		if nameLess(entry[1:len(quote(member))-1], raw) {
			at = s.nameStart
			return false
		}
		first = false
		return true
	})
	switch {
	case empty:
		return Value{"{" + entry + "}"}
	case at == len(v.b)-1 && !first:
		return Value{v.b[:at] + "," + entry + "}"}
	}
	return Value{v.b[:at] + entry + "," + v.b[at:]}
}

// At follows a JSON pointer (RFC 6901).
func (v Value) At(pointer string) (Value, bool) {
	if pointer == "" {
		return v, !v.IsZero()
	}
	if pointer[0] != '/' || v.IsZero() {
		return Value{}, false
	}
	for _, tok := range strings.Split(pointer[1:], "/") {
		tok = fromPointer.Replace(tok)
		next, ok := v.Member(tok)
		if v.Kind() == '[' {
			n, err := strconv.Atoi(tok)
			i := 0
			for item := range v.Items() {
				if ok = err == nil && i == n && tok == strconv.Itoa(n); ok { // 01 is no index
					next = item
					break
				}
				i++
			}
		}
		if !ok {
			return Value{}, false
		}
		v = next
	}
	return v, true
}

// Text is the text of a JSON string.
func (v Value) Text() (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	return unescape(v.b[1 : len(v.b)-1]), true
}

// Int is the value of a whole number.
func (v Value) Int() (int64, bool) {
	n, err := strconv.ParseInt(v.b, 10, 64)
	return n, err == nil && v.Kind() == '0'
}

// String returns the JSON string that holds text; text that is no valid UTF-8 has none.
func Text(text string) (Value, bool) {
	v := Value{quote(text)}
	s := scanner{src: v.b, lim: storedLimits}
	return v, utf8.ValidString(text) && s.canonical()
}

// List is the JSON list of vs; a zero Value stands as null, as in other JSON.
func List(vs ...Value) Value {
	parts := make([]string, len(vs))
	for i, v := range vs {
		if parts[i] = v.b; v.IsZero() {
			parts[i] = "null"
		}
	}
	return Value{"[" + strings.Join(parts, ",") + "]"}
}

// EmptyObject is {}.
var EmptyObject = Value{"{}"}

const hexDigits = "0123456789abcdef"

// quote writes a string in RFC 8785 spelling.
func quote(s string) string { return string(appendQuoted(make([]byte, 0, len(s)+2), s)) }

func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c >= 0x20:
			b = append(b, c)
		case strings.IndexByte("\b\t\n\f\r", c) >= 0:
			b = append(b, '\\', "btnfr"[strings.IndexByte("\b\t\n\f\r", c)])
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(b, '"')
}
