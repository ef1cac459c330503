package box

import (
	"encoding/binary"
	"math/bits"

	"sealbridge/spec"
)

const (
	lengthSize = 4         // bytes before the plaintext that say its length
	minClass   = 1 << 10   // everything short looks the same: most events fit
	maxClass   = 736 << 10 // the largest class whose envelope stays under MaxEnvelope

	// MaxPlain is the longest plaintext in bytes: well above a document of
	// 256 KiB (D1), and an envelope of it stays under [MaxEnvelope].
	MaxPlain = maxClass - lengthSize
)

// class is the padded size for n bytes (R2): 1 KiB, and above it n rounded up
// to a multiple of 2^(⌊log2(n-1)⌋-4), so sixteen classes for each doubling: like
// PADMÉ, but with a fixed number. The waste is under 6.25 %.
func class(n int) int {
	if n <= minClass {
		return minClass
	}
	step := 1 << (bits.Len(uint(n-1)) - 1 - 4)
	return (n + step - 1) / step * step
}

// isClass says whether n is a size that class returns.
func isClass(n int) bool { return n >= minClass && n <= maxClass && class(n) == n }

// Pad returns length (4 bytes, big-endian) ‖ plain ‖ zeros, as long as the size
// class. More than [MaxPlain] bytes are too-large.
func Pad(plain []byte) ([]byte, error) {
	if len(plain) > MaxPlain {
		return nil, spec.Refuse(spec.TooLarge, "", "736 KiB sealed at once")
	}
	out := make([]byte, class(lengthSize+len(plain)), class(lengthSize+len(plain))+tagSize)
	binary.BigEndian.PutUint32(out, uint32(len(plain)))
	copy(out[lengthSize:], plain)
	return out, nil
}

// Unpad takes back what Pad made and nothing else: the class is the one of the
// length, and every byte after the plaintext is zero.
func Unpad(padded []byte) ([]byte, error) {
	if len(padded) < lengthSize {
		return nil, spec.Refuse(spec.Malformed, "", "padding")
	}
	n := int64(binary.BigEndian.Uint32(padded))
	if n > MaxPlain || class(lengthSize+int(n)) != len(padded) {
		return nil, spec.Refuse(spec.Malformed, "", "padding: not the size class of its length")
	}
	end := lengthSize + int(n)
	for _, b := range padded[end:] {
		if b != 0 {
			return nil, spec.Refuse(spec.Malformed, "", "padding: not zero")
		}
	}
	return padded[lengthSize:end:end], nil
}
