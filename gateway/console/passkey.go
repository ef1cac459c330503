package console

import (
	"encoding/base64"
	"net/http"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/signing/passkey"
	"sealbridge/spec"
)

// passkeys lists who may answer, and the code of a passkey that was just made.
func (s *Server) passkeys(v *visit) error {
	list, err := s.Gateway.ListApprovers(v.Context(), owner, gateway.None{})
	if err != nil {
		return err
	}
	var b struct {
		Token, Code, Until string
		Approvers          []approver
	}
	b.Token = v.session.token
	if code := v.URL.Query().Get("code"); code != "" {
		offer, err := s.Gateway.Offered(v.Context(), owner, gateway.OfferRef{Code: code})
		switch spec.ReasonOf(err) {
		case "":
			b.Code, b.Until = offer.Code, s.clock(offer.Until)
		case spec.NotFound: // certified meanwhile, or too late: the list says which
		default:
			return err
		}
	}
	for _, a := range list.Approvers {
		b.Approvers = append(b.Approvers, approver{a, s.clock(a.Until), a.Passkey == v.site().origin && a.Here})
	}
	return s.render(v, http.StatusOK, "passkeys", "passkeys", "Passkeys", b)
}

// approver is one row of the page.
type approver struct {
	gateway.ApproverView
	Ends string
	Here bool // this page can use it
}

// newPasskey begins a registration.
func (s *Server) newPasskey(v *visit) (any, error) {
	rp, err := v.relyingParty()
	if err != nil {
		return nil, err
	}
	who, err := s.person(v)
	if err != nil {
		return nil, err
	}
	options, data, err := rp.BeginRegistration(who, webauthn.WithCredentialParameters(keyKinds))
	if err != nil {
		return nil, err
	}
	s.ceremonies.begin(v, data, nil, s.Now())
	return options, nil
}

// offerPasskey ends a registration: the passkey waits for the owner's signature
// under a code, and answers nothing until then. The gateway never signs with the
// owner key for whoever is at this door (G9).
func (s *Server) offerPasskey(v *visit) (any, error) {
	parsed, err := protocol.ParseCredentialCreationResponseBytes([]byte(v.PostFormValue("answer")))
	if err != nil {
		return nil, s.unproven(v, err)
	}
	c, err := s.ceremonies.end(v, challengeIn(parsed.Response.CollectedClientData), s.Now())
	if err != nil {
		return nil, err
	}
	if c.yes != nil {
		return nil, spec.Refuse(spec.WrongContext, "", "that was no registration")
	}
	rp, err := v.relyingParty()
	if err != nil {
		return nil, err
	}
	who, err := s.person(v)
	if err != nil {
		return nil, err
	}
	made, err := rp.CreateCredential(who, c.data, parsed)
	if err != nil {
		return nil, s.unproven(v, err)
	}
	offer, err := s.Gateway.OfferPasskey(v.Context(), owner, passkey.Credential{ID: base64url(made.ID), Key: base64url(made.PublicKey), Origin: v.site().origin, RpID: v.site().rpID})
	if err != nil {
		return nil, err
	}
	return map[string]string{"goto": "/passkeys?code=" + offer.Code}, nil
}

// askPasskey begins a yes: the challenge is the digest of the decision, so that
// the passkey signs this decision and no other (G10).
func (s *Server) askPasskey(v *visit) (any, error) {
	want, err := certificateIn(v)
	if err != nil {
		return nil, err
	}
	yeses, err := s.Gateway.PasskeyYeses(v.Context(), owner, gateway.PasskeyAsk{Ask: v.PathValue("ask"), Origin: v.site().origin})
	if err != nil {
		return nil, err
	}
	for _, yes := range yeses {
		if yes.Certificate != want {
			continue
		}
		rp, err := v.relyingParty()
		if err != nil {
			return nil, err
		}
		who, err := s.holder(v, yes.Credential)
		if err != nil {
			return nil, err
		}
		options, data, err := rp.BeginLogin(who, webauthn.WithChallenge(yes.Challenge[:]))
		if err != nil {
			return nil, err
		}
		s.ceremonies.begin(v, data, &yes, s.Now())
		return options, nil
	}
	return nil, spec.Refuse(spec.Conflict, "", "this passkey cannot answer the question now: load the page again")
}

// holder is the person as the one who has this passkey.
func (s *Server) holder(v *visit, c passkey.Credential) (person, error) {
	who, err := s.person(v)
	if err != nil {
		return who, err
	}
	id, err := base64.RawURLEncoding.DecodeString(c.ID)
	if err != nil {
		return who, &spec.Error{Reason: spec.Internal, Err: err}
	}
	key, err := base64.RawURLEncoding.DecodeString(c.Key)
	if err != nil {
		return who, &spec.Error{Reason: spec.Internal, Err: err}
	}
	who.has = []webauthn.Credential{{ID: id, PublicKey: key}}
	return who, nil
}

// allow ends a yes. The library holds the answer against the ceremony; the
// gateway holds the assertion against the certificate once more, as every
// reader of the evidence will (G10), and only then decides.
func (s *Server) allow(v *visit) (any, error) {
	parsed, err := protocol.ParseCredentialRequestResponseBytes([]byte(v.PostFormValue("answer")))
	if err != nil {
		return nil, s.unproven(v, err)
	}
	c, err := s.ceremonies.end(v, challengeIn(parsed.Response.CollectedClientData), s.Now())
	if err != nil {
		return nil, err
	}
	if c.yes == nil || c.yes.Ask != v.PathValue("ask") {
		return nil, spec.Refuse(spec.WrongContext, "", "that was another question")
	}
	rp, err := v.relyingParty()
	if err != nil {
		return nil, err
	}
	who, err := s.holder(v, c.yes.Credential)
	if err != nil {
		return nil, err
	}
	who.has[0].Flags.BackupEligible = parsed.Response.AuthenticatorData.Flags.HasBackupEligible() // how the key is kept is not certified
	if _, err := rp.ValidateLogin(who, c.data, parsed); err != nil {
		return nil, s.unproven(v, err)
	}
	raw := parsed.Raw.AssertionResponse
	_, err = s.Gateway.AllowByPasskey(v.Context(), owner, gateway.PasskeyAnswer{Ask: c.yes.Ask, Certificate: c.yes.Certificate, DecidedAt: c.yes.DecidedAt,
		Assertion: passkey.Assertion{ClientDataJSON: base64url(raw.ClientDataJSON), AuthenticatorData: base64url(raw.AuthenticatorData), Signature: base64url(raw.Signature)}})
	if err != nil {
		return nil, err
	}
	return map[string]string{"goto": "/asks/" + c.yes.Ask}, nil
}

// choice is one passkey that can say yes to the question of a page.
type choice struct {
	Certificate string
	Label       string
}

// choices are the passkeys of this console that are asked.
func (s *Server) choices(v *visit, ask string) ([]choice, error) {
	yeses, err := s.Gateway.PasskeyYeses(v.Context(), owner, gateway.PasskeyAsk{Ask: ask, Origin: v.site().origin})
	if err != nil {
		return nil, err
	}
	var out []choice
	for _, y := range yeses {
		label := "your passkey"
		if y.Person != manifest.OwnerPerson {
			label = "the passkey of " + manifest.Display(y.Person, 64)
		}
		out = append(out, choice{y.Certificate.String(), label})
	}
	return out, nil
}
