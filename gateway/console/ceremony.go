package console

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

const (
	ceremonyLasts = 5 * time.Minute // as long as a person looks for the key
	maxCeremonies = 64              // begun and not ended; then the oldest goes
)

// ceremony is one question to a passkey, until its answer comes or five minutes
// have passed. It is answered once, by the session that began it.
type ceremony struct {
	session string // its token
	data    webauthn.SessionData
	yes     *gateway.PasskeyYes // of a yes; nil for a registration
	until   time.Time
}

type ceremonies struct {
	mu   sync.Mutex // guards open
	open map[string]ceremony
}

// begin keeps a ceremony under its challenge.
func (c *ceremonies) begin(v *visit, data *webauthn.SessionData, yes *gateway.PasskeyYes, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = map[string]ceremony{}
	}
	for len(c.open) >= maxCeremonies {
		oldest := ""
		for k, x := range c.open {
			if oldest == "" || x.until.Before(c.open[oldest].until) {
				oldest = k
			}
		}
		delete(c.open, oldest)
	}
	c.open[data.Challenge] = ceremony{v.session.token, *data, yes, now.Add(ceremonyLasts)}
}

// end takes a ceremony: whoever answers it again finds nothing (a replay).
func (c *ceremonies) end(v *visit, challenge string, now time.Time) (ceremony, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x, ok := c.open[challenge]
	delete(c.open, challenge)
	if !ok || !now.Before(x.until) || !same(x.session, v.session.token) {
		return x, spec.Refuse(spec.Replayed, "", "this was answered already, or five minutes have passed: begin again")
	}
	return x, nil
}

// person is the owner as WebAuthn wants a user: a handle that says nothing, and one passkey at most.
type person struct {
	handle []byte
	name   string
	has    []webauthn.Credential
}

func (p person) WebAuthnID() []byte                         { return p.handle }
func (p person) WebAuthnName() string                       { return p.name }
func (p person) WebAuthnDisplayName() string                { return p.name }
func (p person) WebAuthnCredentials() []webauthn.Credential { return p.has }

// person is the same for every ceremony of one owner at one console.
func (s *Server) person(v *visit) (person, error) {
	st, err := s.Gateway.Status(v.Context(), owner, gateway.None{})
	if err != nil {
		return person{}, err
	}
	sum := sha256.Sum256([]byte("sealbridge/0.2.0/console\x00" + st.Owner))
	return person{handle: sum[:], name: manifest.Display(st.Name, 60)}, nil
}

// relyingParty is what passkeys are bound to: the name of the site, and its
// origin with its port, because every local program shares the name.
func (v *visit) relyingParty() (*webauthn.WebAuthn, error) {
	return webauthn.New(&webauthn.Config{RPID: v.site().rpID, RPDisplayName: "Sealbridge", RPOrigins: []string{v.site().origin}, AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{UserVerification: protocol.VerificationRequired, ResidentKey: protocol.ResidentKeyRequirementDiscouraged}})
}

// keyKinds are the two that an approver-certificate takes.
var keyKinds = []protocol.CredentialParameter{{Type: protocol.PublicKeyCredentialType, Algorithm: -7}, {Type: protocol.PublicKeyCredentialType, Algorithm: -8}}

// asked is post for a script of ours: it answers in JSON, also with what went wrong.
func (s *Server) asked(pattern string, do func(*visit) (any, error)) {
	s.post(pattern, func(v *visit) error {
		out, err := do(v)
		status := http.StatusOK
		if err != nil {
			var e *spec.Error
			text := ""
			if errors.As(err, &e) {
				text = manifest.Display(e.Limit, 500)
			} else {
				s.Log.Error("console", "path", v.URL.Path, "error", err)
			}
			status, out = statusOf(spec.ReasonOf(err)), map[string]string{"word": string(spec.ReasonOf(err)), "text": text}
		}
		b, err := json.Marshal(out)
		if err != nil {
			return &spec.Error{Reason: spec.Internal, Err: err}
		}
		v.w.Header().Set("Content-Type", "application/json")
		v.w.WriteHeader(status)
		v.w.Write(b) //nolint:errcheck // the browser is gone
		return nil
	})
}

// unproven is what the library found wrong, as a word of ours; its own text is for the log.
func (s *Server) unproven(v *visit, err error) error {
	var p *protocol.Error
	if errors.As(err, &p) {
		s.Log.Info("a passkey's answer was refused", "path", v.URL.Path, "why", p.Details, "more", p.DevInfo)
	}
	return spec.Refuse(spec.VerificationFailed, "", "the passkey's answer does not hold")
}

// challengeIn is the challenge that an answer says it is for.
func challengeIn(client protocol.CollectedClientData) string { return client.Challenge }

func base64url(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// certificateIn reads the approver that a form names.
func certificateIn(v *visit) (signing.Digest, error) {
	return signing.ParseDigest(v.PostFormValue("certificate"))
}
