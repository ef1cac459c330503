package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sealbridge/relay/server"
	"sealbridge/signing"
	"sealbridge/spec"
)

// renew writes a new pair of files, with another key.
func renew(t *testing.T, p tlsPair) []byte {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, pub, key)
	if err != nil {
		t.Fatal(err)
	}
	k, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for at, b := range map[string]*pem.Block{p.Cert: {Type: "CERTIFICATE", Bytes: der}, p.Key: {Type: "PRIVATE KEY", Bytes: k}} {
		if err := os.WriteFile(at, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return der
}

func TestCertificateFilesAreReadAgainWhenTheyChange(t *testing.T) {
	dir := t.TempDir()
	p := tlsPair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	if _, err := p.config(); spec.ReasonOf(err) != spec.Malformed {
		t.Errorf("without files: %v", err)
	}
	first := renew(t, p)
	c, err := p.config()
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Certificates) != 0 {
		t.Error("a fixed certificate would be shown to who asks for no name")
	}
	shows := func(want []byte) {
		t.Helper()
		if got, err := c.GetCertificate(&tls.ClientHelloInfo{}); err != nil || !bytes.Equal(got.Certificate[0], want) {
			t.Errorf("another certificate: %v", err)
		}
	}
	shows(first)
	second := renew(t, p)
	if err := os.Chtimes(p.Cert, time.Now(), time.Now().Add(-time.Hour)); err != nil { // put there by something that keeps times
		t.Fatal(err)
	}
	shows(second)
	if err := os.WriteFile(p.Key, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	shows(second)
	third := renew(t, p)
	shows(third)
}

// The hello names the key that a proxy's certificate has now.
func TestAProxysCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	p := tlsPair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	fixed := signing.DigestOf([]byte("a key"))
	r := relayFile{ProxyCerts: []string{p.Cert}, ProxyTLSKeys: []string{fixed.String()}}
	if _, err := r.before(); spec.ReasonOf(err) != spec.Malformed {
		t.Errorf("without the file: %v", err)
	}
	key := func(der []byte) signing.Digest {
		leaf, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return server.TLSKey(leaf)
	}
	first := key(renew(t, p))
	keys, err := r.before()
	if err != nil {
		t.Fatal(err)
	}
	if got := keys(); !slices.Equal(got, []signing.Digest{fixed, first}) {
		t.Errorf("%v", got)
	}
	second := key(renew(t, p))
	if got := keys(); !slices.Equal(got, []signing.Digest{fixed, second}) || first == second {
		t.Errorf("after a renewal: %v", got)
	}
	if err := os.WriteFile(p.Cert, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := keys(); !slices.Equal(got, []signing.Digest{fixed, second}) {
		t.Errorf("with half a file: %v", got)
	}
}
