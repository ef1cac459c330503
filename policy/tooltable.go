package policy

import (
	"slices"
	"strings"

	"sealbridge/manifest"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// ToolTable is what an owner says of the tools that may be granted: by the name
// that stands in a grant. A tool that is not in it cannot be called.
type ToolTable map[string]ToolRow

// ToolRow is one tool: what it reaches, by its arguments, and what it does.
type ToolRow struct {
	Templates []Template // none: the whole name, with any argument (C1a)
	Defaults  jcs.Value  // an object: arguments that are put in where a call lacks them
	Effects   []string   // what it does outside: none, or words like irreversible; empty: unknown, the strictest
}

// outside says whether a use is an effect that a person may have to allow (G1).
func (r ToolRow) outside() bool {
	return len(r.Effects) != 1 || r.Effects[0] != "none"
}

// MaxResources of one call: as many as stand in a call (C6).
const MaxResources = 32

// Template is a resource with arguments in it (C1a): text, and the names of
// arguments between braces.
type Template struct {
	text  string
	parts []part
}

// part is one step of a template: text as it is, or an argument.
type part struct {
	text     string
	argument string
	absolute bool // {/name}: the value begins with its own slash
}

// ParseTemplate reads mcp://docs/{path} and mcp://docs{/path}. With a plain
// segment for each argument it must be a resource.
func ParseTemplate(s string) (Template, error) {
	bad := func(why string) (Template, error) {
		return Template{}, spec.Refuse(spec.Malformed, "", "C1a: "+why)
	}
	t := Template{text: s}
	sample := ""
	for rest := s; rest != ""; {
		text, after, found := strings.Cut(rest, "{")
		if strings.Contains(text, "}") {
			return bad("a name between { and }")
		}
		if text != "" {
			t.parts, sample = append(t.parts, part{text: text}), sample+text
		}
		if !found {
			break
		}
		name, behind, closed := strings.Cut(after, "}")
		name, absolute := strings.CutPrefix(name, "/")
		switch {
		case !closed || name == "" || strings.ContainsAny(name, "{/"):
			return bad("a name between { and }")
		case absolute == strings.HasSuffix(text, "/") || text == "" || behind != "" && behind[0] != '/':
			return bad("an argument is a whole segment: /{name}, or {/name} for an absolute path")
		}
		if absolute {
			sample += "/"
		}
		t.parts, sample = append(t.parts, part{argument: name, absolute: absolute}), sample+"x"
		rest = behind
	}
	r, err := manifest.ParseResource(sample)
	if err != nil {
		return Template{}, err
	}
	if r.Open() {
		return bad("one resource, not all below it")
	}
	if scheme, rest, _ := strings.Cut(sample, "://"); !strings.HasPrefix(s, scheme+"://") || strings.ContainsAny(s[:len(scheme)+3+strings.IndexByte(rest, '/')], "{}") {
		return bad("no argument in scheme or authority")
	}
	return t, nil
}

func (t Template) String() string { return t.text }

// Complete puts the table's defaults into the arguments of a call: what comes
// out is what is checked and what the tool receives. put are those that the
// call lacked; zero for none.
func (r ToolRow) Complete(arguments jcs.Value) (whole, put jcs.Value) {
	for name, v := range r.Defaults.Members() {
		if _, there := arguments.Member(name); there {
			continue
		}
		if put.IsZero() {
			put = jcs.EmptyObject
		}
		arguments, put = arguments.With(name, v), put.With(name, v)
	}
	return arguments, put
}

// WholeTool is the resource of a tool without a template: whatever it is asked,
// it reaches itself. The zero Resource where the name is no segment of one.
func WholeTool(name string) manifest.Resource {
	r, err := manifest.ParseResource("tool://any/" + name)
	if err != nil || strings.Contains(name, "/") || r.Open() {
		return manifest.Resource{}
	}
	return r
}

// Resources computes what a call with these arguments reaches, completed before
// (C1a). Nothing is cleaned: a value that does not fit has no resource.
func (r ToolRow) Resources(tool string, arguments jcs.Value) ([]manifest.Resource, error) {
	if len(r.Templates) == 0 {
		whole := WholeTool(tool)
		if whole.IsZero() {
			return nil, spec.Refuse(spec.CapabilityDenied, "/tool", "C1a: a name that is one segment")
		}
		return []manifest.Resource{whole}, nil
	}
	var out []manifest.Resource
	for _, t := range r.Templates {
		rs, err := t.resources(arguments)
		if err != nil {
			return nil, err
		}
		for _, x := range rs {
			if !slices.Contains(out, x) {
				out = append(out, x)
			}
		}
		if len(out) > MaxResources {
			return nil, spec.Refuse(spec.CapabilityDenied, "/arguments", "C6: 32 resources at most")
		}
	}
	return out, nil
}

// resources fills a template in; a list of values gives one for each.
func (t Template) resources(arguments jcs.Value) ([]manifest.Resource, error) {
	texts := []string{""}
	for _, p := range t.parts {
		values := []string{p.text}
		if p.argument != "" {
			var err error
			if values, err = p.values(arguments); err != nil {
				return nil, err
			}
		}
		if len(texts)*len(values) > MaxResources {
			return nil, spec.Refuse(spec.CapabilityDenied, "/arguments/"+p.argument, "C6: 32 resources at most")
		}
		next := make([]string, 0, len(texts)*len(values))
		for _, text := range texts {
			for _, v := range values {
				next = append(next, text+v)
			}
		}
		texts = next
	}
	out := make([]manifest.Resource, len(texts))
	for i, text := range texts {
		r, err := manifest.ParseResource(text)
		if err != nil || r.Open() {
			return nil, spec.Refuse(spec.CapabilityDenied, "/arguments", "C1: segments of letters, digits and . _ ~ -, never . or ..")
		}
		out[i] = r
	}
	return out, nil
}

// values are the texts of an argument that stand in a resource.
func (p part) values(arguments jcs.Value) ([]string, error) {
	v, ok := arguments.Member(p.argument)
	refuse := func(why string) ([]string, error) {
		return nil, spec.Refuse(spec.CapabilityDenied, "/arguments/"+p.argument, why)
	}
	if !ok {
		return refuse("C1a: an argument that the resource needs")
	}
	items := []jcs.Value{v}
	if v.Kind() == '[' {
		items = items[:0]
		for item := range v.Items() {
			if items = append(items, item); len(items) > MaxResources {
				return refuse("C6: 32 resources at most")
			}
		}
		if len(items) == 0 {
			return refuse("C1a: a value")
		}
	}
	out := make([]string, len(items))
	for i, item := range items {
		text, isText := item.Text()
		if !isText {
			if item.Kind() != '0' {
				return refuse("C1a: a text, a number or a list of those")
			}
			text = item.String()
		}
		rest := text
		if p.absolute {
			var slash bool
			if rest, slash = strings.CutPrefix(text, "/"); !slash {
				return refuse("C1a: an absolute path")
			}
		}
		for _, segment := range strings.Split(rest, "/") {
			if !manifest.IsSegment(segment) {
				return refuse("C1: segments of letters, digits and . _ ~ -, never . or ..")
			}
		}
		out[i] = text
	}
	return out, nil
}
