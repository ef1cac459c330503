package manifest

import (
	"time"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Sign says d by a key of ours: its bytes are what Open reads. It counts as
// verified because we know ourselves; whose it is, [Trust.Admit] says again.
func Sign(d Document, by signing.Signer, at time.Time) (Verified, error) {
	payload, err := jcs.Encode(d)
	if err != nil {
		return Verified{}, err
	}
	block, err := signing.Sign(payload, d.context(), by, at)
	if err != nil {
		return Verified{}, err
	}
	v, err := jcs.Encode(block)
	if err != nil {
		return Verified{}, err
	}
	s, err := OpenValue(payload.With("signature", v), nil)
	return Verified{Signed: s}, err
}

// SignManifest makes one side's block for a contract, and the payload that it is over.
func SignManifest(m TaskManifest, role Role, by signing.Signer, at time.Time) (signing.Block, jcs.Value, error) {
	m.Signatures = nil
	payload, err := jcs.Encode(m)
	if err != nil {
		return signing.Block{}, payload, err
	}
	if _, err := ReadManifest(payload); err != nil {
		return signing.Block{}, payload, err
	}
	b, err := signing.Sign(payload, manifestContext(role), by, at)
	return b, payload, err
}

func manifestContext(role Role) signing.Context {
	if role == Worker {
		return signing.WorkerManifest
	}
	return signing.RequesterManifest
}

// Assemble is the manifest with the blocks that are there: what a bundle shows.
func Assemble(payload jcs.Value, requester, worker *signing.Block) (jcs.Value, error) {
	pair, err := jcs.Encode(SignaturePair{requester, worker})
	if err != nil {
		return jcs.Value{}, err
	}
	return payload.With("signatures", pair), nil
}

// OpenManifest reads the payload and one side's block inside a proposed or accepted event.
func OpenManifest(payload jcs.Value, b signing.Block, role Role, k *signing.Keys) (TaskManifest, error) {
	if _, ok := payload.Member("signatures"); ok {
		return TaskManifest{}, spec.Refuse(spec.Malformed, "/signatures", "a payload has none")
	}
	if err := k.Verify(payload, manifestContext(role), b); err != nil {
		return TaskManifest{}, spec.At("/signature", err)
	}
	party, _ := payload.Member(string(role))
	if !isParty(party, b.SignerDid.String()) {
		return TaskManifest{}, spec.Refuse(spec.WrongSigner, "/signature/signerDid", "S6")
	}
	m, err := ReadManifest(payload)
	return m, spec.At("/manifest", err)
}
