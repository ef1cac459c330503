package passkey

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Assertion is what one ceremony came to: three texts of base64url, as the browser gave them.
type Assertion struct {
	AuthenticatorData string `json:"authenticatorData" rule:"len=50..50"`
	ClientDataJSON    string `json:"clientDataJSON" rule:"len=2..2731"`
	Signature         string `json:"signature" rule:"len=11..96"`
}

// The bits of an authenticator's flags. The others say how the key is kept,
// which is nobody's business here, or that more data follows, which is refused.
const (
	userPresent  = 0x01
	userVerified = 0x04
	backedUp     = 0x10
	canBackUp    = 0x08
	reserved     = 0x02 | 0x20
	moreFollows  = 0x40 | 0x80 // a key, extensions: we ask for neither
)

// Check says why a is not this credential's signature over the challenge by a
// verified person at the certified origin; nil if it is. The counter is not
// looked at: passkeys that are kept on several devices do not count, and an
// auditor has no order to hold counts against.
func (c Credential) Check(a Assertion, challenge [32]byte) error {
	k, err := c.key()
	if err != nil {
		return spec.At("/key", err)
	}
	client, ok := decode(a.ClientDataJSON)
	if !ok || len(client) > maxClientData {
		return spec.Refuse(spec.Malformed, "/clientDataJSON", "G10: base64url of 2 KiB at most")
	}
	data, ok := decode(a.AuthenticatorData)
	if !ok || len(data) != authenticatorData {
		return spec.Refuse(spec.Malformed, "/authenticatorData", "G10: base64url of 37 bytes")
	}
	signature, ok := decode(a.Signature)
	if !ok {
		return spec.Refuse(spec.Malformed, "/signature", "G10: base64url")
	}
	if err := c.client(client, challenge); err != nil {
		return spec.At("/clientDataJSON", err)
	}
	if err := c.flags(data); err != nil {
		return spec.At("/authenticatorData", err)
	}
	sum := sha256.Sum256(client)
	if !k.holds(append(bytes.Clone(data), sum[:]...), signature) {
		return spec.Refuse(spec.BadSignature, "/signature", "G10: by the certified passkey")
	}
	return nil
}

// client holds what the browser says: which ceremony, for what, from where. It
// is JSON in a browser's own spelling, read strictly (D1); a browser may say more.
func (c Credential) client(text []byte, challenge [32]byte) error {
	v, err := jcs.Canonicalize(text)
	if err != nil || v.Kind() != '{' {
		return spec.Refuse(spec.Malformed, "", "G10: an object")
	}
	said := func(name string) string {
		member, _ := v.Member(name)
		text, _ := member.Text()
		return text
	}
	_, framed := v.Member("topOrigin")
	cross, there := v.Member("crossOrigin")
	switch {
	case said("type") != "webauthn.get":
		return spec.Refuse(spec.WrongContext, "/type", "G10: webauthn.get")
	case said("challenge") != base64.RawURLEncoding.EncodeToString(challenge[:]):
		return spec.Refuse(spec.BadDigest, "/challenge", "G10: the digest of this decision")
	case said("origin") != c.Origin:
		return spec.Refuse(spec.WrongContext, "/origin", "G10: "+c.Origin)
	case framed, there && cross.String() != "false":
		return spec.Refuse(spec.WrongContext, "/crossOrigin", "G10: not from inside another page")
	}
	return nil
}

// flags holds what the authenticator says: for whom, and that a person was there and was verified.
func (c Credential) flags(data []byte) error {
	rp := sha256.Sum256([]byte(c.RpID))
	f := data[32]
	switch {
	case !bytes.Equal(data[:32], rp[:]):
		return spec.Refuse(spec.WrongContext, "", "G10: made for "+c.RpID)
	case f&userPresent == 0 || f&userVerified == 0:
		return spec.Refuse(spec.VerificationFailed, "", "G10: the person was present and verified")
	case f&(reserved|moreFollows) != 0 || f&backedUp != 0 && f&canBackUp == 0:
		return spec.Refuse(spec.Malformed, "", "G10: flags of an assertion without extensions")
	}
	return nil
}
