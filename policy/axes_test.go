package policy

import (
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/manifest/task"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// TestAYesToOneSubjectServesNoOther is G2 and B016 in law: the yes to one
// contract, amendment or delivery, against the same thing changed on one axis.
func TestAYesToOneSubjectServesNoOther(t *testing.T) {
	accept := func(mend func(*manifest.TaskManifest)) Case {
		s := newScene(t, mend)
		s.say(asR, s.proposal())
		return s.draft(asW, asW, s.acceptance())
	}
	good := yes(Contract(accept(nil)).Gate)
	for axis, mend := range map[string]func(*manifest.TaskManifest){
		"amount":   func(m *manifest.TaskManifest) { m.Budget.MaxOutputTokens++ },
		"payer":    func(m *manifest.TaskManifest) { m.Budget.CostBearer = "bilateral_quota" },
		"target":   func(m *manifest.TaskManifest) { m.Requester.DisplayName = "Somebody else" },
		"argument": func(m *manifest.TaskManifest) { m.Task.Description += "." },
		"file": func(m *manifest.TaskManifest) {
			m.IO.InputArtifacts = []manifest.ArtifactRef{{Name: "a", Digest: signing.DigestOf(nil), MediaType: "text/csv"}}
		},
		"task":        func(m *manifest.TaskManifest) { m.TaskID = must(manifest.ParseTaskID("task_another_1")) },
		"deadline":    func(m *manifest.TaskManifest) { m.Deadline = signing.TimeOf(deadline.Add(time.Second)) },
		"fewer gates": func(m *manifest.TaskManifest) { m.HITLPolicy.RequiredGates = m.HITLPolicy.RequiredGates[:1] },
	} {
		c := accept(mend)
		c.Consents = []Consent{good}
		if d := Contract(c); d.Outcome != Hold {
			t.Errorf("contract, another %s: %s, want hold", axis, d.Outcome)
		}
	}
	same := accept(nil)
	same.Consents = []Consent{good}
	if d := Contract(same); d.Outcome != Allow {
		t.Fatalf("the very contract: %+v", d)
	}
	for axis, k := range map[string]Consent{
		"agent":    func() Consent { k := good; k.Owner = ben.agent.DID(); return k }(),
		"owner":    func() Consent { k := good; k.Owner = ann.owner.DID(); return k }(),
		"contract": func() Consent { k := good; k.Contract = signing.DigestOf([]byte("before the amendment")); return k }(),
	} {
		same.Consents = []Consent{k}
		if d := Contract(same); d.Outcome != Hold {
			t.Errorf("a yes of another %s: %s, want hold", axis, d.Outcome)
		}
	}

	w := newScene(t, nil).working()
	asked := yes(Contract(w.draft(asW, asW, w.asks(2000))).Gate)
	for axis, f := range map[string]manifest.Asked{"amount": w.asks(2001), "less": w.asks(1999)} {
		c := w.draft(asW, asW, f)
		c.Consents = []Consent{asked}
		if d := Contract(c); d.Outcome != Hold {
			t.Errorf("amendment, another %s: %s, want hold", axis, d.Outcome)
		}
	}

	s := newScene(t, nil).delivered()
	done := yes(Contract(s.draft(asR, asR, s.completion())).Gate)
	for axis, mend := range map[string]func(*manifest.Completed){
		"report": func(f *manifest.Completed) {
			f.Report.Checks = append(f.Report.Checks, manifest.CheckResult{Check: "x", Kind: "json_schema", Result: "pass"})
		},
		"instant": func(f *manifest.Completed) { f.Report.At = signing.TimeOf(t0.Add(time.Second)) },
	} {
		f := s.completion()
		mend(&f)
		c := s.draft(asR, asR, f)
		c.Consents = []Consent{done}
		if d := Contract(c); d.Outcome != Hold {
			t.Errorf("delivery, another %s: %s, want hold", axis, d.Outcome)
		}
	}
	d := s.delivery().Delivery
	first := DeliverySubject(d, s.completion().Report)
	for axis, mend := range map[string]func(*manifest.Delivery){
		"revision": func(d *manifest.Delivery) { d.Revision++ },
		"output":   func(d *manifest.Delivery) { d.Output = must(jcs.Parse([]byte(`{"a":1}`))) },
		"file": func(d *manifest.Delivery) {
			d.Artifacts = []manifest.ArtifactRef{{Name: "a", Digest: signing.DigestOf(nil)}}
		},
		"contract": func(d *manifest.Delivery) { d.Contract = signing.DigestOf(nil) },
	} {
		other := d
		mend(&other)
		if task.DigestOf(other) == task.DigestOf(d) || DeliverySubject(other, s.completion().Report) == first {
			t.Errorf("delivery, another %s has the same subject", axis)
		}
	}
}

// TestAnEffectIsJustOneCall is B016 to the letter: 40 to acct-7, once; in any order of its members.
func TestAnEffectIsJustOneCall(t *testing.T) {
	args := func(text string) jcs.Value { return must(jcs.Canonicalize([]byte(text))) }
	pay := Effect{Agent: "coder", Tool: "payment.send", Resources: []string{"mcp://ann/pay/acct-7"}, Arguments: args(`{"amount":40,"to":"acct-7"}`), CallID: "call_1"}
	for what, mend := range map[string]func(*Effect){
		"amount":     func(e *Effect) { e.Arguments = args(`{"amount":40000,"to":"acct-7"}`) },
		"target":     func(e *Effect) { e.Arguments = args(`{"amount":40,"to":"acct-8"}`) },
		"resource":   func(e *Effect) { e.Resources = []string{"mcp://ann/pay/acct-8"} },
		"second use": func(e *Effect) { e.CallID = "call_2" },
		"agent":      func(e *Effect) { e.Agent = "claude" },
		"tool":       func(e *Effect) { e.Tool = "payment.sendall" },
		"more":       func(e *Effect) { e.Arguments = args(`{"amount":40,"to":"acct-7","memo":""}`) },
	} {
		e := pay
		mend(&e)
		if EffectSubject(e) == EffectSubject(pay) {
			t.Errorf("another %s has the same subject", what)
		}
	}
	same := pay
	same.Arguments = args(`{ "to": "acct-7", "amount": 40.0 }`)
	if EffectSubject(same) != EffectSubject(pay) {
		t.Error("members in another order are another subject")
	}
}
