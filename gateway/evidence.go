package gateway

import (
	"context"
	"strings"

	"sealbridge/manifest"
	"sealbridge/policy/audit"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Bundle is exported evidence.
type Bundle struct {
	Task string `json:"taskId"`
	Text string `json:"bundle"`
}

// Export writes the evidence of a task: nothing that is not already signed, but for the asks that we kept (V4).
func (g *Gateway) Export(ctx context.Context, by Caller, in Ref) (out Bundle, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	err = g.view(ctx, func(t *turn) error {
		row, err := t.find(by, in.Task)
		if err == nil {
			out.Task = row.Key.ID.String()
			out.Text, err = t.bundle(row)
		}
		return err
	})
	return out, err
}

// bundle is the evidence of a task as a sealed text.
func (t *turn) bundle(row taskRow) (string, error) {
	if row.Task.IsZero() {
		return "", spec.Refuse(spec.NotFound, "", "nothing was said in this task yet")
	}
	var text strings.Builder
	w := audit.NewWriter(&text)
	docs, err := t.evidence(row)
	if err != nil {
		return "", err
	}
	for _, d := range docs {
		if err := w.Add(d); err != nil {
			return "", err
		}
	}
	heads := manifest.Heads{TaskID: row.Key.ID, ManifestDigest: row.Task.ManifestDigest(), Yours: row.Task.Head(row.Role.Other()), Mine: row.Task.Head(row.Role)}
	if err := w.Seal(heads, row.Task.Agent(row.Role.Other()), t.revocations(), t.g.Agent, t.now); err != nil {
		return "", err
	}
	err = w.Close()
	return text.String(), err
}

// evidence is every document of a task, in the order in which it can be read.
func (t *turn) evidence(row taskRow) (docs []jcs.Value, err error) {
	wires, err := t.events(row.Key.String())
	if err != nil {
		return nil, err
	}
	var requester, worker *signing.Block
	var facts []manifest.Fact
	for _, w := range wires {
		s, err := manifest.OpenValue(w, t.g.keys)
		if err != nil {
			return nil, err
		}
		if e, ok := s.Document().(*manifest.Event); ok {
			facts = append(facts, e.Body.Fact)
			switch f := e.Body.Fact.(type) {
			case manifest.Proposed:
				requester = &f.Signature
			case manifest.Accepted:
				worker = &f.Signature
			}
		}
	}
	m, err := manifest.Assemble(row.Task.Payload(), requester, worker)
	if err != nil {
		return nil, err
	}
	docs = append(docs, m)
	for _, owner := range append([]signing.DID{t.g.Owner, row.Peer}, introducedIn(facts)...) {
		ids, err := t.identities(owner)
		if err != nil {
			return nil, err
		}
		docs = append(docs, ids...)
	}
	docs = append(docs, wires...)
	recs, err := t.RecordsOf(row.Key.String())
	if err != nil {
		return nil, err
	}
	for _, r := range recs {
		switch r.Kind {
		case recAsk, recDecision, recAck, recReceipt, recCall, recResult:
			v, err := jcs.Parse(r.Body)
			if err != nil {
				return nil, err
			}
			docs = append(docs, v)
		}
	}
	return docs, nil
}

// identities are the certificates, box-keys and revocations of an owner, as they came.
func (t *turn) identities(owner signing.DID) (docs []jcs.Value, err error) {
	recs, err := t.RecordsOf(owner.String())
	if err != nil {
		return nil, err
	}
	for _, r := range recs {
		if r.Kind != recDocument {
			continue
		}
		v, err := jcs.Parse(r.Body)
		if err != nil {
			return nil, err
		}
		switch manifest.TypeName(v) {
		case "agent-certificate", "box-key", "revocation":
			docs = append(docs, v)
		}
	}
	return docs, nil
}
