package jcs

import (
	"encoding"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"sync"
)

// plan is how a struct type is read and written: its fields in canonical order.
type plan struct{ fields []field }

type field struct {
	name     string
	index    []int
	optional bool
	rule     *rule
	as       reading
}

// reading is how a value of one type is read; asking reflect each time costs
// more than the reading itself.
type reading int

const (
	byKind     reading = iota
	asValue            // a Value: the span itself
	asPointer          // null, or what it points to
	byItself           // an Unmarshaler
	asText             // a TextReader
	asTextCopy         // an encoding.TextUnmarshaler
)

var readings sync.Map // reflect.Type -> reading

func readingOf(t reflect.Type) reading {
	if r, ok := readings.Load(t); ok {
		return r.(reading)
	}
	r, p := byKind, reflect.PointerTo(t)
	switch {
	case t == valueType:
		r = asValue
	case t.Kind() == reflect.Pointer:
		r = asPointer
	case p.Implements(unmarshalerType):
		r = byItself
	case p.Implements(textReaderType):
		r = asText
	case p.Implements(textType):
		r = asTextCopy
	}
	readings.Store(t, r)
	return r
}

// rule is the parsed `rule` tag of one field.
type rule struct {
	lenMin, lenMax, itemMin, itemMax, numMin, numMax int64
	hasLen, hasItems, hasNum, unique, object         bool
	enum                                             []string
	constant                                         string
	each                                             *rule
	text                                             string
}

var plans sync.Map // reflect.Type -> *plan

var (
	valueType       = reflect.TypeFor[Value]()
	unmarshalerType = reflect.TypeFor[Unmarshaler]()
	textReaderType  = reflect.TypeFor[TextReader]()
	textType        = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func planOf(t reflect.Type) *plan {
	if p, ok := plans.Load(t); ok {
		return p.(*plan)
	}
	p := &plan{}
	p.add(t, nil)
	sort.Slice(p.fields, func(i, j int) bool { return nameLess(p.fields[i].name, p.fields[j].name) })
	plans.Store(t, p)
	return p
}

func (p *plan) add(t reflect.Type, at []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(append([]int(nil), at...), i)
		tag := f.Tag.Get("json")
		if f.Anonymous && tag == "" && f.Type.Kind() == reflect.Struct {
			p.add(f.Type, index)
			continue
		}
		if tag == "" || tag == "-" {
			continue
		}
		name, opts, _ := strings.Cut(tag, ",")
		r := parseRule(f.Tag.Get("rule"))
		if r != nil && !r.fits(f.Type) {
			panic("jcs: rule " + r.text + " does nothing for " + t.String() + "." + f.Name)
		}
		p.fields = append(p.fields, field{name, index, opts == "omitempty", r, readingOf(f.Type)})
	}
}

// parseRule panics on a tag that it does not know: a rule that is not applied must not compile into silence.
func parseRule(tag string) *rule {
	if tag == "" {
		return nil
	}
	r := &rule{text: tag}
	for _, part := range strings.Split(tag, ",") {
		key, arg, _ := strings.Cut(part, "=")
		to := r
		if rest, ok := strings.CutPrefix(key, "each."); ok {
			if key = rest; r.each == nil {
				r.each = &rule{text: part}
			}
			to = r.each
		}
		switch key {
		case "len":
			to.lenMin, to.lenMax, to.hasLen = bounds(arg)
		case "items":
			to.itemMin, to.itemMax, to.hasItems = bounds(arg)
		case "num":
			to.numMin, to.numMax, to.hasNum = bounds(arg)
		case "unique":
			to.unique = true
		case "object":
			to.object = true
		case "enum":
			to.enum = strings.Split(arg, "|")
		case "const":
			to.constant = arg
		default:
			panic("jcs: unknown rule " + part)
		}
	}
	return r
}

// fits says whether check holds every part of r for a field of type t.
func (r *rule) fits(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	text := r.hasLen || r.enum != nil || r.constant != ""
	list := r.hasItems || r.unique || r.each != nil
	switch k := t.Kind(); {
	case t == valueType:
		return !text && !list && !r.hasNum
	case k == reflect.String:
		return !list && !r.hasNum && !r.object
	case k >= reflect.Int && k <= reflect.Uint64:
		return !text && !list && !r.object
	case k == reflect.Slice:
		return !text && !r.hasNum && !r.object && (!r.unique || t.Elem().Comparable()) && (r.each == nil || r.each.fits(t.Elem()))
	case k == reflect.Map:
		return r.hasItems && !text && !r.hasNum && !r.object && !r.unique && r.each == nil
	}
	return false
}

func bounds(arg string) (lo, hi int64, ok bool) {
	a, b, _ := strings.Cut(arg, "..")
	lo, err1 := strconv.ParseInt(a, 10, 64)
	hi, err2 := strconv.ParseInt(b, 10, 64)
	if err1 != nil || err2 != nil {
		panic(fmt.Sprintf("jcs: bad bounds %q", arg))
	}
	return lo, hi, true
}

// check holds a decoded field against its rule.
func (r *rule) check(f reflect.Value) error {
	for f.Kind() == reflect.Pointer {
		if f.IsNil() {
			return nil
		}
		f = f.Elem()
	}
	switch {
	case f.Type() == valueType:
		if r.object && f.Interface().(Value).Kind() != '{' {
			return malformed("", "an object")
		}
	case f.Kind() == reflect.String:
		return r.checkText(f.String())
	case f.CanInt():
		if n := f.Int(); r.hasNum && (n < r.numMin || n > r.numMax) {
			return malformed("", r.text)
		}
	case f.CanUint():
		if n := f.Uint(); r.hasNum && (n < uint64(max(r.numMin, 0)) || n > uint64(max(r.numMax, 0))) {
			return malformed("", r.text)
		}
	case f.Kind() == reflect.Slice:
		return r.checkItems(f)
	case f.Kind() == reflect.Map:
		return r.checkCount(f.Len())
	}
	return nil
}

func (r *rule) checkText(s string) error {
	if r.constant != "" && s != r.constant {
		return malformed("", "must be "+r.constant)
	}
	if r.hasLen {
		n := int64(len(s))
		if n > r.lenMax || n < r.lenMin {
			n = int64(len([]rune(s)))
		}
		if n < r.lenMin || n > r.lenMax {
			return malformed("", fmt.Sprintf("%d to %d characters", r.lenMin, r.lenMax))
		}
	}
	if r.enum != nil {
		for _, e := range r.enum {
			if s == e {
				return nil
			}
		}
		return malformed("", "one of "+strings.Join(r.enum, ", "))
	}
	return nil
}

func (r *rule) checkItems(f reflect.Value) error {
	if err := r.checkCount(f.Len()); err != nil {
		return err
	}
	var seen map[any]bool // a list without a bound must not cost its square
	if r.unique {
		seen = make(map[any]bool, f.Len())
	}
	for i := range f.Len() {
		if r.each != nil {
			if err := r.each.check(f.Index(i)); err != nil {
				return at("/"+strconv.Itoa(i), err)
			}
		}
		if r.unique {
			item := f.Index(i).Interface()
			if seen[item] {
				return malformed("/"+strconv.Itoa(i), "items must differ")
			}
			seen[item] = true
		}
	}
	return nil
}

func (r *rule) checkCount(n int) error {
	if r.hasItems && (int64(n) < r.itemMin || int64(n) > r.itemMax) {
		return malformed("", fmt.Sprintf("%d to %d items", r.itemMin, r.itemMax))
	}
	return nil
}
