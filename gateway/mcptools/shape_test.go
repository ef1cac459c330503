package mcptools

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sealbridge/spec"
)

// TestEveryShapeIsItsType holds what tools publish against what is read and written.
func TestEveryShapeIsItsType(t *testing.T) {
	for name, x := range map[string]struct {
		shape shape
		typ   any
	}{
		"delegation": {delegationShape, delegation{}}, "delegated": {delegatedShape, delegated{}}, "delegations": {delegationsShape, delegations{}}, "several": {severalShape, severalAnswer{}}, "contacts": {contactsShape, contacts{}},
		"task": {taskShape, taskAnswer{}}, "result": {resultShape, resultAnswer{}}, "ask": {askShape, askAnswer{}}, "ask in": {askIn, askQuestion{}},
		"evidence": {evidenceShape, evidenceAnswer{}}, "usage": {usageShape, usage{}}, "next": {nextShape, next{}}, "foreign": {foreignShape, foreign{}},
		"prickle": {prickleOutline, prickleAnswer{}},
	} {
		same(t, name, x.shape, reflect.TypeOf(x.typ))
	}
}

func same(t *testing.T, path string, s shape, typ reflect.Type) {
	t.Helper()
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if items, ok := s["items"].(shape); ok && typ.Kind() == reflect.Slice {
		same(t, path+"[]", items, typ.Elem())
		return
	}
	props, ok := s["properties"].(map[string]any)
	if !ok || typ.Kind() != reflect.Struct {
		return
	}
	var have []string
	for _, f := range reflect.VisibleFields(typ) {
		if f.Anonymous || len(f.Index) > 1 && !embedded(typ, f) {
			continue
		}
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		have = append(have, name)
		p, ok := props[name].(shape)
		if !ok {
			t.Errorf("%s: the schema has no %s", path, name)
			continue
		}
		required, _ := s["required"].([]string)
		if slices.Contains(required, name) && strings.Contains(rest, "omit") {
			t.Errorf("%s/%s is required and can be left out", path, name)
		}
		same(t, path+"/"+name, p, f.Type)
	}
	for name := range props {
		if !slices.Contains(have, name) {
			t.Errorf("%s: the type has no %s", path, name)
		}
	}
}

// embedded says that a field is there without a name in between.
func embedded(typ reflect.Type, f reflect.StructField) bool {
	for i := range len(f.Index) - 1 {
		if !typ.FieldByIndex(f.Index[:i+1]).Anonymous {
			return false
		}
	}
	return true
}

func TestAWaitIsWhatTheTransportAllows(t *testing.T) { // A4
	for _, x := range []struct {
		most    time.Duration
		seconds int
		want    time.Duration
	}{{socketWait, 50, 50 * time.Second}, {httpWait, 50, 25 * time.Second}, {httpWait, 3, 3 * time.Second}} {
		ctx, cancel := (caller{wait: x.most}).waiting(context.Background(), x.seconds)
		at, ok := ctx.Deadline()
		if left := time.Until(at); !ok || left > x.want || left < x.want-2*time.Second {
			t.Errorf("%d s within %v ends in %v", x.seconds, x.most, left)
		}
		cancel()
	}
}

func TestAnAgentHasABoundedNumberOfCalls(t *testing.T) {
	d := New(Config{})
	var backs []func()
	for range maxCalls {
		back, err := d.take(d.calls, "claude", maxCalls)
		if err != nil {
			t.Fatal(err)
		}
		backs = append(backs, back)
	}
	if _, err := d.take(d.calls, "claude", maxCalls); spec.ReasonOf(err) != spec.Quota {
		t.Errorf("one more: %v, want quota", err)
	}
	if back, err := d.take(d.calls, "cursor", maxCalls); err != nil {
		t.Errorf("another agent: %v", err)
	} else {
		back()
	}
	for _, back := range backs {
		back()
	}
	if len(d.calls) != 0 {
		t.Errorf("%v are left", d.calls)
	}
}
