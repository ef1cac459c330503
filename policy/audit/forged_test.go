package audit_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/policy/approval"
	"sealbridge/policy/audit"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// decided is a yes of p's owner to a contract, as mend leaves it, signed by key.
func (s *story) decided(p person, key signing.Signer, mend func(*manifest.GateDecision)) *jcs.Value {
	honest := newStory(s.tb).propose()
	if p.role == manifest.Worker {
		honest.accept()
	}
	raw := must(manifest.OpenValue(honest.events[len(honest.events)-1], nil)).Document().(*manifest.Event)
	var d *jcs.Value
	switch f := raw.Body.Fact.(type) {
	case manifest.Proposed:
		d = f.Decision
	case manifest.Accepted:
		d = f.Decision
	}
	g := *must(manifest.OpenValue(*d, nil)).Document().(*manifest.GateDecision)
	mend(&g)
	return ptr(must(manifest.Sign(&g, key, noon)).Wire())
}

// A yes counts only by the owner, to this gate, this subject, this contract, this task.
func TestAForgedDecisionOpensNoGate(t *testing.T) {
	nothing := func(*manifest.GateDecision) {}
	other := signing.DigestOf([]byte("another"))
	for name, c := range map[string]struct {
		by   signing.Signer
		mend func(*manifest.GateDecision)
		ok   bool
	}{
		"the owner's":           {ann.owner, nothing, true},
		"by the agent":          {ann.agent, func(g *manifest.GateDecision) { g.OwnerDid = ann.agent.DID() }, false},
		"by the other owner":    {ben.owner, func(g *manifest.GateDecision) { g.OwnerDid = ben.owner.DID() }, false},
		"by a stranger":         {eve.owner, func(g *manifest.GateDecision) { g.OwnerDid = eve.owner.DID() }, false},
		"a no":                  {ann.owner, func(g *manifest.GateDecision) { g.Verdict = approval.Deny }, false},
		"another subject":       {ann.owner, func(g *manifest.GateDecision) { g.SubjectDigest = other }, false},
		"another contract":      {ann.owner, func(g *manifest.GateDecision) { g.ContractDigest = other }, false},
		"another gate":          {ann.owner, func(g *manifest.GateDecision) { g.Gate = manifest.BudgetGate }, false},
		"another task":          {ann.owner, func(g *manifest.GateDecision) { g.TaskID = must(manifest.ParseTaskID("task_another_1")) }, false},
		"decided after the act": {ann.owner, func(g *manifest.GateDecision) { g.DecidedAt = signing.TimeOf(noon.Add(time.Hour)) }, false},
	} {
		s := newStory(t)
		f := manifest.Proposed{Manifest: s.payload, Signature: s.block[manifest.Requester], Decision: s.decided(ann, c.by, c.mend)}
		s.force(ann, s.task.Next(ann.agent.DID(), manifest.Body{Fact: f}, s.tick())).ack(ben)
		r := verify(t, s.export(ben))
		if r.Verified != c.ok {
			t.Errorf("%s: verified %v: %+v", name, r.Verified, r.Findings)
		}
	}
}

func TestAMissingDecisionOpensNoGate(t *testing.T) {
	s := newStory(t)
	f := manifest.Proposed{Manifest: s.payload, Signature: s.block[manifest.Requester]}
	s.force(ann, s.task.Next(ann.agent.DID(), manifest.Body{Fact: f}, s.tick()))
	if r := verify(t, s.export(ann)); r.Verified || !has(r, spec.GateOpen) {
		t.Errorf("verified %v: %+v", r.Verified, r.Findings)
	}
}

// The ask that a bundle carries is the one that the decision names.
func TestAnAskThatSaysSomethingElseIsSeen(t *testing.T) {
	s := finished(t)
	docs := s.documents(ann)
	for i, d := range docs {
		if manifest.TypeName(d) != "ask" {
			continue
		}
		ask := must(approval.Open(d))
		ask.Question = "Something harmless?"
		swapped := slices.Clone(docs)
		swapped[i] = must(ask.Value())
		r := verify(t, s.bundle(ann, swapped, s.heads(ann)))
		if !r.Verified || !slices.ContainsFunc(r.Missing, func(e audit.Entry) bool { return e.Rule == "G2" }) {
			t.Errorf("a swapped ask: verified %v, missing %+v", r.Verified, r.Missing)
		}
	}
}

