package console

import (
	"io"
	"mime"
	"strconv"
	"strings"

	"sealbridge/gateway"
	"sealbridge/policy/audit"
	"sealbridge/signing"
)

// evidence hands out what anybody can verify offline.
func (s *Server) evidence(v *visit) error {
	b, err := s.Gateway.Export(v.Context(), owner, gateway.Ref{Task: v.PathValue("task")})
	if err != nil {
		return err
	}
	v.attach(b.Task+".json", "application/json", b.Text)
	return nil
}

// receipt hands out the receipt of a task as a page to print, made from its
// evidence by the same law as anybody else's.
func (s *Server) receipt(v *visit) error {
	b, err := s.Gateway.Export(v.Context(), owner, gateway.Ref{Task: v.PathValue("task")})
	if err != nil {
		return err
	}
	trust, err := s.known(v)
	if err != nil {
		return err
	}
	rep, err := audit.Verify(strings.NewReader(b.Text), audit.Options{Trust: trust})
	if err != nil {
		return err
	}
	var page strings.Builder
	if err := audit.ReceiptHTML(rep, &page); err != nil {
		return err
	}
	v.attach("receipt-"+shortOf(b.Task)+".html", "application/octet-stream", page.String())
	return nil
}

// known are the owners whom this one knows: itself, and contacts that it confirmed.
func (s *Server) known(v *visit) (map[signing.DID]audit.Known, error) {
	st, err := s.Gateway.Status(v.Context(), owner, gateway.None{})
	if err != nil {
		return nil, err
	}
	cs, err := s.Gateway.Contacts(v.Context(), owner, gateway.None{})
	if err != nil {
		return nil, err
	}
	out := map[signing.DID]audit.Known{}
	add := func(text, name, learned string) error {
		did, err := signing.ParseDID(text)
		out[did] = audit.Known{Name: name, Learned: learned}
		return err
	}
	err = add(st.Owner, st.Name, "this home")
	for _, c := range cs {
		if c.Confirmed && err == nil {
			err = add(c.Owner, c.Name, "six words compared")
		}
	}
	return out, err
}

// attach writes a file for saving.
func (v *visit) attach(name, kind, text string) {
	h := v.w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": name}))
	h.Set("Content-Length", strconv.Itoa(len(text)))
	io.WriteString(v.w, text) //nolint:errcheck // the browser is gone
}
