package box

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"sealbridge/signing"
)

// What was sealed once opens for ever: this file must never have to change.
func TestWhatWasSealedBeforeStillOpens(t *testing.T) {
	raw, err := os.ReadFile("testdata/box.json")
	if err != nil {
		t.Fatal(err)
	}
	var v struct {
		Seed, Kid, Envelope, Plain, Info, Salt, Document, Commit string
		ChunkKey, Transfer, Chunk0of1                            string
		UnderSecret, UnderInfo, Under                            string
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	bytesOf := func(text string) []byte {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	k, err := ParsePrivateKey(bytesOf(v.Seed))
	if err != nil || k.Public().Kid().String() != v.Kid {
		t.Fatalf("ParsePrivateKey = %v, %v, want kid %s", k, err, v.Kid)
	}
	h, plain, err := NewKeyring(k).Open([]byte(v.Envelope))
	if err != nil || string(plain) != v.Plain || string(h.info()) != v.Info {
		t.Errorf("Open = %q, %q, %v", h.info(), plain, err)
	}
	salt, err := ParseSalt(v.Salt)
	if err != nil {
		t.Fatal(err)
	}
	document, err := signing.ParseDigest(v.Document)
	if err != nil || Commit(salt, document).String() != v.Commit {
		t.Errorf("Commit = %s, %v, want %s", Commit(salt, document), err, v.Commit)
	}
	chunk, _ := decode(v.Chunk0of1, -1)
	if got, err := OpenChunk([32]byte(bytesOf(v.ChunkKey)), v.Transfer, 0, 1, chunk); err != nil || string(got) != "last chunk" {
		t.Errorf("OpenChunk = %q, %v", got, err)
	}
	under, _ := decode(v.Under, -1)
	if got, err := OpenUnder([16]byte(bytesOf(v.UnderSecret)), v.UnderInfo, under); err != nil || string(got) != "under" {
		t.Errorf("OpenUnder = %q, %v", got, err)
	}
}
