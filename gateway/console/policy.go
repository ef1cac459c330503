package console

import (
	"bytes"
	"encoding/json"
	"net/http"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/signing/jcs"
)

// policyPage is the owner's rules: what is in force, and what waits for a yes (G12).
type policyPage struct {
	gateway.PolicyView
	Came    string
	Asked   string   // when the change that waits was found
	File    string   // digest of policy.yaml on disk
	Problem string   // why it does not read
	Lines   []string // of policy.yaml
	Form    []string // of the policy in force as it is digested; where the file is another
}

func (s *Server) policy(v *visit) error {
	p, err := s.Gateway.Policy(v.Context(), owner, gateway.None{})
	if err != nil {
		return err
	}
	b := policyPage{PolicyView: p, Came: s.clock(p.Since)}
	if p.Waiting != nil {
		b.Asked = s.clock(p.Waiting.At)
	}
	if s.PolicyFile != nil {
		text, digest, err := s.PolicyFile()
		if b.File = digest; err != nil {
			b.Problem = manifest.Display(err.Error(), 500)
		}
		b.Lines = manifest.DisplayLines(text, maxSource, 2000)
	}
	if b.File != p.InForce.String() {
		form, err := jcs.Encode(p.Policy)
		if err != nil {
			return err
		}
		var text bytes.Buffer
		if err := json.Indent(&text, form.Bytes(), "", "  "); err != nil {
			return err
		}
		b.Form = manifest.DisplayLines(text.String(), maxSource, 2000)
	}
	return s.render(v, http.StatusOK, "policy", "policy", "Policy", b)
}

const maxSource = 5000 // lines of a policy on a page; a file has a mebibyte at most
