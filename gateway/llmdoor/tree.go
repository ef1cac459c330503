package llmdoor

import (
	"bytes"
	"encoding/json"
	"io"
	"unicode/utf8"

	"sealbridge/spec"
)

// A request is read into a tree of nil, bool, json.Number, string, []any and
// *object, checked there, and written anew: no other reader can find in what we
// send something that we did not see (X4c).
type object struct {
	names []string // in their order: a model sees it
	of    map[string]any
}

func (o *object) get(name string) (any, bool) { v, ok := o.of[name]; return v, ok }

func (o *object) set(name string, v any) {
	if _, there := o.of[name]; !there {
		o.names = append(o.names, name)
	}
	o.of[name] = v
}

// number is a whole number above 0 of a member; absent is 0.
func (o *object) number(name string) (int64, error) {
	v, there := o.of[name]
	if !there || v == nil {
		return 0, nil
	}
	n, ok := v.(json.Number)
	i, err := n.Int64()
	if !ok || err != nil || i < 1 || i > maxFigure {
		return 0, spec.Refuse(spec.Malformed, "/"+name, "a whole number above 0")
	}
	return i, nil
}

// readTree reads one JSON object.
func readTree(b []byte) (*object, error) {
	if !utf8.Valid(b) || !json.Valid(b) {
		return nil, spec.Refuse(spec.Malformed, "", "JSON")
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	v, err := readValue(d, 0)
	if err != nil {
		return nil, err
	}
	o, ok := v.(*object)
	if _, end := d.Token(); !ok || end != io.EOF {
		return nil, spec.Refuse(spec.Malformed, "", "one JSON object")
	}
	return o, nil
}

func readValue(d *json.Decoder, depth int) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, spec.Refuse(spec.Malformed, "", "JSON")
	}
	if depth > maxDepth {
		return nil, spec.Refuse(spec.TooLarge, "", "64 deep")
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return readObject(d, depth)
		}
		list := []any{}
		for d.More() {
			v, err := readValue(d, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	case json.Number:
		if len(t) > maxNumber {
			return nil, spec.Refuse(spec.Malformed, "", "a number of 32 characters")
		}
	}
	return t, nil
}

func readObject(d *json.Decoder, depth int) (any, error) {
	o := &object{of: map[string]any{}}
	for d.More() {
		t, err := d.Token()
		name, ok := t.(string)
		if err != nil || !ok {
			return nil, spec.Refuse(spec.Malformed, "", "JSON")
		}
		if _, twice := o.of[name]; twice {
			return nil, spec.Refuse(spec.Malformed, "", "a name once")
		}
		v, err := readValue(d, depth+1)
		if err != nil {
			return nil, err
		}
		o.set(name, v)
	}
	_, err := d.Token()
	return o, err
}

// writeTree writes what readTree read.
func writeTree(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case *object:
		b.WriteByte('{')
		for i, name := range v.names {
			if i > 0 {
				b.WriteByte(',')
			}
			writeText(b, name)
			b.WriteByte(':')
			writeTree(b, v.of[name])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, x := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeTree(b, x)
		}
		b.WriteByte(']')
	case string:
		writeText(b, v)
	case json.Number:
		b.WriteString(v.String())
	case bool:
		if v {
			b.WriteString("true")
		} else {
			b.WriteString("false")
		}
	default:
		b.WriteString("null")
	}
}

func writeText(b *bytes.Buffer, s string) {
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	e.Encode(s)             //nolint:errcheck // a string, into memory
	b.Truncate(b.Len() - 1) // the encoder ends the line
}
