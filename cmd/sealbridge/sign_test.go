package main

import (
	"bytes"
	"crypto/rand"
	"path/filepath"
	"testing"
	"time"

	"sealbridge/gateway/home"
	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

func TestSignByHandIsReadByAnyGateway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	relay := manifest.RelayRef{Endpoint: "nats://127.0.0.1:1", Did: signing.NewKey([32]byte{9}).DID()}
	h, err := home.Create(dir, home.New{Name: "Ann", Relay: relay, Chance: rand.Reader, At: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	doc, _, err := h.BoxKey()
	if err != nil {
		t.Fatal(err)
	}
	bare := doc.Without("signature")
	code, out, errs := inProcess(bare.Bytes(), "sign", "-", "--as", "box-key", "--home", dir)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	v, err := jcs.Parse(bytes.TrimSpace([]byte(out)))
	if err != nil {
		t.Fatal(err)
	}
	s, err := manifest.OpenValue(v, nil)
	if err != nil || s.By() != h.Agent.DID() || v.Without("signature").String() != bare.String() {
		t.Errorf("by %v: %v", s.By(), err)
	}
	for _, c := range []struct {
		why  string
		in   []byte
		args []string
		exit int
	}{
		{"signed already", doc.Bytes(), []string{"--as", "box-key"}, exitConflict},
		{"another type", bare.Bytes(), []string{"--as", "event"}, exitNo},
		{"the wrong key for a box-key", bare.Bytes(), []string{"--as", "box-key", "--owner"}, exitNo},
		{"no party to it", bare.Bytes(), []string{"--as", "requester"}, exitNo},
		{"not JSON", []byte("{"), []string{"--as", "box-key"}, exitUsage},
	} {
		code, out, errs := inProcess(c.in, append([]string{"sign", "-", "--home", dir}, c.args...)...)
		if code != c.exit || out != "" || errs == "" {
			t.Errorf("%s: exit %d, want %d; stdout %q, stderr %q", c.why, code, c.exit, out, errs)
		}
	}
}
