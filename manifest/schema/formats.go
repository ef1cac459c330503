package schema

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// formats are those that are asserted; any other is a warning and passes.
var formats = map[string]bool{
	"date": true, "date-time": true, "time": true, "duration": true, "email": true, "hostname": true, "ipv4": true, "ipv6": true,
	"uuid": true, "uri": true, "uri-reference": true, "iri": true, "iri-reference": true, "uri-template": true, "regex": true,
	"json-pointer": true, "relative-json-pointer": true,
}

var errFormat = errors.New("not of the format")

// registerFormats puts a stricter reading in place of those that the library
// takes too lightly: RFC 3986 has no spaces, quotes or brackets in a URI, an
// address no sign.
func registerFormats(c *jsonschema.Compiler) {
	c.RegisterFormat(&jsonschema.Format{Name: "uri", Validate: onText(isURI)})
	c.RegisterFormat(&jsonschema.Format{Name: "uri-reference", Validate: onText(isURIReference)})
	c.RegisterFormat(&jsonschema.Format{Name: "ipv4", Validate: onText(func(s string) bool {
		a, err := netip.ParseAddr(s)
		return err == nil && a.Is4()
	})})
}

func onText(fits func(string) bool) func(any) error {
	return func(v any) error {
		if s, ok := v.(string); ok && !fits(s) {
			return errFormat
		}
		return nil
	}
}

func isURI(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.IsAbs() && uriText(s)
}

func isURIReference(s string) bool {
	_, err := url.Parse(s)
	return err == nil && uriText(s)
}

// uriText says whether s has the characters of RFC 3986 only.
func uriText(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`{|}", c) >= 0 {
			return false
		}
	}
	return true
}
