package console_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy/audit"
	"sealbridge/signing"
	"sealbridge/signing/passkey"
	"sealbridge/signing/passkey/passkeytest"
)

// certify signs what the console offers under a code, as `approver add --passkey` does in a terminal.
func (o *owner) certify(code string) {
	o.t.Helper()
	offer, err := o.g.Offered(o.t.Context(), gateway.Owner, gateway.OfferRef{Code: code})
	must(o.t, err)
	if offer.Credential.Code(offer.Approver) != code {
		o.t.Fatalf("the code %s is of another passkey", code)
	}
	v, err := manifest.Sign(&manifest.ApproverCertificate{Type: "sealbridge/approver-certificate", ProtocolVersion: manifest.ProtocolVersion, OwnerDid: o.Home.Owner,
		ApproverDid: offer.Approver, Person: manifest.OwnerPerson, Gates: []manifest.Gate{manifest.ContractGate, manifest.DeliveryGate}, Credential: &offer.Credential,
		IssuedAt: signing.TimeOf(o.Clock.Now()), ExpiresAt: signing.TimeOf(o.Clock.Now().Add(time.Hour))}, o.Owner(), o.Clock.Now())
	must(o.t, err)
	_, err = o.g.AddApprover(o.t.Context(), gateway.Owner, gateway.Document{Wire: v.Wire().String()})
	must(o.t, err)
}

// verified is the report on a task's evidence, from files alone.
func (o *owner) verified(task string) audit.Report {
	o.t.Helper()
	b, err := o.g.Export(o.t.Context(), gateway.Owner, gateway.Ref{Task: task})
	must(o.t, err)
	rep, err := audit.Verify(strings.NewReader(b.Text), audit.Options{})
	must(o.t, err)
	return rep
}

func TestInABrowserAPasskeyAllowsAndIsProven(t *testing.T) { // G10
	w := newWindow(t)
	ann, ben := owners(t)
	task := ann.propose("Count lines", "Count the lines of sales.csv")
	ann.allow(manifest.ContractGate)
	ask := ben.asked(manifest.ContractGate)
	ben.open()
	w.run(chromedp.Navigate(ben.link()), visible(".card"))
	_, err := chromedp.Call(w.ctx, webauthn.Enable, webauthn.EnableParams{})
	must(t, err)
	key, err := chromedp.Call(w.ctx, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal, HasResidentKey: true, HasUserVerification: true,
		AutomaticPresenceSimulation: true, IsUserVerified: true, DefaultBackupEligibility: true, DefaultBackupState: true}})
	must(t, err)

	// register: the browser makes it, and it answers nothing until the owner key has signed
	w.run(chromedp.Navigate(ben.s.Origin()+"/passkeys"), visible("#new-passkey"), chromedp.Click(chromedp.CSS("#new-passkey")), visible("#offer code"))
	words := strings.Fields(get(w, chromedp.Text(chromedp.CSS("#offer code"))))
	at := ben.s.Origin() + "/asks/" + ask.AskID.String()
	w.run(chromedp.Navigate(at), visible("#allow"))
	if n := get(w, chromedp.Evaluate[int](`document.querySelectorAll(".allow-passkey").length`)); n != 0 {
		t.Fatalf("%d passkeys answer before the owner signed", n)
	}
	ben.certify(words[len(words)-1])

	// a person who is not verified, and a signature that is none, decide nothing
	w.run(chromedp.Navigate(at), visible(".allow-passkey"))
	bogus, no := true, false
	for _, bad := range []webauthn.SetResponseOverrideBitsParams{{IsBadUV: &bogus}, {IsBogusSignature: &bogus}, {IsBadUP: &bogus}} {
		bad.AuthenticatorID = key.AuthenticatorID
		_, err = chromedp.Call(w.ctx, webauthn.SetResponseOverrideBits, bad)
		must(t, err)
		w.run(chromedp.Navigate(at), visible(".allow-passkey"), chromedp.Click(chromedp.CSS(".allow-passkey")), visible(".answers .told"))
		if said := get(w, chromedp.Text(chromedp.CSS(".answers .told"))); !strings.Contains(said, "Nothing was decided") || ben.state(ask) != "open" {
			t.Fatalf("%+v: the page says %q, the ask is %s", bad, said, ben.state(ask))
		}
	}
	_, err = chromedp.Call(w.ctx, webauthn.SetResponseOverrideBits, webauthn.SetResponseOverrideBitsParams{AuthenticatorID: key.AuthenticatorID, IsBadUV: &no})
	must(t, err)

	// a yes is as large as a no, and no key alone presses it
	w.run(chromedp.Navigate(at), visible(".allow-passkey"))
	if no, yes := w.box("deny"), w.box("to-allow"); no != yes {
		t.Errorf("deny is %v and allow %v: not the same size", no, yes)
	}

	// allow
	w.run(chromedp.Navigate(at), visible(".allow-passkey"), chromedp.Click(chromedp.CSS(".allow-passkey")), visible(".done .state.allowed"))
	ann.asked(manifest.DeliveryGate)
	for _, o := range []*owner{ann, ben} {
		rep := o.verified(task)
		found := false
		for _, a := range rep.Facts.Approvals {
			found = found || a.By == manifest.Worker && a.Presence == "passkey" && a.Proven
		}
		if !rep.Verified || !found {
			t.Errorf("%s's evidence: verified %v, %+v, %+v", o.Home.Certified().DisplayName, rep.Verified, rep.Facts.Approvals, rep.Findings)
		}
	}
	w.run(chromedp.Navigate(ben.s.Origin()+"/passkeys"), visible(".approvers"))
	if s := w.text(); !strings.Contains(s, "passkey of owner") {
		t.Errorf("the list reads: %s", s)
	}
	for _, s := range w.said() {
		if !strings.Contains(s, "403") && !strings.Contains(s, "500") && !strings.Contains(s, "422") { // the refused ones, said by their status
			t.Errorf("the browser complains: %q", s)
		}
	}
}

