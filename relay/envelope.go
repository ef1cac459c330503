package relay

import (
	"time"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Header is all that a relay reads of an envelope (R1).
type Header struct {
	To        signing.DID
	Kid       signing.Digest
	ExpiresAt signing.Time
	Commit    signing.Digest
}

type envelope struct {
	V         int64          `json:"v" rule:"num=1..1"`
	To        signing.DID    `json:"to"`
	Kid       signing.Digest `json:"kid"`
	ExpiresAt signing.Time   `json:"expiresAt"`
	Commit    signing.Digest `json:"commit"`
	Enc       string         `json:"enc" rule:"len=1..4096"`
	Box       string         `json:"box" rule:"len=1..1048576"`
}

var envelopeLimits = jcs.Limits{Bytes: MaxEnvelope, Depth: 8, Values: 32, Number: 32}

// ReadHeader reads the header of an envelope and leaves the sealed part alone.
func ReadHeader(wire []byte) (Header, error) {
	if len(wire) > MaxEnvelope {
		return Header{}, spec.Refuse(spec.TooLarge, "", "1 MiB")
	}
	v, err := jcs.ParseWithin(wire, envelopeLimits)
	if err != nil {
		return Header{}, err
	}
	var e envelope
	if err := jcs.Decode(v, &e); err != nil {
		return Header{}, err
	}
	return Header{e.To, e.Kid, e.ExpiresAt, e.Commit}, nil
}

// Fresh says whether the envelope may still be carried (R1, R6).
func (h Header) Fresh(at time.Time) error {
	switch until := h.ExpiresAt.Time(); {
	case !at.Before(until):
		return spec.Refuse(spec.Expired, "/expiresAt", "R6")
	case until.After(at.Add(MaxLife + Skew)):
		return spec.Refuse(spec.Malformed, "/expiresAt", "≤ 14 days ahead (R1)")
	}
	return nil
}
