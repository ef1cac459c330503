package box

import (
	"bytes"
	"crypto/hpke"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

func newKey(t testing.TB) PrivateKey {
	t.Helper()
	k, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func did(n byte) signing.DID { return signing.NewKey([32]byte{n}).DID() }

func header(k PublicKey) Header {
	return Header{
		V: Version, To: did(1), Kid: k.Kid(),
		ExpiresAt: signing.TimeOf(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)),
		Commit:    signing.DigestOf([]byte("commit")),
	}
}

func seal(t testing.TB, k PublicKey, h Header, plain []byte) []byte {
	t.Helper()
	env, err := Seal(k, h, plain)
	if err != nil {
		t.Fatal(err)
	}
	return env
}

func wantReason(t *testing.T, what string, err error, want spec.Reason) {
	t.Helper()
	if got := spec.ReasonOf(err); got != want {
		t.Errorf("%s: reason %q (%v), want %q", what, got, err, want)
	}
}

func TestWhatIsSealedOpensForItsKeyOnly(t *testing.T) {
	mine, other := newKey(t), newKey(t)
	env := seal(t, mine.Public(), header(mine.Public()), []byte("hello"))
	h, plain, err := NewKeyring(other, mine).Open(env)
	if err != nil || string(plain) != "hello" || h != header(mine.Public()) {
		t.Fatalf("Open = %+v, %q, %v", h, plain, err)
	}
	if _, _, err := NewKeyring(other).Open(env); spec.ReasonOf(err) != spec.UnknownKey {
		t.Errorf("Open with another key = %v, want unknown-key", err)
	}
	ring := NewKeyring(mine)
	ring.Forget(mine.Public().Kid())
	if _, _, err := ring.Open(env); spec.ReasonOf(err) != spec.UnknownKey || ring.Holds(mine.Public().Kid()) {
		t.Errorf("Open after Forget = %v, want unknown-key", err)
	}
	if _, _, err := new(Keyring).Open(env); spec.ReasonOf(err) != spec.UnknownKey {
		t.Errorf("Open by an empty keyring = %v, want unknown-key", err)
	}
}

func TestAKeyHasOneSpellingAndItsNameIsItsDigest(t *testing.T) {
	k := newKey(t)
	again, err := ParsePrivateKey(k.Bytes())
	if err != nil || again.Public().Kid() != k.Public().Kid() || !bytes.Equal(again.Bytes(), k.Bytes()) {
		t.Fatalf("ParsePrivateKey(Bytes) = %v, %v", again, err)
	}
	pub := k.Public()
	if pub.Kid() != signing.DigestFrom(sha256.Sum256(pub.Bytes())) {
		t.Errorf("Kid is not SHA-256 of the public key")
	}
	text := pub.String()
	if got, err := ParsePublicKeyText(text); err != nil || got.Kid() != pub.Kid() {
		t.Fatalf("ParsePublicKeyText = %v", err)
	}
	if seed := fmt.Sprintf("%x", k.Bytes()); strings.Contains(fmt.Sprintf("%v %+v %#v", k, k, k), seed) {
		t.Errorf("a printed private key shows its seed")
	}
	for name, bad := range map[string]string{
		"padding": text + "==", "newline": text[:800] + "\n" + text[800:], "cr": "\r" + text, "short": text[:len(text)-2],
		"loose bits": text[:len(text)-1] + string(text[len(text)-1]+1), "standard alphabet": strings.Repeat("+", len(text)), "empty": "",
	} {
		if _, err := ParsePublicKeyText(bad); spec.ReasonOf(err) != spec.Malformed {
			t.Errorf("ParsePublicKeyText(%s) = %v, want malformed", name, err)
		}
	}
	if _, err := ParsePublicKey(bytes.Repeat([]byte{255}, PublicKeySize)); spec.ReasonOf(err) != spec.Malformed {
		t.Errorf("a key with coefficients out of range = %v, want malformed", err)
	}
}

func TestAnEnvelopeIsCanonicalJSON(t *testing.T) {
	k := newKey(t)
	env := seal(t, k.Public(), header(k.Public()), []byte("x"))
	v, err := jcs.ParseWithin(env, jcs.Limits{Bytes: MaxEnvelope, Depth: 2, Values: 20, Number: 32})
	if err != nil || !bytes.Equal(v.Bytes(), env) {
		t.Fatalf("the envelope is not canonical: %v", err)
	}
	rest, err := jcs.Parse([]byte(header(k.Public()).text()))
	if err != nil || rest.String() != v.Without("enc").Without("box").String() {
		t.Errorf("info is not JCS of the header without enc and box: %v", err)
	}
}

func TestAnyChangedByteOfAnEnvelopeDoesNotOpen(t *testing.T) {
	k := newKey(t)
	env := seal(t, k.Public(), header(k.Public()), []byte("x"))
	ring := NewKeyring(k)
	step := 1
	if testing.Short() {
		step = 17
	}
	for i := 0; i < len(env); i += step {
		bad := bytes.Clone(env)
		bad[i] ^= 1
		if _, _, err := ring.Open(bad); err == nil {
			t.Fatalf("byte %d changed from %q to %q and it opens", i, env[i], bad[i])
		}
	}
}

func TestAnEnvelopeOfAnotherShapeIsRefused(t *testing.T) {
	k := newKey(t)
	env := string(seal(t, k.Public(), header(k.Public()), []byte("x")))
	for name, bad := range map[string]string{
		"empty":         "",
		"space":         strings.Replace(env, `,"v"`, `, "v"`, 1),
		"v 2":           strings.Replace(env, `"v":1`, `"v":2`, 1),
		"v 1.0":         strings.Replace(env, `"v":1`, `"v":1.0`, 1),
		"one more":      strings.Replace(env, `"v":1`, `"v":1,"w":1`, 1),
		"trailing":      env + "\n",
		"escape":        strings.Replace(env, `"kid"`, `"k\u0069d"`, 1),
		"null commit":   strings.Replace(env, `"commit":"sha256`, `"commit":null,"x":"sha256`, 1),
		"upper digest":  strings.Replace(env, `"kid":"sha256:`, `"kid":"SHA256:`, 1),
		"time as +0":    strings.Replace(env, `05Z`, `05+00:00`, 1),
		"another class": strings.Replace(env, `{"box":"`, `{"box":"AAAA`, 1),
		"enc too short": strings.Replace(env, `"enc":"`, `"enc":"","enc":"`, 1),
	} {
		if bad == env {
			t.Fatalf("%s: nothing was changed", name)
		}
		_, err := ReadHeader([]byte(bad))
		wantReason(t, name, err, spec.Malformed)
	}
	_, err := ReadHeader(make([]byte, MaxEnvelope+1))
	wantReason(t, "more than 1 MiB", err, spec.TooLarge)
}

func TestSealRefusesAnIncompleteHeader(t *testing.T) {
	k, other := newKey(t), newKey(t)
	for name, change := range map[string]func(*Header){
		"v": func(h *Header) { h.V = 2 }, "to": func(h *Header) { h.To = signing.DID{} },
		"expiresAt": func(h *Header) { h.ExpiresAt = signing.Time{} }, "commit": func(h *Header) { h.Commit = signing.Digest{} },
	} {
		h := header(k.Public())
		change(&h)
		_, err := Seal(k.Public(), h, nil)
		wantReason(t, name, err, spec.Malformed)
	}
	_, err := Seal(k.Public(), header(other.Public()), nil)
	wantReason(t, "kid of another key", err, spec.UnknownKey)
	_, err = Seal(PublicKey{}, header(k.Public()), nil)
	wantReason(t, "no key", err, spec.UnknownKey)
	_, err = Seal(k.Public(), header(k.Public()), make([]byte, MaxPlain+1))
	wantReason(t, "too long", err, spec.TooLarge)
	env := seal(t, k.Public(), header(k.Public()), make([]byte, MaxPlain))
	if len(env) > MaxEnvelope {
		t.Errorf("the longest plaintext makes an envelope of %d bytes, over %d", len(env), MaxEnvelope)
	}
	if _, plain, err := NewKeyring(k).Open(env); err != nil || len(plain) != MaxPlain {
		t.Errorf("opening the longest: %d bytes, %v", len(plain), err)
	}
}

func TestPaddingWastesLittleAndComesBackExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(0, 3000), rapid.IntRange(0, MaxPlain)).Draw(t, "n")
		plain := bytes.Repeat([]byte{7}, n)
		padded, err := Pad(plain)
		if err != nil || !isClass(len(padded)) {
			t.Fatalf("Pad(%d bytes) = %d bytes, %v", n, len(padded), err)
		}
		if waste := len(padded) - n; len(padded) > minClass && float64(waste) > 0.12*float64(n) {
			t.Fatalf("%d bytes are padded to %d", n, len(padded))
		}
		if got, err := Unpad(padded); err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("Unpad(Pad(%d bytes)) = %v", n, err)
		}
		for name, bad := range map[string][]byte{
			"next class": append(bytes.Clone(padded), make([]byte, class(len(padded)+1)-len(padded))...),
			"cut":        padded[:len(padded)-1],
		} {
			if _, err := Unpad(bad); err == nil {
				t.Fatalf("Unpad(%s of %d) is accepted", name, n)
			}
		}
		if n+lengthSize < len(padded) {
			padded[len(padded)-1] = 1
			if _, err := Unpad(padded); err == nil {
				t.Fatalf("Unpad accepts a padding that is not zero")
			}
		}
	})
}

