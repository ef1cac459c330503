package signing

import (
	"crypto/ed25519"
	"math/big"
	"slices"
	"sync"
	"testing"
	"time"

	"filippo.io/edwards25519"
	"pgregory.net/rapid"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// order is L, the order of the prime group.
var order, _ = new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)

// plusOrder adds n·L to the S of a signature; the S of every accepted signature is canonical (S5).
func plusOrder(sig [64]byte, n int64) (out [64]byte, fits bool) {
	s := slices.Clone(sig[32:])
	slices.Reverse(s)
	sum := new(big.Int).Add(new(big.Int).SetBytes(s), new(big.Int).Mul(order, big.NewInt(n)))
	if sum.BitLen() > 256 {
		return out, false
	}
	copy(out[:32], sig[:32])
	sum.FillBytes(out[32:])
	slices.Reverse(out[32:])
	return out, true
}

func TestWeGiveTheVerdictOfTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed")
		msg := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "msg")
		priv := ed25519.NewKeyFromSeed(seed)
		pub := [32]byte(priv[32:])
		table := newPowers(pub)
		good := [64]byte(ed25519.Sign(priv, msg))
		sigs := [][64]byte{good, {}}
		for n := range int64(16) {
			if s, fits := plusOrder(good, n+1); fits {
				sigs = append(sigs, s)
			}
		}
		flipped := good
		flipped[rapid.IntRange(0, 63).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		sigs = append(sigs, flipped, [64]byte(rapid.SliceOfN(rapid.Byte(), 64, 64).Draw(t, "any")))
		for i, sig := range sigs {
			want := ed25519.Verify(pub[:], msg, sig[:])
			if got, without := table.verify(pub, msg, sig), alone(pub, msg, sig); got != want || without != want || want != (i == 0) {
				t.Fatalf("signature %d %x: table %v, without %v, crypto/ed25519 %v", i, sig, got, without, want)
			}
		}
	})
}

// alone is the verdict without a table.
func alone(pub [32]byte, msg []byte, sig [64]byte) bool {
	var a point
	if !a.decode(pub) {
		panic("no point")
	}
	return verifyStranger(&a, pub, msg, sig)
}

// ours is the verdict with a table and without; a difference is a hole, whatever test meets it.
func ours(pub [32]byte, msg []byte, sig [64]byte) bool {
	with, without := newPowers(pub).verify(pub, msg, sig), alone(pub, msg, sig)
	if with != without {
		panic("a table changes the verdict")
	}
	return with
}

// A scalar at the edges of its digits must not lose a carry.
func TestATableMultipliesEdgeScalars(t *testing.T) {
	for _, s := range [][]byte{{}, {1}, {31}, {32}, {33}, {63}, {64}, {0xff, 0xff, 0xff}} {
		checkMultiple(t, s)
	}
	for i := range 252 {
		v := new(big.Int).Lsh(big.NewInt(1), uint(i))
		for _, w := range []*big.Int{v, new(big.Int).Sub(v, big.NewInt(1)), new(big.Int).Sub(order, v)} {
			b := w.Bytes()
			slices.Reverse(b)
			checkMultiple(t, b)
		}
	}
}

// checkMultiple compares with the library's own multiplication.
func checkMultiple(t *testing.T, little []byte) {
	t.Helper()
	var b [32]byte
	copy(b[:], little)
	s, err := new(edwards25519.Scalar).SetCanonicalBytes(b[:])
	if err != nil {
		t.Fatal(err)
	}
	terms := basePowers().terms(s, false)
	if got := combine(terms[:]...); !theirs(t, got.whole(), new(edwards25519.Point).ScalarBaseMult(s)) {
		t.Errorf("%x times the base point differs", b)
	}
	again := basePowers().terms(s, true)
	if !combine(append(terms[:], again[:]...)...).isZero() {
		t.Errorf("%x times the base point is not taken away again", b)
	}
}

