package manifest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// inviteScheme stands before an invite's token, so that a person knows what it is.
const inviteScheme = "sealbridge-invite:"

// implied are the members of an invite's block that follow from the rest. A
// token leaves them out: with them it would have 200 characters more than K1 allows.
var implied = []string{"signerDid", "canonicalization", "payloadDigest"}

// InviteToken is a signed invite as one line to send, of at most 900
// characters: sealbridge-invite: and the base64url of the canonical invite,
// whose block keeps signedAt and signature only (K1).
func InviteToken(signed jcs.Value) (string, error) {
	block, _ := signed.Member("signature")
	for _, m := range implied {
		block = block.Without(m)
	}
	token := inviteScheme + base64.RawURLEncoding.EncodeToString(signed.With("signature", block).Bytes())
	if len(token) > maxInviteToken {
		return "", spec.Refuse(spec.TooLarge, "/relay/endpoint", fmt.Sprintf("K1: %d characters, 900 at most", len(token)))
	}
	return token, nil
}

// ParseInviteToken opens a token; white space that a chat put in is taken out.
func ParseInviteToken(token string) (*Invite, Signed, error) {
	token = strings.Join(strings.Fields(token), "")
	b64, ok := strings.CutPrefix(token, inviteScheme)
	if !ok || len(token) > maxInviteToken {
		return nil, Signed{}, spec.Refuse(spec.Malformed, "", "K1: "+inviteScheme+"… of at most 900 characters")
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(b64)
	if err != nil {
		return nil, Signed{}, spec.Refuse(spec.Malformed, "", "K1: the token is not whole")
	}
	short, err := jcs.Parse(raw)
	if err != nil {
		return nil, Signed{}, err
	}
	s, err := OpenValue(withImplied(short), nil)
	if err != nil {
		return nil, Signed{}, err
	}
	inv, ok := s.doc.(*Invite)
	if !ok {
		return nil, Signed{}, spec.Refuse(spec.UnknownType, "/type", "K1: an invite")
	}
	if again, err := InviteToken(s.wire); err != nil || again != token {
		return nil, Signed{}, refuse("/signature", "K1: signedAt and signature only")
	}
	err = within("/expiresAt", s.marks[0].At, inv.ExpiresAt, maxInviteTerm, "K1: 30 days at most")
	if err != nil {
		return nil, Signed{}, err
	}
	return inv, s, nil
}

// withImplied puts back what a token leaves out.
func withImplied(short jcs.Value) jcs.Value {
	block, ok := short.Member("signature")
	owner, named := short.Member("ownerDid")
	if !ok || !named || block.Kind() != '{' {
		return short
	}
	form, _ := jcs.Text(signing.Canonicalization)
	digest, _ := jcs.Text(signing.DigestOf(short.Without("signature").Bytes()).String())
	return short.With("signature", block.With("signerDid", owner).With("canonicalization", form).With("payloadDigest", digest))
}

// ContactProof is HMAC-SHA-256(secret, id and both owner DIDs): who redeems an invite had it (K1).
func ContactProof(secret string, id InviteID, inviter, redeemer signing.DID) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("sealbridge/0.2.0/contact-proof\x00" + id.String() + "\x00" + inviter.String() + "\x00" + redeemer.String()))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// ProofHolds compares in constant time.
func ProofHolds(secret string, id InviteID, inviter, redeemer signing.DID, proof string) bool {
	return hmac.Equal([]byte(proof), []byte(ContactProof(secret, id, inviter, redeemer)))
}
