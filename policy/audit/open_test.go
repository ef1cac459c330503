package audit_test

import (
	"slices"
	"strings"
	"testing"

	"sealbridge/manifest"
	"sealbridge/policy/audit"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// M10: whatever is signed about an open proposal, verify says that it is never binding.
func TestAnOpenProposalIsNeverBinding(t *testing.T) {
	s := newStory(t)
	m, err := manifest.ReadManifest(s.payload)
	if err != nil {
		t.Fatal(err)
	}
	m.Worker = nil
	b, payload, err := manifest.SignManifest(m, manifest.Requester, ann.agent, s.at)
	if err != nil {
		t.Fatal(err)
	}
	open := must(manifest.Assemble(payload, &b, nil))
	claim := must(manifest.Sign(&manifest.Claim{Type: "sealbridge/claim", ProtocolVersion: manifest.ProtocolVersion, To: ann.agent.DID(), Digest: signing.DigestOf(payload.Bytes()),
		TaskID: m.TaskID, At: signing.TimeOf(s.at)}, ben.agent, s.at)).Wire()
	people := append(ann.identity(), ben.identity()...)
	for name, docs := range map[string][]jcs.Value{
		"alone":                    {open},
		"with a claim":             {open, claim},
		"with a claim and people":  append([]jcs.Value{open, claim}, people...),
		"with a claim and a yes":   append([]jcs.Value{open, claim}, append(slices.Clone(people), *s.decided(ann, ann.owner, func(*manifest.GateDecision) {}))...),
		"with a claim of somebody": {open, must(manifest.Sign(&manifest.Claim{Type: "sealbridge/claim", ProtocolVersion: manifest.ProtocolVersion, To: ann.agent.DID(), Digest: signing.DigestOf(payload.Bytes()), TaskID: m.TaskID, At: signing.TimeOf(s.at)}, signing.NewKey([32]byte{77}), s.at)).Wire()},
	} {
		r := verify(t, ndjson(docs))
		notes := 0
		for _, f := range r.Findings {
			if f.Severity == audit.Note && strings.Contains(f.Message, "never binding") {
				notes++
			}
		}
		if r.Binding || notes == 0 || strings.HasPrefix(name, "with a claim") && notes != 2 {
			t.Errorf("%s: binding %v, %d notes: %+v", name, r.Binding, notes, r.Findings)
		}
		if name != "with a claim and a yes" && !r.Verified {
			t.Errorf("%s: not verified: %+v", name, r.Findings)
		}
	}
}