// options are what a page is told to ask a passkey.
type options struct {
	PublicKey struct {
		Challenge string `json:"challenge"`
	} `json:"publicKey"`
	Word string `json:"word"`
	Goto string `json:"goto"`
}

func (b *browser) ceremony(path string, form url.Values, change ...func(*http.Request)) (int, options) {
	b.o.t.Helper()
	res, text := b.post(path, form, change...)
	var out options
	must(b.o.t, json.Unmarshal([]byte(text), &out))
	return res.StatusCode, out
}

// register makes a passkey as a browser without attestation does, and offers it.
func (b *browser) register(a *passkeytest.Authenticator) string {
	b.o.t.Helper()
	_, o := b.ceremony("/passkeys/new", nil)
	client := []byte(`{"type":"webauthn.create","challenge":"` + o.PublicKey.Challenge + `","origin":"` + a.Credential.Origin + `","crossOrigin":false}`)
	raw := func(s string) []byte { x, err := base64.RawURLEncoding.DecodeString(s); must(b.o.t, err); return x }
	id, key, rp := raw(a.Credential.ID), raw(a.Credential.Key), sha256.Sum256([]byte(a.Credential.RpID))
	data := append(append(append(rp[:], 0x45, 0, 0, 0, 0), make([]byte, 16)...), 0, byte(len(id)))
	data = append(append(data, id...), key...)
	object := append([]byte("\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58"), byte(len(data)))
	answer, err := json.Marshal(map[string]any{"id": a.Credential.ID, "rawId": a.Credential.ID, "type": "public-key", "clientExtensionResults": map[string]any{},
		"response": map[string]string{"clientDataJSON": passkeytest.Base64(client), "attestationObject": passkeytest.Base64(append(object, data...))}})
	must(b.o.t, err)
	status, out := b.ceremony("/passkeys/offer", url.Values{"answer": {string(answer)}})
	if status != http.StatusOK {
		b.o.t.Fatalf("offering: %d %s", status, out.Word)
	}
	if status, out := b.ceremony("/passkeys/offer", url.Values{"answer": {string(answer)}}); status != http.StatusConflict || out.Word != "replayed" {
		b.o.t.Errorf("the same registration again: %d %s", status, out.Word)
	}
	_, code, _ := strings.Cut(out.Goto, "code=")
	return code
}

func answerOf(t *testing.T, a *passkeytest.Authenticator, s passkey.Assertion) url.Values {
	t.Helper()
	b, err := json.Marshal(map[string]any{"id": a.Credential.ID, "rawId": a.Credential.ID, "type": "public-key", "clientExtensionResults": map[string]any{},
		"response": map[string]string{"clientDataJSON": s.ClientDataJSON, "authenticatorData": s.AuthenticatorData, "signature": s.Signature}})
	must(t, err)
	return url.Values{"answer": {string(b)}}
}

