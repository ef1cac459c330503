package box

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"

	"sealbridge/spec"
)

const underPrefix = "sealbridge/0.2.0/under\x00"

// underKey derives 32 bytes from the secret by HKDF-SHA256.
func underKey(secret [16]byte, salt []byte, purpose, info string) [32]byte {
	k, err := hkdf.Key(sha256.New, secret[:], salt, underPrefix+purpose+"\x00"+info, 32)
	if err != nil {
		panic(err) // only for more than 255 blocks
	}
	return [32]byte(k)
}

func underSalt(secret [16]byte, info string, plain []byte) []byte {
	k := underKey(secret, nil, "salt", info)
	m := hmac.New(sha256.New, k[:])
	m.Write(plain)
	return m.Sum(nil)
}

// SealUnder seals plain under a 128-bit secret that two people share, such as
// an invite's (K1); info says what for, and a blob for one purpose does not
// open as another. The result is salt (32 bytes) ‖ AES-256-GCM, where
//
//	salt = HMAC-SHA256(HKDF(secret, "salt", info), plain)
//	key  = HKDF-SHA256(secret, salt, "key", info), nonce zero
//
// It draws no chance: each plaintext has its own key, so no key and nonce ever
// meet two plaintexts. All that an onlooker learns is the length, and whether
// two blobs are the same.
func SealUnder(secret [16]byte, info string, plain []byte) []byte {
	salt := underSalt(secret, info, plain)
	return underCipher(secret, info, salt).Seal(salt, make([]byte, 12), plain, nil)
}

// OpenUnder opens it.
func OpenUnder(secret [16]byte, info string, sealed []byte) ([]byte, error) {
	if len(sealed) > MaxEnvelope {
		return nil, spec.Refuse(spec.TooLarge, "", "1 MiB")
	}
	if len(sealed) < sha256.Size+tagSize {
		return nil, spec.Refuse(spec.Malformed, "", "shorter than a salt and a tag")
	}
	salt := sealed[:sha256.Size]
	plain, err := underCipher(secret, info, salt).Open(nil, make([]byte, 12), sealed[sha256.Size:], nil)
	if err != nil || !hmac.Equal(salt, underSalt(secret, info, plain)) {
		return nil, &spec.Error{Reason: spec.BadDigest, Limit: "does not open under this secret", Err: err}
	}
	return plain, nil
}

func underCipher(secret [16]byte, info string, salt []byte) cipher.AEAD {
	return chunkCipher(underKey(secret, salt, "key", info))
}