func TestALetterIsReadAsItWasWritten(t *testing.T) {
	doc, err := jcs.Parse([]byte(`{"a":[1,{"b":null}]}`))
	if err != nil {
		t.Fatal(err)
	}
	cert := signing.DigestOf([]byte("certificate"))
	for _, c := range []*signing.Digest{nil, &cert} {
		l := Letter{From: did(2), To: did(1), Salt: SaltFrom([16]byte{9}), CertificateDigest: c, Document: doc}
		plain, err := l.Plain()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadLetter(plain)
		if err != nil {
			t.Fatal(err)
		}
		if got.From != l.From || got.To != l.To || got.Salt != l.Salt || got.Document.String() != doc.String() {
			t.Errorf("ReadLetter = %+v, want %+v", got, l)
		}
		if (c == nil) != (got.CertificateDigest == nil) || c != nil && *got.CertificateDigest != cert {
			t.Errorf("certificateDigest = %v, want %v", got.CertificateDigest, c)
		}
		for _, bad := range []string{`"from"`, `"salt"`, `"document"`, `"certificateDigest"`} {
			if _, err := ReadLetter(bytes.Replace(plain, []byte(bad), []byte(bad[:2]+"x"+bad[2:]), 1)); err == nil {
				t.Errorf("a letter without %s is read", bad)
			}
		}
	}
}

