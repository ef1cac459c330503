package manifest

import (
	"slices"
	"strconv"
	"time"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// DraftGrant lets the worker's agent call tools of ours for this task (C2). A
// tool is called SERVER.NAME, as `sealbridge tools list` shows it.
type DraftGrant struct {
	Resource string   `yaml:"resource" json:"resource"`
	Tools    []string `yaml:"tools" json:"tools"`
	Uses     int64    `yaml:"uses" json:"uses,omitempty"`   // 1 where absent: what nobody named is not given
	Until    string   `yaml:"until" json:"until,omitempty"` // a span from now, or an instant; the deadline where absent
	Where    any      `yaml:"where" json:"where,omitempty"` // a JSON Schema of the arguments (C3); absent: any
}

// grants are the capabilities of the contract. An end after the deadline is the deadline (M1).
func (d Draft) grants(t Terms, deadline time.Time) ([]Grant, error) {
	out := []Grant{}
	for i, g := range d.Grants {
		at := "/grants/" + strconv.Itoa(i)
		made := Grant{Resource: g.Resource, AllowedTools: slices.Clone(g.Tools), MaxInvocations: g.Uses, ExpiresAt: signing.TimeOf(deadline)}
		if len(g.Tools) == 0 {
			return nil, spec.Refuse(spec.Malformed, at+"/tools", "C2: at least one; nothing never means everything")
		}
		if made.MaxInvocations == 0 {
			made.MaxInvocations = 1
		}
		var err error
		if made.CapabilityID, err = parseID[capabilityShape](DerivedID("cap_", "grant", t.ID.String()+" "+strconv.Itoa(i))); err != nil {
			return nil, err
		}
		if g.Until != "" {
			end, err := ParseDeadline(g.Until, t.At)
			if err != nil {
				return nil, spec.At(at+"/until", err)
			}
			if end.Before(deadline) {
				made.ExpiresAt = signing.TimeOf(end)
			}
		}
		if g.Where != nil {
			var v jcs.Value
			if v, err = ValueOf(g.Where); err != nil {
				return nil, spec.At(at+"/where", err)
			}
			made.ArgConstraints = v
		}
		out = append(out, made)
	}
	return out, nil
}
