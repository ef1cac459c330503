package console_test

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"sealbridge/signing/passkey"
	"sealbridge/spec/vectors"
)

// stricter are the kinds that the law refuses and the library takes, each with its reason.
var stricter = []string{
	"two types",       // D1: no duplicate names
	"a folded name",   // D3: names match exactly
	"a reserved flag", // what it will mean nobody knows yet
	"padded",          // D6: one spelling
}

// TestTheLawAgreesWithTheLibrary: what our own reader takes, an independent one
// takes; what it refuses and the other takes is on a list.
func TestTheLawAgreesWithTheLibrary(t *testing.T) {
	var all []struct {
		Name       string
		Credential passkey.Credential
		Challenge  string
		Assertion  passkey.Assertion
		Word       string
	}
	must(t, json.Unmarshal(vectors.Own(t, "passkey.json"), &all))
	agreed, used := 0, map[string]bool{}
	for _, v := range all {
		err := byLibrary(t, v.Credential, v.Challenge, v.Assertion)
		_, kind, _ := strings.Cut(v.Name, ": ")
		listed := slices.Contains(stricter, kind)
		switch {
		case (v.Word == "ok") == (err == nil):
			agreed++
		case v.Word == "ok":
			t.Errorf("%s: the law takes what the library refuses: %v", v.Name, err)
		case listed:
			used[kind] = true
		default:
			t.Errorf("%s: the library takes what the law refuses (%s), and no reason is listed", v.Name, v.Word)
		}
	}
	for _, kind := range stricter {
		if !used[kind] {
			t.Errorf("%q is on the list, and the library refuses it too", kind)
		}
	}
	if agreed < len(all)*2/3 {
		t.Errorf("only %d of %d agree", agreed, len(all))
	}
}

// user has one passkey.
type user []webauthn.Credential

func (user) WebAuthnID() []byte                           { return []byte("somebody") }
func (user) WebAuthnName() string                         { return "somebody" }
func (user) WebAuthnDisplayName() string                  { return "somebody" }
func (u user) WebAuthnCredentials() []webauthn.Credential { return u }

func byLibrary(t *testing.T, c passkey.Credential, challenge string, a passkey.Assertion) error {
	t.Helper()
	b, err := json.Marshal(map[string]any{"id": c.ID, "rawId": c.ID, "type": "public-key", "clientExtensionResults": map[string]any{},
		"response": map[string]string{"clientDataJSON": a.ClientDataJSON, "authenticatorData": a.AuthenticatorData, "signature": a.Signature}})
	must(t, err)
	parsed, err := protocol.ParseCredentialRequestResponseBytes(b)
	if err != nil {
		return err
	}
	rp, err := webauthn.New(&webauthn.Config{RPID: c.RpID, RPDisplayName: "x", RPOrigins: []string{c.Origin}})
	must(t, err)
	id, err := base64.RawURLEncoding.DecodeString(c.ID)
	must(t, err)
	key, err := base64.RawURLEncoding.DecodeString(c.Key)
	must(t, err)
	who := user{{ID: id, PublicKey: key, Flags: webauthn.CredentialFlags{BackupEligible: parsed.Response.AuthenticatorData.Flags.HasBackupEligible()}}}
	_, err = rp.ValidateLogin(who, webauthn.SessionData{Challenge: challenge, RelyingPartyID: c.RpID, UserID: who.WebAuthnID(), AllowedCredentialIDs: [][]byte{id},
		UserVerification: protocol.VerificationRequired}, parsed)
	return err
}
