package workload

import (
	"crypto/hpke"
	"crypto/rand"
	"errors"
	"time"

	"sealbridge/signing"
	"sealbridge/signing/box"
)

// Seal is an envelope of 2 KiB sealed and opened, and the yardstick: the same
// by crypto/hpke alone, in the same suite (R1).
func Seal() (ours, bare Work, err error) {
	plain := make([]byte, 2<<10)
	if _, err := rand.Read(plain); err != nil {
		return nil, nil, err
	}
	k, err := box.GenerateKey()
	if err != nil {
		return nil, nil, err
	}
	ring := box.NewKeyring(k)
	h := box.Header{V: box.Version, To: Keys(1)[0].DID(), Kid: k.Public().Kid(), ExpiresAt: signing.TimeOf(noon.Add(24 * time.Hour)), Commit: signing.DigestOf([]byte("commit"))}
	ours = func() error {
		envelope, err := box.Seal(k.Public(), h, plain)
		if err != nil {
			return err
		}
		_, _, err = ring.Open(envelope)
		return err
	}
	kem, kdf, aead := hpke.MLKEM768X25519(), hpke.HKDFSHA256(), hpke.AES256GCM()
	priv, err := kem.GenerateKey()
	if err != nil {
		return nil, nil, err
	}
	info := make([]byte, 300) // as long as a header
	bare = func() error {
		sealed, err := hpke.Seal(priv.PublicKey(), kdf, aead, info, plain)
		if err != nil {
			return err
		}
		open, err := hpke.Open(priv, kdf, aead, info, sealed)
		if err == nil && len(open) != len(plain) {
			err = errors.New("sealed bytes came back shorter")
		}
		return err
	}
	return ours, bare, nil
}
