package manifest

import (
	"strings"

	"sealbridge/signing"
)

// RelayRef is where a gateway collects its mail (R3).
type RelayRef struct {
	Endpoint string      `json:"endpoint" rule:"len=1..300"`
	Did      signing.DID `json:"did"`
}

// String is the address as people hand it out: endpoint and identity. Zero is "".
func (r RelayRef) String() string {
	if r.Did.IsZero() {
		return ""
	}
	return r.Endpoint + "/" + strings.TrimPrefix(r.Did.String(), "did:key:")
}

// AgentCertificate says that an agent key works for an owner (I4).
type AgentCertificate struct {
	Type            string         `json:"type" rule:"const=sealbridge/agent-certificate"`
	ProtocolVersion string         `json:"protocolVersion" rule:"const=0.2.0"`
	OwnerDid        signing.DID    `json:"ownerDid"`
	AgentDid        signing.DID    `json:"agentDid"`
	Serial          int64          `json:"serial" rule:"num=1..1000000000"`
	IssuedAt        signing.Time   `json:"issuedAt"`
	ExpiresAt       signing.Time   `json:"expiresAt"` // ≤ 90 days after issuedAt
	DisplayName     string         `json:"displayName" rule:"len=1..100"`
	Relay           RelayRef       `json:"relay"`
	NextKey         signing.Digest `json:"nextKey"` // SHA-256 of the next owner public key (I8)
}

// BoxKey is the key that mail for an agent is sealed to (R2). Signed by the agent.
type BoxKey struct {
	Type              string         `json:"type" rule:"const=sealbridge/box-key"`
	ProtocolVersion   string         `json:"protocolVersion" rule:"const=0.2.0"`
	AgentDid          signing.DID    `json:"agentDid"`
	OwnerDid          signing.DID    `json:"ownerDid"`
	CertificateDigest signing.Digest `json:"certificateDigest"`
	Seq               int64          `json:"seq" rule:"num=1..1000000000"`
	Kid               signing.Digest `json:"kid"`                    // SHA-256 of the public key
	Key               string         `json:"key" rule:"len=1..2000"` // base64url of the public key
	NotBefore         signing.Time   `json:"notBefore"`
	NotAfter          signing.Time   `json:"notAfter"` // ≤ 21 days after notBefore
}

// Revocation takes something back (I7).
type Revocation struct {
	Type            string         `json:"type" rule:"const=sealbridge/revocation"`
	ProtocolVersion string         `json:"protocolVersion" rule:"const=0.2.0"`
	OwnerDid        signing.DID    `json:"ownerDid"` // of the issuer
	Target          string         `json:"target" rule:"enum=agent-certificate|approver-certificate|capability-token|gate-decision|contact"`
	TargetDigest    signing.Digest `json:"targetDigest"`
	Seq             int64          `json:"seq" rule:"num=1..1000000000"`
	Reason          string         `json:"reason" rule:"len=1..1000"`
	Stands          []Stand        `json:"stands" rule:"items=0..1000"` // of an agent: the last event that stands, for each open task (H11)
	At              signing.Time   `json:"at"`
}

type Stand struct {
	TaskID         TaskID         `json:"taskId"`
	ManifestDigest signing.Digest `json:"manifestDigest"`
	Seq            int64          `json:"seq" rule:"num=0..10000"`
	Digest         signing.Digest `json:"digest"`
}

// Invite opens one contact (K1). Its token is sealbridge-invite: and the
// base64url of its canonical bytes, ≤ 900 characters.
type Invite struct {
	Type            string         `json:"type" rule:"const=sealbridge/invite"`
	ProtocolVersion string         `json:"protocolVersion" rule:"const=0.2.0"`
	InviteID        InviteID       `json:"inviteId"`
	OwnerDid        signing.DID    `json:"ownerDid"`
	Relay           RelayRef       `json:"relay"`
	Secret          string         `json:"secret" rule:"len=22..22"` // 128 bits, base64url
	Ticket          string         `json:"ticket" rule:"len=22..22"` // 128 bits, base64url: 3 envelopes into the mailbox
	ExpiresAt       signing.Time   `json:"expiresAt"`
	NextKey         signing.Digest `json:"nextKey"`
}

// ContactRequest redeems an invite (K1). Signed by the redeemer's owner.
type ContactRequest struct {
	Type            string       `json:"type" rule:"const=sealbridge/contact-request"`
	ProtocolVersion string       `json:"protocolVersion" rule:"const=0.2.0"`
	InviteID        InviteID     `json:"inviteId"`
	OwnerDid        signing.DID  `json:"ownerDid"`                // the redeemer
	To              signing.DID  `json:"to"`                      // the inviter's owner
	Proof           string       `json:"proof" rule:"len=43..43"` // HMAC-SHA-256(secret, id and both owner DIDs), base64url
	Certificate     SignedPart   `json:"certificate"`
	BoxKey          SignedPart   `json:"boxKey"`
	At              signing.Time `json:"at"`
}
