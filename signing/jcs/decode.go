package jcs

import (
	"encoding"
	"errors"
	"reflect"
	"strconv"

	"sealbridge/spec"
)

// Unmarshaler is a type that reads its own canonical value (closed sums).
type Unmarshaler interface{ DecodeCanonical(Value) error }

// TextReader is a type that reads itself from a text which may be part of a
// long one: what keeps it, keeps a copy. It goes before encoding.TextUnmarshaler.
type TextReader interface{ ReadText(text string) error }

// Decode reads v into the struct that out points to: exact names, nothing
// missing, nothing unknown, every rule held. Errors are malformed, with the
// path from v.
func Decode(v Value, out any) error {
	if v.IsZero() {
		return malformed("", "missing")
	}
	return decode(v.b, reflect.ValueOf(out).Elem())
}

func at(path string, err error) error { return spec.At(path, err) }

func decode(b string, f reflect.Value) error { return decodeAs(b, f, readingOf(f.Type())) }

func decodeAs(b string, f reflect.Value, as reading) error {
	switch as {
	case asValue:
		*f.Addr().Interface().(*Value) = Value{b}
		return nil
	case asPointer:
		if b == "null" {
			f.SetZero()
			return nil
		}
		f.Set(reflect.New(f.Type().Elem()))
		return decode(b, f.Elem())
	case byItself:
		return f.Addr().Interface().(Unmarshaler).DecodeCanonical(Value{b})
	case asText, asTextCopy:
		if b[0] != '"' {
			return malformed("", "a string")
		}
		text := unescape(b[1 : len(b)-1])
		if as == asText {
			return refused(f.Addr().Interface().(TextReader).ReadText(text))
		}
		return refused(f.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text)))
	}
	return decodeKind(b, f)
}

// refused is the error of a type that reads its own text: malformed, if it has no word.
func refused(err error) error {
	var known *spec.Error
	if err != nil && !errors.As(err, &known) {
		return &spec.Error{Reason: spec.Malformed, Err: err}
	}
	return err
}

func decodeKind(b string, f reflect.Value) error {
	switch f.Kind() {
	case reflect.String:
		if b[0] != '"' {
			return malformed("", "a string")
		}
		f.SetString(unescape(b[1 : len(b)-1]))
	case reflect.Bool:
		if b != "true" && b != "false" {
			return malformed("", "true or false")
		}
		f.SetBool(b == "true")
	case reflect.Int64, reflect.Int:
		n, err := strconv.ParseInt(b, 10, 64)
		if err != nil {
			return malformed("", "a whole number")
		}
		f.SetInt(n)
	case reflect.Uint, reflect.Uint64, reflect.Uint32:
		n, err := strconv.ParseUint(b, 10, f.Type().Bits())
		if err != nil {
			return malformed("", "a whole number from 0")
		}
		f.SetUint(n)
	case reflect.Slice:
		return decodeSlice(b, f)
	case reflect.Map:
		return decodeMap(b, f)
	case reflect.Struct:
		return decodeStruct(b, f)
	default:
		panic("jcs: cannot decode into " + f.Type().String())
	}
	return nil
}

func decodeSlice(b string, f reflect.Value) error {
	if b[0] != '[' {
		return malformed("", "a list")
	}
	n := 0
	for range (Value{b}).Items() {
		n++
	}
	out, as := reflect.MakeSlice(f.Type(), n, n), readingOf(f.Type().Elem())
	i := 0
	for item := range (Value{b}).Items() {
		if item.b == "null" && f.Type().Elem() != valueType {
			return malformed("/"+strconv.Itoa(i), "null")
		}
		if err := decodeAs(item.b, out.Index(i), as); err != nil {
			return at("/"+strconv.Itoa(i), err)
		}
		i++
	}
	f.Set(out)
	return nil
}

func decodeMap(b string, f reflect.Value) error {
	if b[0] != '{' {
		return malformed("", "an object")
	}
	if f.Type().Key().Kind() != reflect.String {
		panic("jcs: cannot decode into " + f.Type().String())
	}
	out := reflect.MakeMap(f.Type())
	for name, m := range (Value{b}).Members() {
		item := reflect.New(f.Type().Elem()).Elem()
		if err := decode(m.b, item); err != nil {
			return at("/"+pointer(name), err)
		}
		out.SetMapIndex(reflect.ValueOf(name).Convert(f.Type().Key()), item)
	}
	f.Set(out)
	return nil
}

// decodeStruct walks the members and the plan side by side: both are in canonical order.
func decodeStruct(b string, f reflect.Value) (err error) {
	if b[0] != '{' {
		return malformed("", "an object")
	}
	fields := planOf(f.Type()).fields
	next := 0
	absent := func(until string, all bool) error {
		for ; next < len(fields) && (all || nameLess(fields[next].name, until)); next++ {
			if !fields[next].optional {
				return malformed("/"+fields[next].name, "missing")
			}
		}
		return nil
	}
	Value{b}.spans(func(raw string, s span) bool {
		if err = absent(raw, false); err != nil {
			return false
		}
		if next == len(fields) || fields[next].name != raw {
			err = malformed("/"+pointer(unescape(raw)), "unknown member")
			return false
		}
		if err = decodeField(b[s.start:s.end], f, &fields[next]); err != nil {
			err = at("/"+fields[next].name, err)
			return false
		}
		next++
		return true
	})
	if err != nil {
		return err
	}
	return absent("", true)
}

func decodeField(b string, f reflect.Value, d *field) error {
	to := f.FieldByIndex(d.index)
	if b == "null" && to.Type() != valueType && (to.Kind() != reflect.Pointer || d.optional) {
		return malformed("", "null")
	}
	if err := decodeAs(b, to, d.as); err != nil {
		return err
	}
	if d.rule != nil {
		return d.rule.check(to)
	}
	return nil
}
