package signing

import (
	"filippo.io/edwards25519/field"
)

// primeOrder decodes the canonical encoding of a point of prime order on
// edwards25519 (I1) and refuses all else. The group of the curve is Z/8 times a
// prime group, so these are the points that can be halved three times, without
// the neutral one. No multiple is computed: a point can be halved if certain
// numbers are squares, and y alone decides it.
//
// On the birational Montgomery curve v² = u³ + Au² + u let u = U/V, where
// U = 1+y and V = 1-y. Then
//
//	u² + Au + 1 is a square                 <=> the point, on the curve, is twice a point
//	(s+A)(s+2) = m², s = 2u + 2√(u²+Au+1)   <=> … and four times a point
//	2(m + s - 2 + 2√(A+2)) is a square      <=> … and eight times a point
//
// The first line: twice a point is where u is a square, and u(u²+Au+1) = v² is
// one. The second is the halving formula: s = t + 1/t for the u-coordinate t of
// a half, and t is a square if and only if s+2 is one; of the two values that s
// can have, one with s+A a square is that of a half, and the product has the
// same character for both. The third line is the quartic Tate pairing with a
// point of order 4 of the curve's 2-isogenous partner, written without its
// y-coordinate. The signs of the roots make no difference. Everything is
// multiplied by a power of V² here, so nothing is divided. The tests hold this
// against [L]A = 0 for each of the eight cosets of the prime group.
func primeOrder(enc [32]byte) (p point, ok bool) {
	if !p.decode(enc) || p.x.Equal(new(field.Element)) == 1 { // x is 0 for the neutral point and the one of order 2
		return p, false
	}
	return p, p.isEightfold()
}

func (p *point) isEightfold() bool {
	var u, v, a, b, root, m, s field.Element
	u.Add(one, &p.y)
	v.Subtract(one, &p.y)
	a.Multiply(&u, &v)
	// root² = U² + AUV + V² = (U+V)² + (A-2)UV, and U+V = 2
	a.Mult32(&a, montgomeryA-2)
	a.Add(&a, four)
	if !squareRoot(&root, &a) {
		return false
	}
	s.Add(&u, &root)
	s.Add(&s, &s)
	a.Mult32(&v, montgomeryA)
	a.Add(&a, &s)
	b.Add(&v, &v)
	b.Add(&b, &s)
	a.Multiply(&a, &b)
	if !squareRoot(&m, &a) {
		return false
	}
	a.Multiply(&v, thirdHalf)
	a.Add(&a, &m)
	a.Add(&a, &s)
	b.Add(&v, &v)
	a.Multiply(&a, &b)
	return isSquare(&a)
}

const montgomeryA = 486662

var (
	one  = new(field.Element).One()
	four = new(field.Element).Mult32(one, 4)
	// rootOfMinusOne is one of the two.
	rootOfMinusOne = func() *field.Element {
		var r field.Element
		r.Pow22523(two()) // 2 is no square, so 2^((p-1)/4) is a root of -1
		r.Square(&r)
		return r.Multiply(&r, two())
	}()
	// thirdHalf is -2 + 2√(A+2). Of the two roots it is the one for which the
	// pairing is trivial on the kernel of the dual isogeny: the odd one.
	thirdHalf = func() *field.Element {
		var r field.Element
		if !squareRoot(&r, new(field.Element).Mult32(one, montgomeryA+2)) {
			panic("signing: no root of A+2")
		}
		if r.IsNegative() == 0 {
			r.Negate(&r)
		}
		r.Subtract(&r, one)
		return r.Add(&r, &r)
	}()
)

func two() *field.Element { return new(field.Element).Mult32(one, 2) }

// canonicalY reads the y-coordinate of an encoding; false is a y of p or more.
func canonicalY(y *field.Element, enc [32]byte) bool {
	enc[31] &= 0x7f
	if _, err := y.SetBytes(enc[:]); err != nil {
		return false
	}
	return [32]byte(y.Bytes()) == enc
}

// squareRoot sets r to a root of a, or says that a is no square.
func squareRoot(r, a *field.Element) bool {
	var try, square field.Element
	try.Pow22523(a) // p = 5 mod 8: a^((p+3)/8) is a root of a or of -a
	try.Multiply(&try, a)
	square.Square(&try)
	if square.Equal(a) == 1 {
		r.Set(&try)
		return true
	}
	square.Negate(&square)
	r.Multiply(&try, rootOfMinusOne)
	return square.Equal(a) == 1
}

// isSquare says whether a, which is not 0, has a root.
func isSquare(a *field.Element) bool {
	var r, square field.Element
	r.Pow22523(a)
	r.Square(&r)
	r.Square(&r) // a^((p-5)/2)
	return r.Multiply(&r, square.Square(a)).Equal(one) == 1
}
