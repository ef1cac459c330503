package policy

import (
	"slices"
	"strconv"
	"strings"

	"sealbridge/manifest"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// TableFor is the row of one tool, as the first rule that fits says it (C1a);
// empty where none does or what it says cannot be read.
func (p Policy) TableFor(tool string) ToolTable {
	rule, at := p.Tool(tool)
	if at < 0 {
		return nil
	}
	row := ToolRow{Effects: rule.Effect}
	for _, text := range rule.Resource {
		t, err := ParseTemplate(text)
		if err != nil {
			return nil
		}
		row.Templates = append(row.Templates, t)
	}
	var err error
	if row.Defaults, err = rule.defaults(); err != nil {
		return nil
	}
	return ToolTable{tool: row}
}

// defaults are the rule's, as they are put into a call; zero for none.
func (t Tool) defaults() (jcs.Value, error) {
	if len(t.Defaults) == 0 {
		return jcs.Value{}, nil
	}
	return manifest.ValueOf(t.Defaults)
}

func (t Tool) defaultsText() string {
	v, err := t.defaults()
	if err != nil || v.IsZero() {
		return "nothing"
	}
	return v.String()
}

// Grants says why one of our own grants is none that the owner's rules can keep:
// a tool that no rule allows, a resource that none of them reaches, or a tool
// without a template under another name than its own (C1a). It is asked before a
// proposal leaves; of what a contract hands on, the chain is held instead (C2).
func (p Policy) Grants(grants []manifest.Grant) error {
	for i, g := range grants {
		if err := p.grant(g); err != nil {
			return atGrant(i, err)
		}
	}
	return nil
}

func (p Policy) grant(g manifest.Grant) error {
	r, err := manifest.ParseResource(g.Resource)
	if err != nil {
		return spec.Refuse(spec.CapabilityDenied, "/resource", limitOf(err))
	}
	for i, tool := range g.AllowedTools {
		path := "/allowedTools/" + strconv.Itoa(i)
		rule, at := p.Tool(tool)
		row, ok := p.TableFor(tool)[tool]
		switch {
		case !ok || rule.Then == ThenRefuse:
			limit := "C1a: no rule of tools allows " + manifest.Display(tool, 100)
			if at >= 0 {
				limit = "C1a: rule " + strconv.Itoa(at+1) + " of tools refuses " + manifest.Display(tool, 100)
			}
			return spec.Refuse(spec.PolicyDenied, path, limit)
		case len(row.Templates) == 0 && r != WholeTool(tool):
			return spec.Refuse(spec.CapabilityDenied, "/resource", "C1a: no template says what "+manifest.Display(tool, 100)+" reaches: "+WholeTool(tool).String()+", which is any argument")
		case len(row.Templates) > 0 && !slices.ContainsFunc(row.Templates, func(t Template) bool { return t.meets(r) }):
			return spec.Refuse(spec.CapabilityDenied, "/resource", "C1a: "+manifest.Display(tool, 100)+" reaches "+orAnyArgument(rule.Resource))
		}
	}
	return nil
}

// meets says whether a call by this template could lie within a resource: what
// stands before its first argument agrees with the resource's beginning.
func (t Template) meets(r manifest.Resource) bool {
	fixed, _, open := strings.Cut(t.text, "{")
	base, below := strings.CutSuffix(r.String(), "*")
	switch {
	case !open:
		return fixed == base || below && strings.HasPrefix(fixed, base)
	case below:
		return strings.HasPrefix(fixed, base) || strings.HasPrefix(base, fixed)
	}
	return strings.HasPrefix(base, fixed)
}

// atGrant places an error in the list of grants of a contract.
func atGrant(i int, err error) error {
	e := *specError(err)
	e.Path = "/permissions/grantedCapabilities/" + strconv.Itoa(i) + e.Path
	return &e
}
