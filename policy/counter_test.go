package policy

import (
	"testing"

	"sealbridge/manifest"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// TestACounterProposalIsTheContractWithOtherTerms is G7: the same law at both owners and at an auditor.
func TestACounterProposalIsTheContractWithOtherTerms(t *testing.T) {
	s := newScene(t, nil).say(asR, newScene(t, nil).proposal())
	less, err := s.m.Counter([]manifest.Setting{{Key: "budget.time", Value: "1m"}}, t0)
	if err != nil {
		t.Fatal(err)
	}
	smuggled := less
	smuggled.Task.Description = "and your address book"
	for what, c := range map[string]struct {
		m    manifest.TaskManifest
		want Outcome
	}{"less": {less, Allow}, "the same": {s.m, Deny}, "more than terms": {smuggled, Deny}} {
		v := must(jcs.Encode(c.m))
		for _, role := range []manifest.Role{asR, asW, ""} {
			d := Contract(s.draft(asW, role, manifest.Declined{Reason: "gate-denied", Counter: &v}))
			if d.Outcome != c.want || c.want == Deny && (d.Rule != "G7" || d.Reason != spec.Malformed) {
				t.Errorf("%s, as %q: %+v, want %s", what, role, d, c.want)
			}
		}
	}
}
