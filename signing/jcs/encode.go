package jcs

import (
	"encoding"
	"errors"
	"reflect"
	"sort"
	"strconv"
)

// Marshaler is a type that writes its own canonical value.
type Marshaler interface{ EncodeCanonical() (Value, error) }

// Encode writes a Go value in canonical form: the inverse of [Decode]. What
// Decode would refuse to read is an error here too.
func Encode(in any) (Value, error) {
	b, err := encode(nil, reflect.ValueOf(in))
	if err != nil {
		return Value{}, err
	}
	return ParseWithin(b, storedLimits)
}

func encode(b []byte, f reflect.Value) ([]byte, error) {
	if !f.IsValid() {
		return append(b, "null"...), nil
	}
	if f.Type() == valueType {
		v := f.Interface().(Value)
		if v.IsZero() {
			return nil, malformed("", "missing")
		}
		return append(b, v.b...), nil
	}
	if f.Kind() == reflect.Pointer || f.Kind() == reflect.Interface {
		if f.IsNil() {
			return append(b, "null"...), nil
		}
		return encode(b, f.Elem())
	}
	switch m := f.Interface().(type) {
	case Marshaler:
		v, err := m.EncodeCanonical()
		return append(b, v.b...), err
	case encoding.TextMarshaler:
		text, err := m.MarshalText()
		return appendQuoted(b, string(text)), err
	}
	return encodeKind(b, f)
}

func encodeKind(b []byte, f reflect.Value) ([]byte, error) {
	switch f.Kind() {
	case reflect.String:
		return appendQuoted(b, f.String()), nil
	case reflect.Bool:
		return strconv.AppendBool(b, f.Bool()), nil
	case reflect.Int, reflect.Int64:
		return strconv.AppendInt(b, f.Int(), 10), nil
	case reflect.Uint, reflect.Uint64, reflect.Uint32:
		return strconv.AppendUint(b, f.Uint(), 10), nil
	case reflect.Slice:
		return encodeSlice(b, f)
	case reflect.Map:
		return encodeMap(b, f)
	case reflect.Struct:
		return encodeStruct(b, f)
	}
	return nil, errors.New("jcs: cannot encode " + f.Type().String())
}

func encodeSlice(b []byte, f reflect.Value) (_ []byte, err error) {
	b = append(b, '[')
	for i := range f.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = encode(b, f.Index(i)); err != nil {
			return nil, at("/"+strconv.Itoa(i), err)
		}
	}
	return append(b, ']'), nil
}

func encodeMap(b []byte, f reflect.Value) (_ []byte, err error) {
	if f.Type().Key().Kind() != reflect.String {
		return nil, errors.New("jcs: cannot encode " + f.Type().String())
	}
	names := make([]string, 0, f.Len())
	for _, k := range f.MapKeys() {
		names = append(names, k.String())
	}
	sort.Slice(names, func(i, j int) bool { return nameLess(escaped(names[i]), escaped(names[j])) })
	b = append(b, '{')
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendQuoted(b, name), ':')
		if b, err = encode(b, f.MapIndex(reflect.ValueOf(name).Convert(f.Type().Key()))); err != nil {
			return nil, at("/"+pointer(name), err)
		}
	}
	return append(b, '}'), nil
}

func escaped(name string) string { q := quote(name); return q[1 : len(q)-1] }

func encodeStruct(b []byte, f reflect.Value) (_ []byte, err error) {
	b = append(b, '{')
	first := true
	for _, d := range planOf(f.Type()).fields {
		m := f.FieldByIndex(d.index)
		if d.optional && m.IsZero() {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(appendQuoted(b, d.name), ':')
		if b, err = encode(b, m); err != nil {
			return nil, at("/"+d.name, err)
		}
		if d.rule != nil {
			if err := d.rule.check(m); err != nil {
				return nil, at("/"+d.name, err)
			}
		}
	}
	return append(b, '}'), nil
}
