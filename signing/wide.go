package signing

import (
	"encoding/binary"
	"math/bits"

	"filippo.io/edwards25519"
)

// wide is a number of 256 bits, the lowest first.
type wide [4]uint64

// wideOf and scalarOf are the two forms of one number below L.
func wideOf(s *edwards25519.Scalar) (out wide) {
	b := s.Bytes()
	for i := range out {
		out[i] = binary.LittleEndian.Uint64(b[8*i:])
	}
	return out
}

func scalarOf(a wide) *edwards25519.Scalar {
	var b [32]byte
	for i, word := range a {
		binary.LittleEndian.PutUint64(b[8*i:], word)
	}
	s, err := new(edwards25519.Scalar).SetCanonicalBytes(b[:])
	if err != nil {
		panic("signing: a number beyond L")
	}
	return s
}

// naf writes a with odd digits between -2^(width-1) and 2^(width-1), few of
// them not 0 (the non-adjacent form).
func (a wide) naf(width int) (digits [257]int8) {
	words := [6]uint64{a[0], a[1], a[2], a[3]}
	carry, end := 0, a.len()
	for at := 0; at < end || carry != 0; {
		window := words[at/64] >> (at % 64)
		if at%64 > 64-width {
			window |= words[at/64+1] << (64 - at%64)
		}
		d := int(window&(1<<width-1)) + carry
		if d&1 == 0 {
			at++
			continue
		}
		if carry = 0; d >= 1<<(width-1) {
			d, carry = d-1<<width, 1
		}
		digits[at] = int8(d)
		at += width
	}
	return digits
}

func (a wide) len() int {
	for i := 3; i > 0; i-- {
		if a[i] != 0 {
			return 64*i + bits.Len64(a[i])
		}
	}
	return bits.Len64(a[0])
}

func (a wide) less(b wide) bool {
	for i := 3; i > 0; i-- {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return a[0] < b[0]
}

// shifted is a·2^n; the bits above are 0.
func (a wide) shifted(n int) wide {
	for ; n >= 64; n -= 64 {
		a = wide{0, a[0], a[1], a[2]}
	}
	m := uint(n) & 63
	return wide{a[0] << m, a[1]<<m | a[0]>>1>>(63-m), a[2]<<m | a[1]>>1>>(63-m), a[3]<<m | a[2]>>1>>(63-m)}
}

func (a wide) minus(b wide) (out wide) {
	var borrow uint64
	out[0], borrow = bits.Sub64(a[0], b[0], 0)
	out[1], borrow = bits.Sub64(a[1], b[1], borrow)
	out[2], borrow = bits.Sub64(a[2], b[2], borrow)
	out[3], _ = bits.Sub64(a[3], b[3], borrow)
	return out
}

func (a wide) plus(b wide) (out wide) {
	var carry uint64
	out[0], carry = bits.Add64(a[0], b[0], 0)
	out[1], carry = bits.Add64(a[1], b[1], carry)
	out[2], carry = bits.Add64(a[2], b[2], carry)
	out[3], _ = bits.Add64(a[3], b[3], carry)
	return out
}
