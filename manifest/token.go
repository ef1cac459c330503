package manifest

import (
	"slices"
	"time"

	"sealbridge/manifest/schema"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// CapabilityToken hands the use of a tool to one agent (C2). A root has no
// parent and counts only at the gateway whose agent issued it; every other
// token is a link below a token that its issuer holds, and narrower than that.
type CapabilityToken struct {
	Type            string          `json:"type" rule:"const=sealbridge/capability-token"`
	ProtocolVersion string          `json:"protocolVersion" rule:"const=0.2.0"`
	CapabilityID    CapabilityID    `json:"capabilityId"` // of the grant in the manifest
	TaskID          TaskID          `json:"taskId"`
	ManifestDigest  signing.Digest  `json:"manifestDigest"`
	Issuer          signing.DID     `json:"issuer"`   // the requester's agent
	Audience        signing.DID     `json:"audience"` // the worker's agent, the only one who may use it
	Resource        Resource        `json:"resource"`
	AllowedTools    []string        `json:"allowedTools" rule:"items=1..50,unique,each.len=1..128"`
	ArgConstraints  jcs.Value       `json:"argConstraints,omitempty" rule:"object"` // C3; absent: any arguments
	MaxInvocations  int64           `json:"maxInvocations" rule:"num=1..10000"`
	ExpiresAt       signing.Time    `json:"expiresAt"`
	Depth           int64           `json:"depth" rule:"num=0..15"`             // how many links may follow
	MaxStaleness    int64           `json:"maxStaleness" rule:"num=60..604800"` // seconds that a word of "nothing newer" may be old (I7)
	Parent          *signing.Digest `json:"parent"`                             // null: a root
	Nonce           string          `json:"nonce" rule:"len=22..22"`            // 128 bits, base64url: no two tokens are one

	closed struct { // ArgConstraints, read when the token was opened
		of   string
		read schema.Closed
	}
}

// MaxLinks of a chain, the root with them: a contract is handed on five times
// at most, and what a verifier takes on is bounded by a count (C6).
const MaxLinks = 16

// MaxStaleness where nobody says less: a day, so that a gateway that is off
// over night does not lose its tokens, and a stolen one not a second day (I7).
const MaxStaleness = 24 * time.Hour

func (t *CapabilityToken) check() error {
	switch {
	case t.Issuer == t.Audience:
		return refuse("/audience", "C2: another agent than the issuer")
	case !isBase64(t.Nonce, 16):
		return refuse("/nonce", "C2: 128 bits, base64url")
	case t.Depth >= MaxLinks:
		return refuse("/depth", "C6: 16 links at most")
	}
	c, err := t.Constraints()
	t.closed.of, t.closed.read = t.ArgConstraints.String(), c
	return err
}

// Constraints are those of the arguments, read (C3). Of a token that was opened they hold.
func (t *CapabilityToken) Constraints() (schema.Closed, error) {
	if t.closed.of != "" && t.closed.of == t.ArgConstraints.String() {
		return t.closed.read, nil
	}
	c, err := schema.ParseClosed(t.ArgConstraints)
	return c, spec.At("/argConstraints", err)
}

// Grant is what the token gives, in the words of a manifest.
func (t *CapabilityToken) Grant() Grant {
	return Grant{CapabilityID: t.CapabilityID, Resource: t.Resource.String(), AllowedTools: slices.Clone(t.AllowedTools),
		ArgConstraints: t.ArgConstraints, MaxInvocations: t.MaxInvocations, ExpiresAt: t.ExpiresAt}
}

// Link is what every document of a chain says of its place in it.
type Link struct {
	Task             TaskID
	Manifest         signing.Digest
	Issuer, Audience signing.DID
	Parent           *signing.Digest
	ExpiresAt        signing.Time
	Depth            int64
}

// Linked is a document that stands in a chain of authority: what it gives, it
// has from the one before it (C2).
type Linked interface {
	Document
	Link() Link
}

// Link is the token's place in its chain.
func (t *CapabilityToken) Link() Link {
	return Link{t.TaskID, t.ManifestDigest, t.Issuer, t.Audience, t.Parent, t.ExpiresAt, t.Depth}
}
