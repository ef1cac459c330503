package signing

import (
	"crypto/ed25519"
	"crypto/sha512"
	"math/big"
	"slices"
	"testing"

	"filippo.io/edwards25519"
	"filippo.io/edwards25519/field"
	"pgregory.net/rapid"
)

// theirs says whether p is q, in the library's own form.
func theirs(t interface{ Fatal(...any) }, p *point, q *edwards25519.Point) bool {
	have, err := new(edwards25519.Point).SetExtendedCoordinates(&p.x, &p.y, &p.z, &p.t)
	if err != nil {
		t.Fatal(err) // not on the curve
	}
	return have.Equal(q) == 1
}

// anyPoint is a point of any order: of the prime group, with torsion, or torsion alone.
func anyPoint(t *rapid.T) (p point, q *edwards25519.Point) {
	q = edwards25519.NewIdentityPoint()
	if !rapid.Bool().Draw(t, "small") {
		key := ed25519.NewKeyFromSeed(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed"))
		if _, err := q.SetBytes(key[32:]); err != nil {
			t.Fatal(err)
		}
	}
	q.Add(q, torsion()[rapid.IntRange(0, 7).Draw(t, "torsion")])
	if !p.decode([32]byte(q.Bytes())) {
		t.Fatalf("%x does not decode", q.Bytes())
	}
	return p, q
}

func TestTheGroupIsTheLibrarys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, P := anyPoint(t)
		q, Q := anyPoint(t)
		var s, d sum
		var ready cached
		var got point
		ready.from(&q)
		flat := affines([]point{q, p})
		for _, minus := range []bool{false, true} {
			want := new(edwards25519.Point).Add(P, Q)
			if minus {
				want.Subtract(P, Q)
			}
			s.add(&p, &ready, minus)
			if got.from(&s); !theirs(t, &got, want) {
				t.Fatalf("cached, minus %v: differs", minus)
			}
			s.addAffine(&p, &flat[0], minus)
			if got.from(&s); !theirs(t, &got, want) {
				t.Fatalf("affine, minus %v: differs", minus)
			}
			if got.isZero() != (want.Equal(edwards25519.NewIdentityPoint()) == 1) {
				t.Fatal("the neutral point is not told apart")
			}
			if got.equals(&q) != (want.Equal(Q) == 1) {
				t.Fatal("equal points are not")
			}
		}
		d.double(&p)
		if got.from(&d); !theirs(t, &got, new(edwards25519.Point).Add(P, P)) {
			t.Fatal("doubled: differs")
		}
	})
}

// What the library decodes and encodes again to the same bytes is decoded here, and nothing else.
func TestADecodedPointHasOneSpelling(t *testing.T) {
	same := func(enc [32]byte) {
		q, err := new(edwards25519.Point).SetBytes(enc[:])
		var p point
		if got, want := p.decode(enc), err == nil && [32]byte(q.Bytes()) == enc; got != want {
			t.Fatalf("%x: decoded %v, want %v", enc, got, want)
		} else if got && !theirs(t, &p, q) {
			t.Fatalf("%x: another point", enc)
		}
	}
	rapid.Check(t, func(t *rapid.T) { same([32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "enc"))) })
	for i := range 300 {
		low, high := [32]byte{byte(i), byte(i >> 8)}, [32]byte(slices.Repeat([]byte{0xff}, 32))
		high[0], high[1] = ^byte(i), ^byte(i>>8)
		for _, enc := range [][32]byte{low, high} {
			same(enc)
			enc[31] ^= 0x80
			same(enc)
		}
	}
}

func (a wide) big() *big.Int {
	n := new(big.Int)
	for i := range a {
		n.Or(n.Lsh(n, 64), new(big.Int).SetUint64(a[len(a)-1-i]))
	}
	return n
}

