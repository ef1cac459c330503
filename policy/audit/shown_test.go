package audit

import (
	"testing"

	"sealbridge/manifest"
	"sealbridge/signing"
)

// What a delivery brings beside its result, in the words of report and receipt (V1, B7, X6).
func TestEvidenceReceiptAndAttestationAreSaidAsTheyAre(t *testing.T) {
	id := func(s string) manifest.CriterionID {
		c, err := manifest.ParseCriterionID(s)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	var a audit
	a.m.Task.AcceptanceCriteria = []manifest.Criterion{{ID: id("ac_1"), Required: true}, {ID: id("ac_2"), Required: true}, {ID: id("ac_3")}}
	image := signing.DigestOf([]byte("module"))
	f := &Facts{Reached: []manifest.Reached{{Host: "of the revision before"}}}
	a.shown(f, manifest.Delivery{Evidence: []manifest.Evidence{{Criterion: id("ac_1")}, {Criterion: id("ac_1")}},
		Attestation: &manifest.Attestation{Runner: "wasm", Isolation: manifest.Isolation{Level: "wasm", Enforced: "gateway"}, Image: &image, Exit: 3, WallClockSeconds: 61}})
	if got, want := f.criteria(), "ac_1 2 items · ac_2 nothing · ac_3 nothing, optional"; got != want {
		t.Errorf("criteria: %q, want %q", got, want)
	}
	if got, want := f.ran(), "wasm in wasm (gateway), exit 3, "+seconds(61)+", image "+image.Short(); got != want {
		t.Errorf("ran: %q, want %q", got, want)
	}
	if f.Reached != nil || f.Receipt != nil {
		t.Errorf("of another delivery: %+v, %+v", f.Reached, f.Receipt)
	}
	part := []signing.Digest{image}
	for want, r := range map[string]*UsageReceipt{
		"no receipt":                                 nil,
		"nobody; this is complete":                   {Complete: true},
		"1 part, in these figures; this is complete": {Complete: true, Children: part},
		"1 part with a receipt; missing: Cleo ⟨U+202E⟩ said nothing": {Children: part, Missing: []string{"Cleo \u202e said nothing"}},
	} {
		if got := r.handedOn(); got != want {
			t.Errorf("handed on: %q, want %q", got, want)
		}
	}
}
