package schema

import (
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sealbridge/spec"
)

// pattern is the library's way to a pattern, also to one in an instance whose
// format is regex.
func pattern(text string) (jsonschema.Regexp, error) {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil || instructions(re) > MaxPattern {
		return nil, errFormat
	}
	return regexp.Compile(text)
}

// program is the size of a pattern's program, without building it.
func (p *parser) program(pattern, at string) (int, error) {
	re, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, malformed(at, "a pattern of RE2")
	}
	size := instructions(re)
	if p.patterns += size; size > MaxPattern || p.patterns > MaxPatterns {
		return 0, spec.Refuse(spec.TooLarge, cut(at, maxPath), "5,000 instructions a pattern, 20,000 a schema")
	}
	return size, nil
}

func instructions(re *syntax.Regexp) int {
	n := 2
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(1, re.Min, re.Max)
	}
	return min(n, 1<<30)
}