func TestACommitBindsSaltAndDocument(t *testing.T) {
	doc := signing.DigestOf([]byte("document"))
	salt := SaltFrom([16]byte{1, 2, 3})
	raw := append([]byte{1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, func() []byte { s := doc.Sum(); return s[:] }()...)
	if Commit(salt, doc) != signing.DigestOf(raw) {
		t.Errorf("Commit is not SHA-256 of salt and digest")
	}
	h := Header{To: did(1), Commit: Commit(salt, doc)}
	l := Letter{To: did(1), Salt: salt}
	if err := l.Check(h, doc); err != nil {
		t.Errorf("Check = %v", err)
	}
	wantReason(t, "another document", l.Check(h, signing.DigestOf(nil)), spec.BadDigest)
	wantReason(t, "another salt", Letter{To: did(1), Salt: SaltFrom([16]byte{})}.Check(h, doc), spec.BadDigest)
	wantReason(t, "no salt, no commit", Letter{To: did(1)}.Check(Header{To: did(1)}, doc), spec.BadDigest)
	wantReason(t, "another recipient", Letter{To: did(3), Salt: salt}.Check(h, doc), spec.Malformed)
	for _, bad := range []string{"", "00", strings.Repeat("A", 32), strings.Repeat("0", 34), strings.Repeat("g", 32)} {
		if _, err := ParseSalt(bad); err == nil {
			t.Errorf("ParseSalt(%q) is accepted", bad)
		}
	}
}

func TestUnderASecretOnlyThePurposeAndSecretOpen(t *testing.T) {
	secret, info, plain := [16]byte{1}, "invite/certificate", []byte("certificate")
	sealed := SealUnder(secret, info, plain)
	if got, err := OpenUnder(secret, info, sealed); err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("OpenUnder = %q, %v", got, err)
	}
	if bytes.Equal(sealed, SealUnder(secret, info, []byte("certificatf"))) {
		t.Errorf("two plaintexts, one sealing")
	}
	_, err := OpenUnder([16]byte{2}, info, sealed)
	wantReason(t, "another secret", err, spec.BadDigest)
	_, err = OpenUnder(secret, "invite/box-key", sealed)
	wantReason(t, "another purpose", err, spec.BadDigest)
	for i := range sealed {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1
		_, err := OpenUnder(secret, info, bad)
		wantReason(t, "a changed byte", err, spec.BadDigest)
	}
	_, err = OpenUnder(secret, info, sealed[:10])
	wantReason(t, "short", err, spec.Malformed)
}

