package llmdoor

import (
	"encoding/json"
	"slices"
	"strconv"

	"sealbridge/spec"
)

// shape says what may stand at a place of a request; path is a JSON pointer to it.
type shape func(v any, path string) error

func refuse(path, limit string) error { return spec.Refuse(spec.NotPermitted, path, "X4c: "+limit) }

func wrong(path, want string) error { return spec.Refuse(spec.Malformed, path, want) }

// anything is data that the provider hands to the model or to the agent and acts on in no way.
func anything(any, string) error { return nil }

func text(v any, path string) error {
	if _, ok := v.(string); !ok {
		return wrong(path, "a text")
	}
	return nil
}

func number(v any, path string) error {
	if _, ok := v.(json.Number); !ok {
		return wrong(path, "a number")
	}
	return nil
}

func boolean(v any, path string) error {
	if _, ok := v.(bool); !ok {
		return wrong(path, "true or false")
	}
	return nil
}

// word is one of some texts.
func word(words ...string) shape {
	return func(v any, path string) error {
		s, ok := v.(string)
		if !ok {
			return wrong(path, "a text")
		}
		if !slices.Contains(words, s) {
			return refuse(path, "this value is not on the list")
		}
		return nil
	}
}

// only is one value.
func only(want any) shape {
	return func(v any, path string) error {
		if v != want {
			return refuse(path, "this value is not on the list")
		}
		return nil
	}
}

// or is null, or the shape.
func or(null any, s shape) shape {
	return func(v any, path string) error {
		if v == null {
			return nil
		}
		return s(v, path)
	}
}

func orNull(s shape) shape { return or(nil, s) }

// textOr is a text, or a list.
func textOr(s shape) shape {
	return func(v any, path string) error {
		if _, ok := v.(string); ok {
			return nil
		}
		return s(v, path)
	}
}

func list(s shape) shape {
	return func(v any, path string) error {
		all, ok := v.([]any)
		if !ok {
			return wrong(path, "a list")
		}
		for i, x := range all {
			if err := s(x, path+"/"+strconv.Itoa(i)); err != nil {
				return err
			}
		}
		return nil
	}
}

// members is an object that has nothing but these.
type members map[string]shape

func (m members) shape(v any, path string) error {
	o, ok := v.(*object)
	if !ok {
		return wrong(path, "an object")
	}
	for _, name := range o.names {
		s, listed := m[name]
		if !listed {
			return refuse(path+"/"+pointer(name), "not on the list of members")
		}
		if err := s(o.of[name], path+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

// byType is an object whose type says which members it has; without one it is of the type "".
type byType map[string]members

func (b byType) shape(v any, path string) error {
	o, ok := v.(*object)
	if !ok {
		return wrong(path, "an object")
	}
	kind := ""
	if t, there := o.of["type"]; there {
		if kind, ok = t.(string); !ok || kind == "" {
			return wrong(path+"/type", "a text")
		}
	}
	m, listed := b[kind]
	if !listed {
		return refuse(path+"/type", "not on the list of types")
	}
	for _, name := range o.names {
		if name == "type" {
			continue
		}
		s, listed := m[name]
		if !listed {
			return refuse(path+"/"+pointer(name), "not on the list of members")
		}
		if err := s(o.of[name], path+"/"+name); err != nil {
			return err
		}
	}
	return nil
}

// pointer is a member's name in a JSON pointer, cut: it is a stranger's text.
func pointer(name string) string {
	if len(name) > 64 {
		name = name[:64]
	}
	out := []byte{}
	for _, c := range []byte(name) {
		switch {
		case c == '~':
			out = append(out, "~0"...)
		case c == '/':
			out = append(out, "~1"...)
		case c < ' ' || c > '~':
			out = append(out, '?')
		default:
			out = append(out, c)
		}
	}
	return string(out)
}