func TestOnlyTheContractsOwnersCertify(t *testing.T) {
	s := finished(t)
	for name, docs := range map[string][]jcs.Value{
		"no certificates":      drop(s.documents(ann), "agent-certificate", "box-key"),
		"no box-keys":          drop(s.documents(ann), "box-key"),
		"a stranger's instead": append(drop(s.documents(ann), "agent-certificate", "box-key"), append(person{"Ben", eve.owner, ben.agent, manifest.Worker}.identity(), ann.identity()...)...),
	} {
		r := verify(t, s.bundle(ann, docs, s.heads(ann)))
		if r.Verified || r.Binding || !has(r, spec.UnknownKey) {
			t.Errorf("%s: verified %v: %+v", name, r.Verified, r.Findings)
		}
	}
}

func drop(docs []jcs.Value, types ...string) []jcs.Value {
	return slices.DeleteFunc(slices.Clone(docs), func(d jcs.Value) bool { return slices.Contains(types, manifest.TypeName(d)) })
}

// What is unsigned or somebody else's is left out of account, whatever it says.
func TestForeignDocumentsChangeNothing(t *testing.T) {
	s := finished(t)
	strange := []jcs.Value{
		must(jcs.Parse([]byte(`{"note":"Ann owes me"}`))),
		must(manifest.Sign(&manifest.Refusal{Type: "sealbridge/refusal", ProtocolVersion: manifest.ProtocolVersion, To: ann.agent.DID(), Digest: signing.DigestOf(nil),
			Reason: "quota", At: signing.TimeOf(noon), Revocations: manifest.RevocationMark{At: signing.TimeOf(noon)}}, eve.agent, noon)).Wire(),
	}
	strange = append(strange, eve.identity()...)
	r := verify(t, s.bundle(ann, append(s.documents(ann), strange...), s.heads(ann)))
	if !r.Verified || !r.Binding {
		t.Errorf("verified %v, binding %v: %+v", r.Verified, r.Binding, r.Findings)
	}
	if len(r.Findings) != len(strange) {
		t.Errorf("%d notes for %d strange documents: %+v", len(r.Findings), len(strange), r.Findings)
	}
}

// A document alone: what is there holds or not; a contract binds only when nothing is absent.
func TestSingleDocuments(t *testing.T) {
	s := newStory(t)
	a, b := s.block[manifest.Requester], s.block[manifest.Worker]
	one, both := must(manifest.Assemble(s.payload, &a, nil)), must(manifest.Assemble(s.payload, &a, &b))
	people := append(ann.identity(), ben.identity()...)
	yes := []jcs.Value{*s.decided(ann, ann.owner, func(*manifest.GateDecision) {}), *s.decided(ben, ben.owner, func(*manifest.GateDecision) {})}
	swapped := must(manifest.Assemble(s.payload, &b, &a))
	for name, c := range map[string]struct {
		docs              []jcs.Value
		verified, binding bool
	}{
		"one signature":                  {[]jcs.Value{one}, true, false},
		"two signatures":                 {[]jcs.Value{both}, true, false},
		"and certificates":               {append([]jcs.Value{both}, people...), true, false},
		"and one decision":               {append([]jcs.Value{both, yes[0]}, people...), true, false},
		"and both decisions":             {append([]jcs.Value{both, yes[0], yes[1]}, people...), true, true},
		"one signature and all the rest": {append([]jcs.Value{one, yes[0], yes[1]}, people...), true, false},
		"each in the other's place":      {append([]jcs.Value{swapped, yes[0], yes[1]}, people...), false, false},
		"no signature":                   {[]jcs.Value{s.payload}, false, false},
		"a certificate":                  {people[:1], true, false},
		"nothing":                        {nil, false, false},
	} {
		r := verify(t, ndjson(c.docs))
		if r.Verified != c.verified || r.Binding != c.binding {
			t.Errorf("%s: verified %v, binding %v: %+v %+v", name, r.Verified, r.Binding, r.Findings, r.Missing)
		}
	}
}

func TestBrokenInputIsAnError(t *testing.T) {
	for _, text := range []string{`{`, `[]`, `nonsense`, `{"type":"sealbridge/bundle","documents":[]}`,
		`{"type":"sealbridge/bundle","protocolVersion":"0.2.0","documents":[],"more":1}`,
		`{"type":"sealbridge/bundl","protocolVersion":"0.2.0","documents":[{}]}`, `{"documents":[{}]}`, `{"a":1,"a":2}`} {
		if _, err := audit.Verify(strings.NewReader(text), audit.Options{}); spec.ReasonOf(err) != spec.Malformed {
			t.Errorf("%s: %v, want malformed", text, err)
		}
	}
}