func TestAPasskeyAnswersOneQuestionOnce(t *testing.T) { // G10, G3
	ann, _ := owners(t)
	one, two := ann.propose("Count", "Count the lines"), ann.propose("Count again", "Count the lines")
	ann.open()
	a := passkeytest.New(3, "localhost", ann.s.Origin())
	b := ann.loggedIn()
	ann.certify(b.register(a))
	as, err := ann.g.Asks(t.Context(), gateway.Owner, false)
	must(t, err)
	asks := map[string]gateway.AskView{}
	for _, x := range as {
		asks[x.Task] = x
	}
	first, second := asks[one].Ask, asks[two].Ask
	list, err := ann.g.ListApprovers(t.Context(), gateway.Owner, gateway.None{})
	must(t, err)
	cert := url.Values{"certificate": {list.Approvers[0].Digest.String()}}
	begin := func(ask string) [32]byte {
		t.Helper()
		form := url.Values{"certificate": cert["certificate"]}
		status, o := b.ceremony("/asks/"+ask+"/passkey", form)
		raw, err := base64.RawURLEncoding.DecodeString(o.PublicKey.Challenge)
		if err != nil || status != http.StatusOK || len(raw) != 32 {
			t.Fatalf("%d %s %v", status, o.Word, err)
		}
		return [32]byte(raw)
	}
	id1, id2 := first.AskID.String(), second.AskID.String()
	for what, c := range map[string]struct {
		make func(challenge [32]byte) passkey.Assertion
		ask  string
		want string
	}{
		"from another port": {func(c [32]byte) passkey.Assertion {
			return a.AssertAs(c, passkeytest.Ceremony{Origin: "http://localhost:1"})
		}, id1, "verification-failed"},
		"by nobody verified":         {func(c [32]byte) passkey.Assertion { return a.AssertAs(c, passkeytest.Ceremony{Flags: 1}) }, id1, "verification-failed"},
		"by another passkey":         {func(c [32]byte) passkey.Assertion { return passkeytest.New(4, "localhost", ann.s.Origin()).Assert(c) }, id1, "verification-failed"},
		"for another question":       {func(c [32]byte) passkey.Assertion { return a.Assert(c) }, id2, "wrong-context"},
		"for a challenge of its own": {func([32]byte) passkey.Assertion { return a.Assert([32]byte{1}) }, id1, "replayed"},
	} {
		if _, out := b.ceremony("/asks/"+c.ask+"/allow", answerOf(t, a, c.make(begin(id1)))); out.Word != c.want {
			t.Errorf("an answer %s: %q, want %s", what, out.Word, c.want)
		}
	}
	good := answerOf(t, a, a.Assert(begin(id1)))
	other := ann.loggedIn()
	if _, out := other.ceremony("/asks/"+id1+"/allow", url.Values{"answer": good["answer"]}); out.Word != "replayed" {
		t.Errorf("by another session: %q", out.Word)
	}
	good = answerOf(t, a, a.Assert(begin(id1)))
	if res, _ := b.post("/asks/"+id1+"/allow", url.Values{"answer": good["answer"]}, set("Origin", "http://evil.example")); res.StatusCode != http.StatusForbidden {
		t.Errorf("from another page: %s", res.Status)
	}
	late := answerOf(t, a, a.Assert(begin(id1)))
	ann.Clock.Forward(6 * time.Minute)
	if _, out := b.ceremony("/asks/"+id1+"/allow", late); out.Word != "replayed" {
		t.Errorf("after five minutes: %q", out.Word)
	}
	if s := ann.state(first); s != "open" {
		t.Fatalf("the ask is %s", s)
	}
	good = answerOf(t, a, a.Assert(begin(id1)))
	if status, out := b.ceremony("/asks/"+id1+"/allow", url.Values{"answer": good["answer"]}); status != http.StatusOK || ann.state(first) != "allowed" {
		t.Fatalf("%d %s: the ask is %s", status, out.Word, ann.state(first))
	}
	if _, out := b.ceremony("/asks/"+id1+"/allow", url.Values{"answer": good["answer"]}); out.Word != "replayed" {
		t.Errorf("again: %q", out.Word)
	}
	if s := ann.state(second); s != "open" {
		t.Errorf("the other ask is %s", s)
	}
	if rep := ann.verified(one); !rep.Verified || len(rep.Facts.Approvals) != 1 || !rep.Facts.Approvals[0].Proven {
		t.Errorf("verified %v, %+v, %+v", rep.Verified, rep.Facts.Approvals, rep.Findings)
	}
}

func TestAnOfferedPasskeyAnswersNothing(t *testing.T) { // G9
	ann, _ := owners(t)
	ann.propose("Count", "Count the lines")
	ask := ann.asked(manifest.ContractGate)
	ann.open()
	b := ann.loggedIn()
	a := passkeytest.NewEdDSA(3, "localhost", ann.s.Origin())
	code := b.register(a)
	if _, page := b.get("/passkeys?code=" + code); !strings.Contains(page, "sealbridge approver add --passkey "+code) {
		t.Error("the page does not say how to certify it")
	}
	if _, page := b.get("/passkeys?code=%3Cscript%3E"); strings.Contains(page, "<script>") && strings.Contains(page, "%3C") || strings.Contains(page, "One step more") {
		t.Error("a code that is none is shown")
	}
	if _, page := b.get("/asks/" + ask.AskID.String()); strings.Contains(page, "allow-passkey") {
		t.Error("it can answer before the owner signed")
	}
	keys := func() int {
		t.Helper()
		all, err := filepath.Glob(filepath.Join(ann.Home.Dir, "keys", "approver-*.key"))
		must(t, err)
		return len(all)
	}
	ann.Clock.Forward(16 * time.Minute)
	if _, page := b.get("/passkeys?code=" + code); strings.Contains(page, "One step more") || keys() != 1 {
		t.Errorf("after its time it is offered still, with %d keys", keys())
	}
	if code = b.register(a); keys() != 1 {
		t.Errorf("%d keys lie there for one offer", keys())
	}
	ann.certify(code)
	if _, page := b.get("/asks/" + ask.AskID.String()); !strings.Contains(page, "allow-passkey") {
		t.Error("it cannot answer after the owner signed")
	}
}
