package server_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"sealbridge/relay"
	"sealbridge/relay/relaytest"
	"sealbridge/relay/server"
	"sealbridge/signing"
	"sealbridge/spec"
)

func backupOf(t *testing.T, s *server.Server) ([]byte, server.About) {
	t.Helper()
	var b bytes.Buffer
	about, err := s.Backup(&b)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), about
}

func put(t *testing.T, c relaytest.Conn, to signing.Signer, text string) relay.Receipt {
	t.Helper()
	r, err := c.Put(t.Context(), to.DID(), relaytest.Envelope(to, text, time.Now().Add(time.Hour)), "")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A relay put back from a backup knows its members, and forks no log: what it
// signed after the backup stands beside what it signs now, under another origin.
func TestARestoredRelayForksNoLog(t *testing.T) {
	s := start(t, func(c *server.Config) { c.Admission = server.Invite })
	ticket, err := s.Admit(2, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	a, err := tryDial(t, s, ann, ticket)
	if err != nil {
		t.Fatal(err)
	}
	b, err := tryDial(t, s, ben, ticket)
	if err != nil {
		t.Fatal(err)
	}
	relaytest.Ready(t, b, ben, ann)
	unused, err := s.Admit(1, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	id := hex.EncodeToString([]byte("0123456789abcdef"))
	if err := a.DropPut(t.Context(), id, []byte("an invite that waits"), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := s.Ban(eve.DID(), "floods"); err != nil {
		t.Fatal(err)
	}
	put(t, a, ben, "1")
	put(t, a, ben, "2")
	wire, about := backupOf(t, s)
	if about.Members != 2 || len(about.Logs) != 1 || about.Logs[0].Size != 2 {
		t.Errorf("About = %+v", about)
	}
	after := put(t, a, ben, "3") // the backup does not know of it
	a.Close()
	b.Close()
	s.Close()

	c := config(t, func(c *server.Config) { c.Admission = server.Invite })
	if _, err := server.Restore(t.Context(), c, bytes.NewReader(wire)); err != nil {
		t.Fatal(err)
	}
	_, err = server.Restore(t.Context(), c, bytes.NewReader(wire))
	relaytest.Want(t, "Restore over a store", err, spec.Conflict)
	s2, err := server.Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s2.Close() })
	if n := len(s2.Members()); n != 2 {
		t.Errorf("%d members, want 2", n)
	}
	_, err = tryDial(t, s2, eve, "")
	relaytest.Want(t, "login of a banned key", err, spec.NotPermitted)
	_, err = tryDial(t, s2, relaytest.Agent("zoe"), unused)
	relaytest.Want(t, "login with a join ticket of before", err, spec.NotPermitted)
	a2 := dial(t, s2, ann)
	if got, err := a2.DropGet(t.Context(), id); err != nil || string(got) != "an invite that waits" {
		t.Errorf("DropGet = %q, %v", got, err)
	}
	now := put(t, a2, ben, "4") // Ben's list came back
	if now.Origin == after.Origin || now.LeafIndex != 0 {
		t.Errorf("after the restore the receipt is %s/%d, and %s/%d was signed before: a fork", now.Origin, now.LeafIndex, after.Origin, after.LeafIndex)
	}
	_, again := backupOf(t, s2)
	if len(again.Logs) != 2 {
		t.Fatalf("the next backup holds %+v, want the old log and the new", again.Logs)
	}
	for _, l := range again.Logs {
		if l.Name == about.Logs[0].Name && l != about.Logs[0] {
			t.Errorf("the old log is %+v, was %+v", l, about.Logs[0])
		}
	}
}

// cut changes one entry of a backup; nil takes it out.
func cut(t *testing.T, wire []byte, change func(name string, b []byte) []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, r := tar.NewWriter(&out), tar.NewReader(bytes.NewReader(wire))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if b = change(h.Name, b); b == nil {
			continue
		}
		h.Size = int64(len(b))
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestADamagedBackupIsNotRestored(t *testing.T) {
	s := start(t, nil)
	a := dial(t, s, ann)
	relaytest.Ready(t, a, ann)
	put(t, a, ann, "1")
	put(t, a, ann, "2")
	wire, about := backupOf(t, s)
	log := "log/" + about.Logs[0].Name
	for name, c := range map[string]struct {
		wire []byte
		word spec.Reason
	}{
		"cut short":  {wire[:len(wire)-2048], spec.Malformed},
		"half":       {wire[:len(wire)/2], spec.Malformed},
		"empty":      {nil, spec.Malformed},
		"no tar":     {[]byte("hello"), spec.Malformed},
		"a log cut":  {cut(t, wire, func(n string, b []byte) []byte { return map[bool][]byte{true: b[:32], false: b}[n == log] }), spec.BadDigest},
		"a log gone": {cut(t, wire, func(n string, b []byte) []byte { return map[bool][]byte{true: nil, false: b}[n == log] }), spec.BadDigest},
		"a record of nobody": {cut(t, wire, func(n string, b []byte) []byte {
			return bytes.Replace(b, []byte(`"kind":"member"`), []byte(`"kind":"mumber"`), 1)
		}), spec.Malformed},
	} {
		cfg := config(t, nil)
		_, err := server.Restore(context.Background(), cfg, bytes.NewReader(c.wire))
		relaytest.Want(t, "Restore of a backup "+name, err, c.word)
		if _, err := server.Restore(context.Background(), cfg, bytes.NewReader(wire)); err != nil {
			t.Errorf("after a backup %s: the good one: %v", name, err)
		}
	}
	other := config(t, func(c *server.Config) { c.Signer = eve })
	_, err := server.Restore(context.Background(), other, bytes.NewReader(wire))
	relaytest.Want(t, "Restore with another relay's key", err, spec.WrongSigner)
}

// FuzzBackup: what is read as a backup is one whose logs are what it says, and
// anything else is a word, never a panic.
func FuzzBackup(f *testing.F) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, text := range map[string]string{"state.ndjson": `{"kind":"member","key":"U","value":{}}` + "\n", "log/x": strings.Repeat("l", 64), "about.json": `{"relay":"` + relayKey.DID().String() + `","logs":[]}`} {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(text))}); err != nil {
			f.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte("hello"))
	f.Fuzz(func(t *testing.T, b []byte) {
		about, err := server.ReadBackup(b)
		if err != nil && spec.ReasonOf(err) == spec.Internal {
			t.Errorf("no word for %v", err)
		}
		for _, l := range about.Logs {
			if err == nil && l.Size < 0 {
				t.Errorf("a log of %d receipts", l.Size)
			}
		}
	})
}
