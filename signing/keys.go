package signing

import (
	"crypto/ed25519"
	"crypto/sha512"
	"sync"

	"filippo.io/edwards25519"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Keys remembers tables for keys that verify often. It changes speed, never an
// answer: with or without a table the verdict is that of crypto/ed25519. nil
// works, and so does one Keys for many goroutines.
type Keys struct {
	mu         sync.Mutex       // guards all that follows
	good       map[DID]int      // signatures that held, by keys without a table
	young, old map[DID]*windows // the least used generation falls away
}

const (
	// hotAfter: a table costs about as much as nine verifications save. Only
	// signatures that held count, so a forger cannot make us build any.
	hotAfter = 8
	// maxYoung: two generations of 64 keys are 28 MB at most.
	maxYoung = 64
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
	ok := ed25519.Verify(pub[:], msg, sig[:])
	if ok && k.count(by) {
		t := newWindows(pub)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.keep(by, t)
	}
	return ok
}

// table finds the table of a key and makes its generation the young one.
func (k *Keys) table(by DID) *windows {
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

func (k *Keys) keep(by DID, t *windows) {
	if k.young == nil || len(k.young) >= maxYoung {
		k.old, k.young = k.young, make(map[DID]*windows, maxYoung)
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

// windows holds j·64^i·A for 1 ≤ j ≤ 32: a multiple of A is then one addition
// for each digit of base 64, without a doubling. 220 KB.
type windows [digits][half]edwards25519.Point

const (
	digitBits = 6
	half      = 1 << (digitBits - 1)
	digits    = 43 // 258 bits, and a canonical scalar has 253
)

// newWindows makes the table of a key that is a point (I1).
func newWindows(pub [32]byte) *windows {
	a, err := new(edwards25519.Point).SetBytes(pub[:])
	if err != nil {
		panic("signing: table of no point") // a DID that is not zero was parsed
	}
	return windowsOf(a)
}

func windowsOf(a *edwards25519.Point) *windows {
	t := new(windows)
	for i := range t {
		t[i][0].Set(a)
		for j := 1; j < half; j++ {
			t[i][j].Add(&t[i][j-1], a)
		}
		a = new(edwards25519.Point).Add(&t[i][half-1], &t[i][half-1])
	}
	return t
}

var baseWindows = sync.OnceValue(func() *windows { return windowsOf(edwards25519.NewGeneratorPoint()) })

// digitsOf writes a canonical scalar in base 64 with digits from -31 to 32.
func digitsOf(s *edwards25519.Scalar) (out [digits]int8) {
	b := s.Bytes()
	carry := 0
	for i := range out {
		bit := i * digitBits
		d := int(b[bit/8]) >> (bit % 8)
		if bit%8 > 8-digitBits && bit/8+1 < len(b) {
			d |= int(b[bit/8+1]) << (8 - bit%8)
		}
		d = d&(1<<digitBits-1) + carry
		if carry = 0; d > half {
			d, carry = d-1<<digitBits, 1
		}
		out[i] = int8(d)
	}
	return out
}

// add puts s times the point of t to sum, or takes it away.
func (t *windows) add(sum *edwards25519.Point, s *edwards25519.Scalar, minus bool) {
	for i, d := range digitsOf(s) {
		switch {
		case d == 0:
		case d > 0 != minus:
			sum.Add(sum, &t[i][max(d, -d)-1])
		default:
			sum.Subtract(sum, &t[i][max(d, -d)-1])
		}
	}
}

// verify is crypto/ed25519.Verify for the key of t: S < L, and the encoding of
// SB - kA equals R byte for byte. It works on public values only, so its time
// may depend on them.
func (t *windows) verify(pub [32]byte, msg []byte, sig [64]byte) bool {
	s, err := new(edwards25519.Scalar).SetCanonicalBytes(sig[32:])
	if err != nil {
		return false
	}
	h := sha512.New()
	h.Write(sig[:32])
	h.Write(pub[:])
	h.Write(msg)
	k, err := new(edwards25519.Scalar).SetUniformBytes(h.Sum(make([]byte, 0, 64)))
	if err != nil {
		return false
	}
	sum := edwards25519.NewIdentityPoint()
	baseWindows().add(sum, s, false)
	t.add(sum, k, true)
	return [32]byte(sum.Bytes()) == [32]byte(sig[:32])
}
