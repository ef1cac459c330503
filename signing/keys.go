package signing

import (
	"sync"

	"filippo.io/edwards25519"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Keys remembers tables for keys that verify often. It changes speed, never an
// answer: with or without a table the verdict is that of crypto/ed25519. nil
// works, and so does one Keys for many goroutines.
type Keys struct {
	mu         sync.Mutex      // guards all that follows
	good       map[DID]int     // signatures that held, by keys without a table
	young, old map[DID]*powers // the least used generation falls away
}

const (
	// hotAfter: a table costs about as much as five verifications save. Only
	// signatures that held count, so a forger cannot make us build any.
	hotAfter = 4
	// maxYoung: two generations of 256 keys are 8 MB at most.
	maxYoung = 256
	// maxCounted bounds the keys that are counted; then counting starts anew.
	maxCounted = 4096
)

// NewKeys makes an empty one.
func NewKeys() *Keys { return &Keys{} }

// Verify is arithmetic only: the digest, then the signature by the strict rule
// of S5 (crypto/ed25519: S canonical, R compared as bytes; the key was checked
// when its DID was parsed).
func (k *Keys) Verify(payload jcs.Value, c Context, b Block) error {
	return k.VerifyDigest(DigestOf(payload.Bytes()), c, b)
}

// VerifyDigest is Verify for a payload whose digest the caller has computed:
// a document with two blocks is hashed once.
func (k *Keys) VerifyDigest(d Digest, c Context, b Block) error {
	if d.IsZero() || d != b.PayloadDigest {
		return spec.Refuse(spec.BadDigest, "", "S2")
	}
	if b.SignerDid.IsZero() || !k.holds(b.SignerDid, input(c, b), b.Signature.Bytes()) {
		return spec.Refuse(spec.BadSignature, "", "S3")
	}
	return nil
}

func (k *Keys) holds(by DID, msg []byte, sig [64]byte) bool {
	if t := k.table(by); t != nil {
		return t.verify(by.Key(), msg, sig)
	}
	pub := by.Key()
	ok := verifyStranger(by.point(), pub, msg, sig)
	if ok && k.count(by) {
		t := newPowers(pub)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.keep(by, t)
	}
	return ok
}

// table finds the table of a key and makes its generation the young one.
func (k *Keys) table(by DID) *powers {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if t := k.young[by]; t != nil {
		return t
	}
	t := k.old[by]
	if t != nil {
		k.keep(by, t)
	}
	return t
}

func (k *Keys) keep(by DID, t *powers) {
	if k.young == nil || len(k.young) >= maxYoung {
		k.old, k.young = k.young, make(map[DID]*powers, maxYoung)
	}
	k.young[by] = t
	delete(k.good, by)
}

// count says whether this signature makes the key hot.
func (k *Keys) count(by DID) bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.good == nil || len(k.good) >= maxCounted {
		k.good = make(map[DID]int)
	}
	k.good[by]++
	return k.good[by] == hotAfter
}

// powers holds odd multiples of A, 2^64·A, 2^128·A and 2^192·A, so that a
// multiple of A takes 64 doublings, which it shares with that of the base point.
// 15 KB: larger tables take fewer steps and wait longer for memory, where fifty
// keys come in turn.
type powers [4][]affine

// powerWidth is the width of the digits that a table serves: odd, below 2^6.
const powerWidth = 7

// newPowers makes the table of a key that is a point (I1).
func newPowers(pub [32]byte) *powers {
	var a point
	if !a.decode(pub) {
		panic("signing: table of no point") // a DID that is not zero was parsed
	}
	const each = 1 << (powerWidth - 2)
	all := make([]point, 0, 4*each)
	var s sum
	for range 4 {
		all = append(all, oddPoints(&a, each)...)
		for range 64 {
			s.double(&a)
			a.from(&s)
		}
	}
	t, flat := new(powers), affines(all)
	for i := range t {
		t[i] = flat[i*each : (i+1)*each]
	}
	return t
}

// terms are the four parts of a multiple.
func (t *powers) terms(n *edwards25519.Scalar, minus bool) (out [4]term) {
	for i, word := range wideOf(n) {
		out[i] = term{digits: wide{word}.naf(powerWidth), affine: t[i], minus: minus}
	}
	return out
}

// verify is crypto/ed25519.Verify for the key of t: S < L, and the encoding of
// SB - kA equals R byte for byte, so R is a canonical encoding and of that
// point. It works on public values only, so its time may depend on them.
func (t *powers) verify(pub [32]byte, msg []byte, sig [64]byte) bool {
	var r point
	s, err := new(edwards25519.Scalar).SetCanonicalBytes(sig[32:])
	if err != nil || !r.decode([32]byte(sig[:32])) {
		return false
	}
	b, a := basePowers().terms(s, false), t.terms(challenge(pub, msg, sig), true)
	return combine(b[0], b[1], b[2], b[3], a[0], a[1], a[2], a[3]).equals(&r)
}