func FuzzVerdict(f *testing.F) {
	f.Add([]byte("seed"), []byte("message"), []byte("signature"), byte(3))
	f.Fuzz(func(t *testing.T, seed, msg, noise []byte, at byte) {
		var sd [32]byte
		copy(sd[:], seed)
		priv := ed25519.NewKeyFromSeed(sd[:])
		pub := [32]byte(priv[32:])
		sig := [64]byte(ed25519.Sign(priv, msg))
		for i, b := range noise {
			sig[(int(at)+i)%64] ^= b
		}
		want := ed25519.Verify(pub[:], msg, sig[:])
		if got := newPowers(pub).verify(pub, msg, sig); got != want {
			t.Fatalf("table %v, crypto/ed25519 %v", got, want)
		}
		if got := alone(pub, msg, sig); got != want {
			t.Fatalf("without a table %v, crypto/ed25519 %v", got, want)
		}
	})
}

func TestKeysNeverChangeAnAnswer(t *testing.T) {
	payload := jcs.EmptyObject
	keys := map[string]*Keys{"nil": nil, "zero": {}, "new": NewKeys()}
	by := NewKey([32]byte{7})
	good, err := Sign(payload, RequesterManifest, by, time.Unix(1900000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	forged := good
	forged.SignedAt = TimeOf(time.Unix(1900000001, 0))
	for name, k := range keys {
		for i := range 3 * hotAfter {
			if err := k.Verify(payload, RequesterManifest, good); err != nil {
				t.Fatalf("%s, use %d: %v", name, i, err)
			}
			for want, err := range map[spec.Reason]error{
				spec.BadSignature: k.Verify(payload, RequesterManifest, forged),
				spec.BadDigest:    k.Verify(jcs.List(), RequesterManifest, good),
			} {
				if spec.ReasonOf(err) != want {
					t.Fatalf("%s, use %d: %v, want %s", name, i, err, want)
				}
			}
			if err := k.Verify(payload, WorkerManifest, good); spec.ReasonOf(err) != spec.BadSignature {
				t.Fatalf("%s, use %d: another context: %v", name, i, err)
			}
		}
		if k != nil && k.table(by.DID()) == nil {
			t.Errorf("%s: no table after %d uses", name, 3*hotAfter)
		}
	}
	for i, b := range []Block{{}, {PayloadDigest: good.PayloadDigest}} {
		if err := (*Keys)(nil).Verify(payload, RequesterManifest, b); err == nil {
			t.Errorf("empty block %d holds", i)
		}
	}
}

func TestOnlySignaturesThatHoldMakeAKeyHot(t *testing.T) {
	k, by := NewKeys(), NewKey([32]byte{8})
	for range 4 * hotAfter {
		if k.holds(by.DID(), []byte("m"), [64]byte{}) {
			t.Fatal("a forged signature holds")
		}
	}
	if len(k.good) != 0 || len(k.young) != 0 {
		t.Errorf("%d counted, %d tables after forgeries only", len(k.good), len(k.young))
	}
}

func TestKeysAreBounded(t *testing.T) {
	k := NewKeys()
	shared := new(powers) // stands for every table: only the bookkeeping is looked at
	first := NewKey([32]byte{1}).DID()
	k.keep(first, shared)
	for i := range 4 * maxYoung {
		k.table(first)
		k.keep(NewKey([32]byte{2, byte(i), byte(i >> 8)}).DID(), shared)
		if n := len(k.young) + len(k.old); n > 2*maxYoung {
			t.Fatalf("%d tables", n)
		}
	}
	if k.table(first) == nil {
		t.Error("a key in use lost its table")
	}
	for i := range 2 * maxCounted {
		k.count(NewKey([32]byte{3, byte(i), byte(i >> 8)}).DID())
		if len(k.good) > maxCounted {
			t.Fatalf("%d keys counted", len(k.good))
		}
	}
}

func TestKeysServeManyAtOnce(t *testing.T) {
	k, by := NewKeys(), NewKey([32]byte{9})
	b, err := Sign(jcs.EmptyObject, RequesterManifest, by, time.Unix(1900000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 2 * hotAfter {
				if err := k.Verify(jcs.EmptyObject, RequesterManifest, b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
