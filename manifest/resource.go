package manifest

import (
	"strings"

	"sealbridge/spec"
)

// Resource is what a tool reaches (C1): scheme://authority/segment/…, or all
// that lies below it where it ends in /*. It has one spelling, so that equal
// resources are equal texts; whatever has another spelling names nothing. The
// authority is a name in the root issuer's own table. The zero Resource is none.
type Resource struct{ s string }

const (
	resourceChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._~-"
	lowerChars    = "abcdefghijklmnopqrstuvwxyz0123456789"
	maxResource   = 512 // bytes, as in a manifest
	below         = "/*"
)

// ParseResource takes the one spelling. Nothing is decoded, cleaned or folded:
// no %, no backslash, no query, no dot segment, no upper-case scheme or authority.
func ParseResource(s string) (Resource, error) {
	bad := func(why string) (Resource, error) {
		return Resource{}, spec.Refuse(spec.Malformed, "", "C1: "+why)
	}
	if len(s) > maxResource {
		return bad("512 characters at most")
	}
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || scheme == "" || !strings.ContainsAny(scheme[:1], lowerChars[:26]) || strings.Trim(scheme, lowerChars+"+.-") != "" {
		return bad("scheme://authority/segment, the scheme in lower case")
	}
	authority, path, ok := strings.Cut(rest, "/")
	if !ok || authority == "" || strings.Trim(authority[:1], lowerChars) != "" || strings.Trim(authority, lowerChars+"._~-") != "" {
		return bad("an authority of lower-case letters and digits")
	}
	for more := true; more; {
		var segment string
		segment, path, more = strings.Cut(path, "/")
		if segment == "*" && !more {
			break
		}
		if !IsSegment(segment) {
			return bad("segments of letters, digits and . _ ~ -, never . or ..")
		}
	}
	return Resource{strings.Clone(s)}, nil
}

// IsSegment says whether s is one segment of a resource.
func IsSegment(s string) bool {
	return s != "" && s != "." && s != ".." && strings.Trim(s, resourceChars) == ""
}

// Covers says whether all that c names lies within r: the same resource, or
// one or more segments below it where r ends in /*.
func (r Resource) Covers(c Resource) bool {
	if r.s == "" || c.s == "" {
		return false
	}
	if r == c {
		return true
	}
	base, open := strings.CutSuffix(r.s, "*")
	return open && len(c.s) > len(base) && strings.HasPrefix(c.s, base)
}

// Open says whether r stands for all that lies below it.
func (r Resource) Open() bool { return strings.HasSuffix(r.s, below) }

func (r Resource) String() string               { return r.s }
func (r Resource) IsZero() bool                 { return r.s == "" }
func (r Resource) MarshalText() ([]byte, error) { return []byte(r.s), nil }

// UnmarshalText is ParseResource; an empty text is none, in what we stored ourselves.
func (r *Resource) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*r = Resource{}
		return nil
	}
	return r.ReadText(string(b))
}

// ReadText is ParseResource.
func (r *Resource) ReadText(s string) (err error) {
	*r, err = ParseResource(s)
	return err
}
