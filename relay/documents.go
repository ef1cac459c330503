package relay

import (
	"time"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

const version = "0.2.0"

const (
	typeHello      = "sealbridge/relay-hello"
	typeBinding    = "sealbridge/relay-binding"
	typeReceipt    = "sealbridge/custody-receipt"
	typeCheckpoint = "sealbridge/checkpoint"
)

// SyncMode says what a relay's disk has seen before it answers (R4: nothing
// rests on it).
type SyncMode string

const (
	SyncAlways   SyncMode = "always"   // every put is flushed to the disk
	SyncInterval SyncMode = "interval" // the operating system holds it; power loss may take the last minutes
	SyncMemory   SyncMode = "memory"   // nothing survives the process; tests
)

// Hello is who a relay is and which TLS keys it stands behind (R3).
type Hello struct {
	Type            string           `json:"type" rule:"const=sealbridge/relay-hello"`
	ProtocolVersion string           `json:"protocolVersion" rule:"const=0.2.0"`
	RelayDid        signing.DID      `json:"relayDid"`
	TLSKeys         []signing.Digest `json:"tlsKeys" rule:"items=0..20"` // SHA-256 of each SubjectPublicKeyInfo
	Sync            SyncMode         `json:"sync" rule:"enum=always|interval|memory"`
	Limits          HelloLimits      `json:"limits"`
	At              signing.Time     `json:"at"`
	ExpiresAt       signing.Time     `json:"expiresAt"` // ≤ 7 days after at
}

// HelloLimits are what a key may use.
type HelloLimits struct {
	EnvelopeBytes int64 `json:"envelopeBytes" rule:"num=1..1048576"`
	LifeSeconds   int64 `json:"lifeSeconds" rule:"num=1..1209600"`
	PutsPerSecond int64 `json:"putsPerSecond" rule:"num=1..1000000000"`
	MailCount     int64 `json:"mailCount" rule:"num=1..1000000000"`
	MailBytes     int64 `json:"mailBytes" rule:"num=1..9007199254740991"`
	FileBytes     int64 `json:"fileBytes" rule:"num=1..9007199254740991"`
	WaitSeconds   int64 `json:"waitSeconds" rule:"num=1..60"` // a get waits no longer: on a cluster its answer may go with a node
}

// Binding lends an agent's name to one session key at one relay (R3a).
type Binding struct {
	Type            string       `json:"type" rule:"const=sealbridge/relay-binding"`
	ProtocolVersion string       `json:"protocolVersion" rule:"const=0.2.0"`
	RelayDid        signing.DID  `json:"relayDid"`
	Session         Token        `json:"session"`
	AgentDid        signing.DID  `json:"agentDid"`
	OwnerDid        signing.DID  `json:"ownerDid,omitempty"`
	IssuedAt        signing.Time `json:"issuedAt"`
	ExpiresAt       signing.Time `json:"expiresAt"` // ≤ 24 h after issuedAt
}

// Receipt says that a relay took an envelope (R7). It is also the leaf of the
// relay's log: see [Checkpoint.Includes].
type Receipt struct {
	Type            string         `json:"type" rule:"const=sealbridge/custody-receipt"`
	ProtocolVersion string         `json:"protocolVersion" rule:"const=0.2.0"`
	RelayDid        signing.DID    `json:"relayDid"`
	EnvelopeDigest  signing.Digest `json:"envelopeDigest"`
	Commit          signing.Digest `json:"commit"` // the envelope's: opened with document and salt (R1)
	To              signing.DID    `json:"to"`
	Sequence        int64          `json:"sequence" rule:"num=1..9007199254740991"` // in the mailbox's stream
	At              signing.Time   `json:"at"`
	Sync            SyncMode       `json:"sync" rule:"enum=always|interval|memory"`
	Origin          string         `json:"origin" rule:"len=1..200"` // of the log
	LeafIndex       int64          `json:"leafIndex" rule:"num=0..9007199254740991"`

	wire jcs.Value // as signed
}

// Document is the receipt as the relay signed it, for evidence; the zero Value
// for a receipt that was not opened.
func (r Receipt) Document() jcs.Value { return r.wire }

// Sign, for each document, returns the signed wire form.
func (h Hello) Sign(by signing.Signer) (jcs.Value, error) {
	h.Type, h.ProtocolVersion, h.RelayDid = typeHello, version, by.DID()
	return sign(h, typeHello, by, h.At.Time())
}

// Sign makes the receipt a document.
func (r Receipt) Sign(by signing.Signer) (jcs.Value, error) {
	p, err := r.payload()
	if err != nil {
		return jcs.Value{}, err
	}
	return signPayload(p, typeReceipt, by, r.At.Time())
}

func (r Receipt) payload() (jcs.Value, error) {
	r.Type, r.ProtocolVersion = typeReceipt, version
	return jcs.Encode(r)
}

// Bind signs a binding for this moment.
func Bind(b Binding, by signing.Signer, at time.Time) (jcs.Value, error) {
	b.Type, b.ProtocolVersion, b.AgentDid = typeBinding, version, by.DID()
	b.IssuedAt = signing.TimeOf(at)
	if err := b.check(at); err != nil {
		return jcs.Value{}, err
	}
	return sign(b, typeBinding, by, at)
}

func (b Binding) check(at time.Time) error {
	switch {
	case b.ExpiresAt.Time().Sub(b.IssuedAt.Time()) > MaxBinding:
		return spec.Refuse(spec.Malformed, "/expiresAt", "≤ 24 h")
	case b.IssuedAt.Time().After(at.Add(Skew)):
		return spec.Refuse(spec.Malformed, "/issuedAt", "ahead by more than 60 s (T1)")
	case !at.Before(b.ExpiresAt.Time()):
		return spec.Refuse(spec.Expired, "/expiresAt", "")
	}
	return nil
}

// OpenBinding reads a binding made for this relay and good at this moment.
func OpenBinding(wire []byte, relay signing.DID, at time.Time) (b Binding, err error) {
	_, by, err := open(wire, typeBinding, &b)
	switch {
	case err != nil:
		return Binding{}, err
	case by != b.AgentDid:
		return Binding{}, spec.Refuse(spec.WrongSigner, "/signature/signerDid", "S6")
	case b.RelayDid != relay:
		return Binding{}, spec.Refuse(spec.NotPermitted, "/relayDid", "R3a")
	}
	session, err := b.Session.DID()
	if err != nil {
		return Binding{}, spec.At("/session", err)
	}
	if session == b.AgentDid || session == relay || relay == b.AgentDid || session == b.OwnerDid {
		return Binding{}, spec.Refuse(spec.Malformed, "/session", "I5")
	}
	if err := b.check(at); err != nil {
		return Binding{}, err
	}
	return b, nil
}

// OpenHello reads the hello of the relay that we meant to reach.
func OpenHello(wire []byte, relay signing.DID, at time.Time) (h Hello, err error) {
	_, by, err := open(wire, typeHello, &h)
	switch {
	case err != nil:
		return Hello{}, err
	case by != relay || h.RelayDid != relay:
		return Hello{}, spec.Refuse(spec.WrongSigner, "/relayDid", "R3")
	case h.ExpiresAt.Time().Sub(h.At.Time()) > MaxHello:
		return Hello{}, spec.Refuse(spec.Malformed, "/expiresAt", "≤ 7 days")
	case h.At.Time().After(at.Add(Skew)):
		return Hello{}, spec.Refuse(spec.Malformed, "/at", "ahead by more than 60 s (T1)")
	case !at.Before(h.ExpiresAt.Time()):
		return Hello{}, spec.Refuse(spec.Expired, "/expiresAt", "")
	}
	return h, nil
}

// OpenReceipt reads a receipt of that relay. A receipt does not expire.
func OpenReceipt(wire []byte, relay signing.DID) (Receipt, error) {
	return OpenReceiptWith(nil, wire, relay)
}

// OpenReceiptWith is OpenReceipt for who opens many of one relay; k may be nil.
func OpenReceiptWith(k *signing.Keys, wire []byte, relay signing.DID) (r Receipt, err error) {
	v, by, err := openWith(k, wire, typeReceipt, &r)
	if err != nil {
		return Receipt{}, err
	}
	if by != relay || r.RelayDid != relay {
		return Receipt{}, spec.Refuse(spec.WrongSigner, "/relayDid", "R7")
	}
	r.wire = v
	return r, nil
}

// ReadReceipt is OpenReceipt for a document whose block held in the context of
// a receipt and is by that relay. An auditor checks each block once, by the keys
// that it knows.
func ReadReceipt(v jcs.Value, relay signing.DID) (r Receipt, err error) {
	if err := jcs.Decode(v.Without("signature"), &r); err != nil {
		return Receipt{}, err
	}
	if r.RelayDid != relay {
		return Receipt{}, spec.Refuse(spec.WrongSigner, "/relayDid", "R7")
	}
	r.wire = v
	return r, nil
}

func sign(doc any, typ string, by signing.Signer, at time.Time) (jcs.Value, error) {
	p, err := jcs.Encode(doc)
	if err != nil {
		return jcs.Value{}, err
	}
	return signPayload(p, typ, by, at)
}

func signPayload(p jcs.Value, typ string, by signing.Signer, at time.Time) (jcs.Value, error) {
	c, _ := signing.ContextFor(typ)
	block, err := signing.Sign(p, c, by, at)
	if err != nil {
		return jcs.Value{}, err
	}
	v, err := jcs.Encode(block)
	if err != nil {
		return jcs.Value{}, err
	}
	return p.With("signature", v), nil
}

// open reads a signed document of one type: shape first, then arithmetic (D2).
func open(wire []byte, typ string, doc any) (jcs.Value, signing.DID, error) {
	return openWith(nil, wire, typ, doc)
}

func openWith(k *signing.Keys, wire []byte, typ string, doc any) (v jcs.Value, by signing.DID, err error) {
	if v, err = jcs.Parse(wire); err != nil {
		return jcs.Value{}, by, err
	}
	sig, ok := v.Member("signature")
	if !ok {
		return jcs.Value{}, by, spec.Refuse(spec.Malformed, "/signature", "required")
	}
	block, err := signing.ReadBlock(sig)
	if err != nil {
		return jcs.Value{}, by, spec.At("/signature", err)
	}
	payload := v.Without("signature")
	if err := jcs.Decode(payload, doc); err != nil {
		return jcs.Value{}, by, err
	}
	c, _ := signing.ContextFor(typ)
	if err := k.Verify(payload, c, block); err != nil {
		return jcs.Value{}, by, err
	}
	return v, block.SignerDid, nil
}
