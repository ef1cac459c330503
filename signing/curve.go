package signing

import (
	"filippo.io/edwards25519/field"
)

// The group of edwards25519, -x² + y² = 1 + dx²y², for public values only: time
// may depend on them. The formulas are those of filippo.io/edwards25519, which
// keeps the cached forms that make them quick to itself; the tests hold each
// operation against it.

// point is (X:Y:Z:T) with x = X/Z, y = Y/Z, xy = T/Z.
type point struct{ x, y, z, t field.Element }

// sum is a point before its coordinates are multiplied out: x = X/Z, y = Y/T.
type sum struct{ x, y, z, t field.Element }

// cached is a point made ready to be added: Y+X, Y-X, 2Z, 2dT.
type cached struct{ plus, minus, z2, t2d field.Element }

// affine is cached with Z = 1, so that one multiplication falls away.
type affine struct{ plus, minus, t2d field.Element }

// dTwice is 2d, d = -121665/121666.
var dTwice = func() *field.Element {
	d := new(field.Element).Mult32(one, 121666)
	d.Invert(d)
	d.Mult32(d, 121665)
	d.Negate(d)
	return d.Add(d, d)
}()

// decode sets p to the point of an encoding; false for the second spellings and
// for what is no point, none of which ever equals the encoding of a point.
func (p *point) decode(enc [32]byte) bool {
	if !canonicalY(&p.y, enc) {
		return false
	}
	var u, v, yy field.Element
	yy.Square(&p.y)
	u.Subtract(&yy, one)
	v.Multiply(&yy, dTwice)
	v.Add(&v, one)
	v.Add(&v, one) // u and v twice as large as usual: the ratio is the same
	u.Add(&u, &u)
	if _, square := p.x.SqrtRatio(&u, &v); square == 0 {
		return false
	}
	negative := int(enc[31] >> 7)
	if p.x.IsNegative() != negative {
		p.x.Negate(&p.x)
	}
	if p.x.IsNegative() != negative {
		return false // x = 0 has no sign
	}
	p.z.Set(one)
	p.t.Multiply(&p.x, &p.y)
	return true
}

// zero makes p the neutral point.
func (p *point) zero() *point {
	*p = point{}
	p.y.Set(one)
	p.z.Set(one)
	return p
}

// isZero says whether p is the neutral point.
func (p *point) isZero() bool { return p.x.Equal(new(field.Element)) == 1 && p.y.Equal(&p.z) == 1 }

// equals says whether p is q, whose Z is 1.
func (p *point) equals(q *point) bool {
	var x, y field.Element
	x.Multiply(&q.x, &p.z)
	y.Multiply(&q.y, &p.z)
	return x.Equal(&p.x) == 1 && y.Equal(&p.y) == 1
}

// from multiplies s out.
func (p *point) from(s *sum) {
	p.doubling(s)
	p.t.Multiply(&s.x, &s.y)
}

// doubling is from without T, which a doubling does not ask for.
func (p *point) doubling(s *sum) {
	p.x.Multiply(&s.x, &s.t)
	p.y.Multiply(&s.y, &s.z)
	p.z.Multiply(&s.z, &s.t)
}

// double sets s to p + p; T of p is not read.
func (s *sum) double(p *point) {
	var xx, yy, zz2, xy field.Element
	xx.Square(&p.x)
	yy.Square(&p.y)
	zz2.Square(&p.z)
	zz2.Add(&zz2, &zz2)
	xy.Add(&p.x, &p.y)
	xy.Square(&xy)
	s.y.Add(&yy, &xx)
	s.z.Subtract(&yy, &xx)
	s.x.Subtract(&xy, &s.y)
	s.t.Subtract(&zz2, &s.z)
}

// add sets s to p + q, or to p - q.
func (s *sum) add(p *point, q *cached, minus bool) {
	var zz2 field.Element
	zz2.Multiply(&p.z, &q.z2)
	s.combine(p, &q.plus, &q.minus, &q.t2d, &zz2, minus)
}

func (s *sum) addAffine(p *point, q *affine, minus bool) {
	var zz2 field.Element
	zz2.Add(&p.z, &p.z)
	s.combine(p, &q.plus, &q.minus, &q.t2d, &zz2, minus)
}

func (s *sum) combine(p *point, plus, minus, t2d, zz2 *field.Element, subtract bool) {
	var pp, mm, tt field.Element
	if subtract {
		plus, minus = minus, plus
	}
	pp.Add(&p.y, &p.x)
	pp.Multiply(&pp, plus)
	mm.Subtract(&p.y, &p.x)
	mm.Multiply(&mm, minus)
	tt.Multiply(&p.t, t2d)
	s.x.Subtract(&pp, &mm)
	s.y.Add(&pp, &mm)
	if subtract {
		s.z.Subtract(zz2, &tt)
		s.t.Add(zz2, &tt)
		return
	}
	s.z.Add(zz2, &tt)
	s.t.Subtract(zz2, &tt)
}

func (c *cached) from(p *point) {
	c.plus.Add(&p.y, &p.x)
	c.minus.Subtract(&p.y, &p.x)
	c.z2.Add(&p.z, &p.z)
	c.t2d.Multiply(&p.t, dTwice)
}

// affines makes points ready, with one inversion for all of them.
func affines(points []point) []affine {
	out := make([]affine, len(points))
	before := make([]field.Element, len(points)+1) // products of the Z before each
	before[0].Set(one)
	for i := range points {
		before[i+1].Multiply(&before[i], &points[i].z)
	}
	var rest, inverse, x, y field.Element
	rest.Invert(&before[len(points)])
	for i := len(points) - 1; i >= 0; i-- {
		inverse.Multiply(&rest, &before[i])
		rest.Multiply(&rest, &points[i].z)
		x.Multiply(&points[i].x, &inverse)
		y.Multiply(&points[i].y, &inverse)
		out[i].plus.Add(&y, &x)
		out[i].minus.Subtract(&y, &x)
		out[i].t2d.Multiply(&x, &y)
		out[i].t2d.Multiply(&out[i].t2d, dTwice)
	}
	return out
}
