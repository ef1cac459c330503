package signing

import (
	"encoding/json"
	"testing"

	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

type sealed struct {
	Keys map[string]struct {
		SeedHex, PublicKeyHex string
		DID                   DID
	}
	Walkthrough struct {
		Payload                        jcs.Value
		CanonicalPayload, SigningInput string
		PayloadDigest                  Digest
		Context                        Context
		Block                          jcs.Value
	}
	Cases []struct {
		Name, Why string
		Document  json.RawMessage
		Expect    []string
	}
}

func readSealed(t *testing.T) (s sealed) {
	t.Helper()
	readExternal(t, "sealbridge/signatures.json", &s)
	return s
}

func TestSealbridgeWalkthrough(t *testing.T) {
	s := readSealed(t)
	for name, k := range s.Keys {
		by := NewKey([32]byte(unhex(t, k.SeedHex)))
		if key := by.DID().Key(); by.DID() != k.DID || [32]byte(unhex(t, k.PublicKeyHex)) != key {
			t.Errorf("%s: %s %x", name, by.DID(), key)
		}
	}
	w := s.Walkthrough
	if w.Payload.String() != w.CanonicalPayload || DigestOf(w.Payload.Bytes()) != w.PayloadDigest {
		t.Error("another payload")
	}
	b, err := ReadBlock(w.Block)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(input(w.Context, b)); got != w.SigningInput {
		t.Errorf("signing input %s, want %s", got, w.SigningInput)
	}
	again, err := Sign(w.Payload, w.Context, NewKey([32]byte(unhex(t, s.Keys["requesterAgent"].SeedHex))), b.SignedAt.Time())
	if err != nil || again != b {
		t.Errorf("signed again: %+v, %v, want %+v", again, err, b)
	}
}

func TestSealbridgeCases(t *testing.T) {
	s := readSealed(t)
	for _, c := range s.Cases {
		doc, err := jcs.Canonicalize(c.Document)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		for name, k := range map[string]*Keys{"nil": nil, "hot": hotKeys(t, s)} {
			got := answers(k, doc)
			if len(got) != len(c.Expect) {
				t.Errorf("%s, %s keys: %v, want %v (%s)", c.Name, name, got, c.Expect, c.Why)
				continue
			}
			for i, want := range c.Expect {
				if string(got[i]) != want {
					t.Errorf("%s, %s keys: %v, want %v (%s)", c.Name, name, got, c.Expect, c.Why)
				}
			}
		}
	}
	if len(s.Cases) != 20 {
		t.Errorf("%d cases", len(s.Cases))
	}
}

// hotKeys has a table for every key of the file.
func hotKeys(t *testing.T, s sealed) *Keys {
	k := NewKeys()
	for _, key := range s.Keys {
		k.keep(key.DID, newPowers(key.DID.Key()))
	}
	return k
}

// answers says one word for each block of doc, as manifest.Open would: the
// context from the place or the type, the arithmetic, and who may sign (S6).
func answers(k *Keys, doc jcs.Value) (out []spec.Reason) {
	_, one := doc.Member("signature")
	pair, two := doc.Member("signatures")
	if one == two {
		return []spec.Reason{spec.Malformed}
	}
	if one {
		typ, _ := doc.Member("type")
		name, _ := typ.Text()
		c, ok := ContextFor(name)
		if !ok {
			return []spec.Reason{spec.UnknownType}
		}
		block, _ := doc.Member("signature")
		return []spec.Reason{answer(k, doc.Without("signature"), c, block)}
	}
	payload := doc.Without("signatures")
	for _, side := range []struct {
		role, member string
		context      Context
	}{{"requester", "requesterSignature", RequesterManifest}, {"worker", "workerSignature", WorkerManifest}} {
		block, ok := pair.Member(side.member)
		if !ok {
			continue
		}
		word := answer(k, payload, side.context, block)
		if word == "ok" && !party(payload, side.role, block) {
			word = spec.WrongSigner
		}
		out = append(out, word)
	}
	return out
}

func answer(k *Keys, payload jcs.Value, c Context, block jcs.Value) spec.Reason {
	b, err := ReadBlock(block)
	if err == nil {
		err = k.Verify(payload, c, b)
	}
	if err != nil {
		return spec.ReasonOf(err)
	}
	return "ok"
}

// party says whether the signer is that side's agent or its owner.
func party(payload jcs.Value, role string, block jcs.Value) bool {
	signer, _ := block.At("/signerDid")
	for _, name := range []string{"agentDid", "ownerDid"} {
		if did, ok := payload.At("/" + role + "/" + name); ok && did == signer {
			return true
		}
	}
	return false
}