func FuzzOpen(f *testing.F) {
	k, err := ParsePrivateKey(bytes.Repeat([]byte{1}, PrivateKeySize))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seal(f, k.Public(), header(k.Public()), []byte("x")))
	f.Add([]byte(`{"box":"","commit":"","enc":"","expiresAt":"","kid":"","to":"","v":1}`))
	ring := NewKeyring(k)
	f.Fuzz(func(t *testing.T, env []byte) {
		h, enc, sealed, err := read(env)
		if err != nil {
			var e *spec.Error
			if !errors.As(err, &e) {
				t.Fatalf("read: %v is no *spec.Error", err)
			}
		} else if !bytes.Equal(h.write(enc, sealed), env) {
			t.Fatalf("what is read is not written again: %q", env)
		}
		ring.Open(env)
	})
}

func FuzzUnpad(f *testing.F) {
	p, _ := Pad([]byte("x"))
	f.Add(p)
	f.Fuzz(func(t *testing.T, b []byte) {
		plain, err := Unpad(b)
		if err != nil {
			return
		}
		if again, err := Pad(plain); err != nil || !bytes.Equal(again, b) {
			t.Fatalf("Pad(Unpad(%x)) differs", b)
		}
	})
}

func benchPlain() []byte {
	b := make([]byte, 2<<10)
	rand.Read(b)
	return b
}

// S8: BenchmarkSealAndOpen ≤ 1.2 × BenchmarkBareHPKE.
func BenchmarkSealAndOpen(b *testing.B) {
	k, plain := newKey(b), benchPlain()
	ring, h := NewKeyring(k), header(k.Public())
	for b.Loop() {
		env, err := Seal(k.Public(), h, plain)
		if err != nil {
			b.Fatal(err)
		}
		if _, _, err := ring.Open(env); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkBareHPKE(b *testing.B) {
	k, plain := newKey(b), benchPlain()
	info := header(k.Public()).info()
	for b.Loop() {
		sealed, err := hpke.Seal(k.pub.key, kdf(), aead(), info, plain)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := hpke.Open(k.key, kdf(), aead(), info, sealed); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadHeader(b *testing.B) {
	k := newKey(b)
	env := seal(b, k.Public(), header(k.Public()), benchPlain())
	b.SetBytes(int64(len(env)))
	for b.Loop() {
		if _, err := ReadHeader(env); err != nil {
			b.Fatal(err)
		}
	}
}
