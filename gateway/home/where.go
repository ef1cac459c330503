package home

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// A word such as 15m or 500k is read by its own type, which knows nothing of
// files: the reader then says what is wrong and not where. whereBad finds the
// place by reading each part of the file by itself.

// withPlace puts line and column before an error of the reader that names none.
func withPlace(b []byte, into any, err error) error {
	if strings.HasPrefix(err.Error(), "[") {
		return err
	}
	file, bad := parser.ParseBytes(b, 0)
	if bad != nil || len(file.Docs) != 1 || file.Docs[0].Body == nil {
		return err
	}
	if at := whereBad(file.Docs[0].Body, reflect.TypeOf(into)); at != nil {
		return fmt.Errorf("[%d:%d] %w", at.Line, at.Column, err)
	}
	return err
}

type yamlReader interface{ UnmarshalYAML(func(any) error) error }

// whereBad is the place of the first and innermost node that its type does not read; nil where all do.
func whereBad(n ast.Node, t reflect.Type) *token.Position {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch n := n.(type) {
	case *ast.MappingValueNode:
		if at := whereBad(n.Value, memberType(t, n.Key.String())); at != nil {
			return at
		}
	case *ast.MappingNode:
		for _, v := range n.Values {
			if at := whereBad(v, t); at != nil {
				return at
			}
		}
	case *ast.SequenceNode:
		if t.Kind() == reflect.Slice {
			for _, v := range n.Values {
				if at := whereBad(v, t.Elem()); at != nil {
					return at
				}
			}
		}
	}
	to := reflect.New(t)
	switch to.Interface().(type) {
	case yamlReader, encoding.TextUnmarshaler:
		if yaml.NodeToValue(n, to.Interface(), yaml.Strict()) != nil && n.GetToken() != nil {
			return n.GetToken().Position
		}
	}
	return nil
}

// memberType is the type of a member; that of anything where there is none, which reads all.
func memberType(t reflect.Type, key string) reflect.Type {
	switch t.Kind() {
	case reflect.Map:
		return t.Elem()
	case reflect.Struct:
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ","); name == key {
				return t.Field(i).Type
			}
		}
	}
	return reflect.TypeFor[any]()
}