// V5: a document without its text proves who signed which digest, as what.
func TestARedactedDocumentProvesItsSignatureOnly(t *testing.T) {
	s := finished(t)
	sig, _ := s.events[3].Member("signature")
	good := must(jcs.Parse([]byte(`{"redacted":true,"signature":` + sig.String() + `,"type":"sealbridge/event"}`)))
	if r := verify(t, good.String()); !r.Verified || r.Binding || r.Signatures != 1 || len(r.Proven) != 1 || r.Proven[0].Rule != "V5" {
		t.Errorf("alone: %+v", r)
	}
	for name, text := range map[string]string{
		"as something else": strings.Replace(good.String(), "sealbridge/event", "sealbridge/refusal", 1),
		"of no type":        strings.Replace(good.String(), "sealbridge/event", "sealbridge/else", 1),
		"with more in it":   strings.Replace(good.String(), `"redacted"`, `"more":1,"redacted"`, 1),
		"by another":        strings.Replace(good.String(), s.authors[3].agent.DID().String(), eve.agent.DID().String(), 1),
	} {
		if r := verify(t, text); r.Verified {
			t.Errorf("%s: verified: %+v", name, r.Proven)
		}
	}
	docs := s.documents(ann)
	docs[slices.Index(docs, s.events[3])] = good
	if r := verify(t, s.bundle(ann, docs, s.heads(ann))); r.Verified || r.Binding || !has(r, spec.NotFound) {
		t.Errorf("instead of an event: verified %v: %+v", r.Verified, r.Findings)
	}
}

// Taken out of its bundle a history may hold, but nobody says that it is all of it.
func TestAHistoryWithoutASealBindsNobody(t *testing.T) {
	s := finished(t)
	r := verify(t, ndjson(s.documents(ann)))
	if !r.Verified || r.Binding || !slices.ContainsFunc(r.Missing, func(e audit.Entry) bool { return e.Rule == "V4" }) {
		t.Errorf("verified %v, binding %v: %+v", r.Verified, r.Binding, r.Missing)
	}
	lines := strings.Split(strings.TrimSpace(s.export(ann)), "\n")
	loose := strings.Join(lines[1:len(lines)-1], "\n")
	if r := verify(t, strings.ReplaceAll(loose, "},\n", "}\n")); !r.Binding {
		t.Errorf("with its seal it is whole: %+v %+v", r.Findings, r.Missing)
	}
	cut := strings.ReplaceAll(strings.Join(lines[2:len(lines)-1], "\n"), "},\n", "}\n")
	if r := verify(t, cut); r.Verified {
		t.Error("a seal over other documents holds outside a bundle")
	}
}

// What an agent says after its certificate was taken back breaks its chain (H11).
func TestAfterARevocationNothingStands(t *testing.T) {
	s := finished(t)
	cert := must(manifest.OpenValue(ben.identity()[0], nil))
	for stands, want := range map[int64]bool{100: true, 5: false} {
		r := &manifest.Revocation{Type: "sealbridge/revocation", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: ben.owner.DID(), Target: "agent-certificate",
			TargetDigest: cert.Digest(), Seq: 1, Reason: "lost", At: signing.TimeOf(s.at), Stands: []manifest.Stand{{TaskID: s.m.TaskID,
				ManifestDigest: s.task.ManifestDigest(), Seq: stands, Digest: signing.DigestOf([]byte("e"))}}}
		docs := append(s.documents(ann), must(manifest.Sign(r, ben.owner, s.at)).Wire())
		if got := verify(t, s.bundle(ann, docs, s.heads(ann))); got.Verified != want || !want && !has(got, spec.Revoked) {
			t.Errorf("up to event %d: verified %v: %+v", stands, got.Verified, got.Findings)
		}
	}
}

func TestTextSaysTheSameWordsInGoodAndBad(t *testing.T) {
	s := finished(t)
	cut := slices.DeleteFunc(s.documents(ann), func(d jcs.Value) bool { return d == s.events[len(s.events)-2] })
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"good": {s.export(ann), []string{"VERIFIED · BINDING · SIGNERS NOT KNOWN", "Who ", "Agreed", "Approved", "Delivered", "Checked", "Spent", "Outcome       completed", "Proven", "Claimed", "Missing       nothing"}},
		"bad":  {s.bundle(ann, cut, s.heads(ann)), []string{"NOT VERIFIED · NOT BINDING · SIGNERS NOT KNOWN", "First break", "Still holds", "Can't say", "Ask for", "Who ", "Agreed", "Outcome       can't say", "Proven", "Missing"}},
	} {
		var b strings.Builder
		if err := audit.Text(verify(t, c.text), &b); err != nil {
			t.Fatal(err)
		}
		for _, w := range c.want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s: no %q in\n%s", name, w, b.String())
			}
		}
		if strings.Contains(b.String(), "\u202e") {
			t.Errorf("%s: text of others is not escaped", name)
		}
	}
}
