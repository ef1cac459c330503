package signing

import (
	"crypto/ed25519"
	"testing"

	"filippo.io/edwards25519"
	"pgregory.net/rapid"
)

// byMultiple is the definition that primeOrder is held against: a canonical
// encoding of a point A with [L]A neutral and A not.
func byMultiple(enc [32]byte) bool {
	a, err := new(edwards25519.Point).SetBytes(enc[:])
	if err != nil || [32]byte(a.Bytes()) != enc || a.Equal(edwards25519.NewIdentityPoint()) == 1 {
		return false
	}
	// [L-1]A = -A if and only if [L]A is the neutral point.
	minusOne, err := new(edwards25519.Scalar).SetCanonicalBytes(append([]byte{1}, make([]byte, 31)...))
	if err != nil {
		panic(err)
	}
	minusOne.Negate(minusOne)
	got := new(edwards25519.Point).VarTimeDoubleScalarBaseMult(minusOne, a, edwards25519.NewScalar())
	return got.Equal(new(edwards25519.Point).Negate(a)) == 1
}

// samePrimeOrder asks both; a difference is a hole, whatever test meets it.
func samePrimeOrder(enc [32]byte) bool {
	want := byMultiple(enc)
	if _, got := primeOrder(enc); got != want {
		panic("primeOrder is not the order of the point")
	}
	return want
}

// torsion lists the eight points of small order.
func torsion() (points [8]*edwards25519.Point) {
	eight, err := new(edwards25519.Point).SetBytes([]byte("\xc7\x17\x6a\x70\x3d\x4d\xd8\x4f\xba\x3c\x0b\x76\x0d\x10\x67\x0f\x2a\x20\x53\xfa\x2c\x39\xcc\xc6\x4e\xc7\xfd\x77\x92\xac\x03\x7a"))
	if err != nil {
		panic(err)
	}
	sum := edwards25519.NewIdentityPoint()
	for i := range points {
		points[i] = new(edwards25519.Point).Set(sum)
		sum.Add(sum, eight)
	}
	return points
}

// A point of the prime group passes, and none of its seven other cosets, with
// either sign; no point of small order; no second spelling of y.
func TestOnlyPrimeOrderPassesInEveryCoset(t *testing.T) {
	small := torsion()
	rapid.Check(t, func(t *rapid.T) {
		priv := ed25519.NewKeyFromSeed(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed"))
		good, err := new(edwards25519.Point).SetBytes(priv[32:])
		if err != nil {
			t.Fatal(err)
		}
		for n, s := range small {
			for _, p := range []*edwards25519.Point{new(edwards25519.Point).Add(good, s), new(edwards25519.Point).Subtract(s, good)} {
				enc := [32]byte(p.Bytes())
				if _, got := primeOrder(enc); got != (n == 0) || got != byMultiple(enc) {
					t.Fatalf("%x, coset %d: %v", enc, n, got)
				}
			}
		}
	})
	for n, s := range small {
		enc := [32]byte(s.Bytes())
		for range 2 {
			if samePrimeOrder(enc) {
				t.Errorf("small point %d passes", n)
			}
			enc[31] ^= 0x80
		}
	}
}

func TestAnyBytesHaveTheOrderOfTheirPoint(t *testing.T) {
	passed := 0
	rapid.Check(t, func(t *rapid.T) {
		if samePrimeOrder([32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "enc"))) {
			passed++
		}
	})
	// The first y from 0 up and from 2^255 down: the edges, and y of p and more.
	for i := range 2000 {
		low, high := [32]byte{byte(i), byte(i >> 8)}, [32]byte{}
		for j := range high {
			high[j] = 0xff
		}
		high[0], high[1] = ^byte(i), ^byte(i>>8)
		for _, enc := range [][32]byte{low, high} {
			for range 2 {
				if samePrimeOrder(enc) {
					passed++
				}
				enc[31] ^= 0x80
			}
		}
	}
	if passed < 100 { // one y in sixteen
		t.Errorf("%d passed: nothing was tried", passed)
	}
}

func FuzzPrimeOrder(f *testing.F) {
	for _, s := range torsion() {
		f.Add(s.Bytes())
	}
	f.Add(edwards25519.NewGeneratorPoint().Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		var enc [32]byte
		copy(enc[:], b)
		samePrimeOrder(enc)
	})
}
