package signing

import (
	"crypto/sha512"
	"sync"

	"filippo.io/edwards25519"
)

// verifyStranger is crypto/ed25519.Verify for a key without a table: S < L, and
// the encoding of SB - kA equals R byte for byte (S5).
//
// R equals it if and only if R is the canonical encoding of a point and
// D = SB - kA - R is the neutral point. Let v be an odd number that L does not
// divide: then vD = 0 if and only if D = 0, because the order of D divides 8L.
// A has order L (I1), so vD = (vS)B - (vk)A - vR with vS and vk mod L. There is
// a v of half the length of L for which vk mod L has half the length too, and
// so half of the doublings fall away. Nothing is drawn by chance, nothing is
// cofactored, no two signatures are mixed: the verdict is the same.
//
// a is pub decoded: the key is known by its DID, whose point was decoded already.
func verifyStranger(a *point, pub [32]byte, msg []byte, sig [64]byte) bool {
	var r point
	s, err := new(edwards25519.Scalar).SetCanonicalBytes(sig[32:])
	if err != nil || !r.decode([32]byte(sig[:32])) {
		return false
	}
	u, v := halve(wideOf(challenge(pub, msg, sig)))
	w := scalarOf(v.size)
	vs, base := wideOf(w.Multiply(w, s)), basePowers()
	oddA, oddR := odds(a), odds(&r)
	return combine(
		term{digits: u.naf(5), cached: oddA[:], minus: !v.negative},
		term{digits: v.size.naf(5), cached: oddR[:], minus: true},
		term{digits: wide{vs[0], vs[1]}.naf(powerWidth), affine: base[0]},
		term{digits: wide{vs[2], vs[3]}.naf(powerWidth), affine: base[2]},
	).isZero()
}

// challenge is k = SHA-512(R, A, M) mod L.
func challenge(pub [32]byte, msg []byte, sig [64]byte) *edwards25519.Scalar {
	h := sha512.New()
	h.Write(sig[:32])
	h.Write(pub[:])
	h.Write(msg)
	var sum [64]byte
	k, err := new(edwards25519.Scalar).SetUniformBytes(h.Sum(sum[:0]))
	if err != nil {
		panic("signing: " + err.Error()) // the length is a constant
	}
	return k
}

// term is a multiple of one point: digits of the number, and the odd multiples
// of the point in one of the two forms.
type term struct {
	digits [257]int8
	cached []cached
	affine []affine
	minus  bool
}

// combine is the sum of the terms; they share their doublings.
func combine(terms ...term) *point {
	p, s := new(point).zero(), new(sum)
	for i := highest(terms); i >= 0; i-- {
		s.double(p)
		for j := range terms {
			t := &terms[j]
			d := t.digits[i]
			switch minus := d < 0 != t.minus; {
			case d == 0:
			case t.affine != nil:
				p.from(s)
				s.addAffine(p, &t.affine[abs(d)/2], minus)
			default:
				p.from(s)
				s.add(p, &t.cached[abs(d)/2], minus)
			}
		}
		p.doubling(s)
	}
	return p
}

// highest is the place of the first digit that is not 0; -1 for none.
func highest(terms []term) int {
	top := -1
	for j := range terms {
		for i := len(terms[j].digits) - 1; i > top; i-- {
			if terms[j].digits[i] != 0 {
				top = i
			}
		}
	}
	return top
}

func abs(d int8) int { return int(max(d, -d)) }

// odds are 1, 3, … 15 times p.
func odds(p *point) (out [8]cached) {
	multiples := oddPoints(p, len(out))
	for i := range out {
		out[i].from(&multiples[i])
	}
	return out
}

// oddPoints are the first n odd multiples of p.
func oddPoints(p *point, n int) []point {
	var twice cached
	var q point
	var s sum
	s.double(p)
	q.from(&s)
	twice.from(&q)
	out := make([]point, 1, n)
	out[0], q = *p, *p
	for len(out) < n {
		s.add(&q, &twice, false)
		q.from(&s)
		out = append(out, q)
	}
	return out
}

// basePowers is the table of the base point.
var basePowers = sync.OnceValue(func() *powers {
	return newPowers([32]byte(edwards25519.NewGeneratorPoint().Bytes()))
})
