package audit_test

import (
	"strings"
	"testing"

	"sealbridge/policy/audit"
)

func TestAFinishedTaskIsVerifiedAndBinding(t *testing.T) {
	s := finished(t)
	for _, p := range []person{ann, ben} {
		r := verify(t, s.export(p))
		if !r.Verified || !r.Binding || r.Known != "none" {
			t.Errorf("%s's bundle: verified %v, binding %v, known %s: %+v %+v", p.name, r.Verified, r.Binding, r.Known, r.Findings, r.Missing)
		}
		if r.Task.Outcome != "completed" {
			t.Errorf("outcome %q", r.Task.Outcome)
		}
		var text, receipt strings.Builder
		if err := audit.Text(r, &text); err != nil {
			t.Error(err)
		}
		if err := audit.ReceiptText(r, &receipt); err != nil {
			t.Error(err)
		}
		t.Log("\n" + text.String() + "\n" + receipt.String())
	}
}