func TestAChallengeIsHalved(t *testing.T) {
	longest := 0
	check := func(k wide) {
		if k.big().Cmp(order) >= 0 {
			return
		}
		u, v := halve(k)
		bv := v.size.big()
		if v.negative {
			bv.Neg(bv)
		}
		left := new(big.Int).Mul(bv, k.big())
		if left.Sub(left, u.big()).Mod(left, order).Sign() != 0 {
			t.Fatalf("k %v: u = vk does not hold for u %v, v %v", k, u, v)
		}
		if v.size[0]&1 != 1 || !v.size.less(orderL) {
			t.Fatalf("k %v: v %v is even, or L divides it", k, v)
		}
		longest = max(longest, u.len(), v.size.len())
	}
	if orderL.big().Cmp(order) != 0 {
		t.Fatal("L is another number")
	}
	rapid.Check(t, func(t *rapid.T) {
		check(wide{rapid.Uint64().Draw(t, "0"), rapid.Uint64().Draw(t, "1"), rapid.Uint64().Draw(t, "2"), rapid.Uint64Range(0, 1<<60).Draw(t, "3")})
	})
	if longest > 200 {
		t.Errorf("%d bits: nothing is halved", longest)
	}
	for i := range 253 { // the edges: powers of two, and what stands beside them and before L
		power := wide{}
		power[i/64] = 1 << (i % 64)
		for _, k := range []wide{power, power.plus(wide{1}), power.minus(wide{1}), orderL.minus(power), orderL.minus(power).minus(wide{1})} {
			check(k)
		}
	}
	check(wide{})
	check(orderL.minus(wide{1}))
}

// whole gives p its T, which a sum of terms leaves out.
func (p *point) whole() *point {
	var inverse field.Element
	inverse.Invert(&p.z)
	p.t.Multiply(&p.x, &p.y)
	p.t.Multiply(&p.t, &inverse)
	return p
}

func TestTablesHoldOddMultiplesOfPowers(t *testing.T) {
	from := edwards25519.NewGeneratorPoint()
	for i, table := range basePowers() {
		q := new(edwards25519.Point).Set(from)
		for j := range table {
			var s sum
			var p point
			s.addAffine(new(point).zero(), &table[j], false)
			if p.from(&s); !theirs(t, &p, q) {
				t.Errorf("%d times 2^%d times the base point: differs", 2*j+1, 64*i)
			}
			q.Add(q, new(edwards25519.Point).Add(from, from))
		}
		for range 64 {
			from.Add(from, from)
		}
	}
}

func TestDigitsAreTheirNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := wide{rapid.Uint64().Draw(t, "0"), rapid.Uint64().Draw(t, "1"), rapid.Uint64().Draw(t, "2"), rapid.Uint64().Draw(t, "3")}
		for _, width := range []int{5, powerWidth} {
			got := new(big.Int)
			digits := a.naf(width)
			for i := len(digits) - 1; i >= 0; i-- {
				got.Lsh(got, 1)
				if got.Add(got, big.NewInt(int64(digits[i]))); digits[i] != 0 && (digits[i]&1 == 0 || abs(digits[i]) >= 1<<(width-1)) {
					t.Fatalf("digit %d", digits[i])
				}
			}
			if got.Cmp(a.big()) != 0 {
				t.Fatalf("%v in digits of width %d is %v", a, width, got)
			}
		}
	})
}

// A point of small order on R changes the verdict of every cofactored verifier.
// Ours is that of crypto/ed25519: R is compared as it is. The signatures are made
// for the R that they show, so that nothing but the torsion is wrong.
func TestTorsionInRIsSeen(t *testing.T) {
	seed := [32]byte{7}
	priv := ed25519.NewKeyFromSeed(seed[:])
	pub := [32]byte(priv[32:])
	h := sha512.Sum512(seed[:])
	secret, err := new(edwards25519.Scalar).SetBytesWithClamping(h[:32])
	if err != nil {
		t.Fatal(err)
	}
	table := newPowers(pub)
	rapid.Check(t, func(t *rapid.T) {
		msg := rapid.SliceOf(rapid.Byte()).Draw(t, "msg")
		h := sha512.Sum512(msg)
		r, err := new(edwards25519.Scalar).SetUniformBytes(h[:])
		if err != nil {
			t.Fatal(err)
		}
		for n, small := range torsion() {
			var sig [64]byte
			copy(sig[:32], new(edwards25519.Point).Add(new(edwards25519.Point).ScalarBaseMult(r), small).Bytes())
			copy(sig[32:], new(edwards25519.Scalar).MultiplyAdd(challenge(pub, msg, sig), secret, r).Bytes())
			want := ed25519.Verify(pub[:], msg, sig[:])
			if got, without := table.verify(pub, msg, sig), alone(pub, msg, sig); got != want || without != want || want != (n == 0) {
				t.Fatalf("torsion %d: table %v, without %v, crypto/ed25519 %v", n, got, without, want)
			}
		}
	})
}
