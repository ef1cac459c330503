package relay_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sealbridge/relay"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

var (
	at     = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)
	owner  = key("relay")
	agent  = key("agent")
	sess   = relay.TokenOf(key("session").DID())
	letter = `{"box":"Ym94","commit":"%[1]s","enc":"ZW5j","expiresAt":"2026-12-01T09:00:00Z","kid":"%[1]s","to":"%[2]s","v":1}`
)

func key(name string) signing.Signer { return signing.NewKey(sha256.Sum256([]byte(name))) }

func want(t *testing.T, doing string, err error, word spec.Reason) {
	t.Helper()
	if spec.ReasonOf(err) != word {
		t.Errorf("%s: %v, want %q", doing, err, word)
	}
}

func TestAddresses(t *testing.T) {
	id := strings.TrimPrefix(owner.DID().String(), "did:key:")
	for _, s := range []string{"wss://relay.example.org/" + id, "wss://relay.example.org:8443/" + id, "tls://relay.example.org:4222/" + id,
		"ws://127.0.0.1:8080/" + id, "nats://localhost:4222/" + id, "ws://[::1]:80/" + id} {
		a, err := relay.ParseAddress(s)
		if err != nil || a.String() != s || a.DID != owner.DID() {
			t.Errorf("ParseAddress(%q) = %v, %v", s, a, err)
		}
	}
	for _, s := range []string{"", "wss://relay.example.org", "wss:///" + id, "wss://relay.example.org/" + id + "/", "ws://relay.example.org/" + id,
		"nats://10.0.0.1:4222/" + id, "https://relay.example.org/" + id, "tls://relay.example.org/" + id, "wss://u:p@relay.example.org/" + id,
		"wss://relay.example.org/" + id + "?x=1", "wss://relay.example.org/" + id + "#x", "wss://relay.example.org/z6MkNo", "ws://127.0.0.1.example.org:1/" + id,
		"WSS://relay.example.org/" + id, "wss://relay.example.org//" + id} {
		if a, err := relay.ParseAddress(s); err == nil {
			t.Errorf("ParseAddress(%q) = %v, want an error", s, a)
		}
	}
}

func TestSubjectsGoThereAndBack(t *testing.T) {
	self, to := relay.TokenOf(agent.DID()), relay.TokenOf(owner.DID())
	for _, v := range relay.MemberVerbs {
		s := relay.Subject(v, to, self)
		verb, gotTo, from, ok := relay.ParseSubject(s)
		if !ok || verb != v || from != self || v == relay.VerbPut && gotTo != to {
			t.Errorf("ParseSubject(%q) = %v %v %v %v", s, verb, gotTo, from, ok)
		}
		if may := relay.MayPublish(self, relay.MemberVerbs); !slices.ContainsFunc(may, func(p string) bool {
			return p == s || p == "sb.put.*."+self.String() && v == relay.VerbPut
		}) {
			t.Errorf("%q may not be published", s)
		}
	}
	for _, s := range []string{"", "sb", "sb.", "sb.put", "sb.put." + self.String(), "sb.get.x", "x.get." + self.String(), "sb.put.*." + self.String(),
		"sb.nothing." + self.String(), "sb.get.x." + self.String(), "sb.put.a.b." + self.String()} {
		if _, _, _, ok := relay.ParseSubject(s); ok {
			t.Errorf("ParseSubject(%q): ok", s)
		}
	}
}

func TestABindingIsForOneRelayOneSessionOneDay(t *testing.T) {
	good := relay.Binding{RelayDid: owner.DID(), Session: sess, ExpiresAt: signing.TimeOf(at.Add(24 * time.Hour))}
	v, err := relay.Bind(good, agent, at)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := relay.OpenBinding(v.Bytes(), owner.DID(), at); err != nil || b.AgentDid != agent.DID() || b.Session != sess {
		t.Errorf("OpenBinding = %+v, %v", b, err)
	}
	_, err = relay.OpenBinding(v.Bytes(), key("other").DID(), at)
	want(t, "at another relay", err, spec.NotPermitted)
	_, err = relay.OpenBinding(v.Bytes(), owner.DID(), at.Add(24*time.Hour))
	want(t, "after its end", err, spec.Expired)
	_, err = relay.OpenBinding(v.Bytes(), owner.DID(), at.Add(-2*time.Minute))
	want(t, "before its beginning", err, spec.Malformed)
	_, err = relay.OpenBinding([]byte(strings.Replace(v.String(), sess.String(), relay.TokenOf(key("x").DID()).String(), 1)), owner.DID(), at)
	want(t, "with another session", err, spec.BadDigest)
	_, err = relay.OpenBinding(append(v.Bytes(), ' '), owner.DID(), at)
	want(t, "with a space after it", err, spec.NotCanonical)
	long := good
	long.ExpiresAt = signing.TimeOf(at.Add(24*time.Hour + time.Second))
	_, err = relay.Bind(long, agent, at)
	want(t, "for longer than a day", err, spec.Malformed)
	for name, s := range map[string]relay.Token{"agent": relay.TokenOf(agent.DID()), "relay": relay.TokenOf(owner.DID())} {
		b := good
		b.Session = s
		v, err := relay.Bind(b, agent, at)
		if err != nil {
			t.Fatal(err)
		}
		_, err = relay.OpenBinding(v.Bytes(), owner.DID(), at)
		want(t, "with the "+name+" key as session key (I5)", err, spec.Malformed)
	}
}

func TestAHelloIsTheRelaysOwn(t *testing.T) {
	h := relay.Hello{TLSKeys: []signing.Digest{signing.DigestOf([]byte("k"))}, Sync: relay.SyncAlways, At: signing.TimeOf(at), ExpiresAt: signing.TimeOf(at.Add(time.Hour)),
		Limits: relay.HelloLimits{EnvelopeBytes: 1, LifeSeconds: 1, PutsPerSecond: 1, MailCount: 1, MailBytes: 1, FileBytes: 1, WaitSeconds: 1}}
	v, err := h.Sign(owner)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := relay.OpenHello(v.Bytes(), owner.DID(), at); err != nil {
		t.Errorf("OpenHello: %v", err)
	}
	_, err = relay.OpenHello(v.Bytes(), agent.DID(), at)
	want(t, "of another relay", err, spec.WrongSigner)
	_, err = relay.OpenHello(v.Bytes(), owner.DID(), at.Add(time.Hour))
	want(t, "of yesterday", err, spec.Expired)
	forged, err := h.Sign(agent)
	if err != nil {
		t.Fatal(err)
	}
	_, err = relay.OpenHello([]byte(strings.ReplaceAll(forged.String(), agent.DID().String(), owner.DID().String())), owner.DID(), at)
	want(t, "of somebody else in its name", err, spec.BadDigest)
}

func receipt(i int) relay.Receipt {
	d := signing.DigestOf(fmt.Append(nil, i))
	return relay.Receipt{RelayDid: owner.DID(), EnvelopeDigest: d, Commit: d, To: agent.DID(), Sequence: int64(i + 1), At: signing.TimeOf(at),
		Sync: relay.SyncAlways, Origin: "o", LeafIndex: int64(i)}
}

func TestAReceiptVerifiesOffline(t *testing.T) {
	v, err := receipt(0).Sign(owner)
	if err != nil {
		t.Fatal(err)
	}
	r, err := relay.OpenReceipt(v.Bytes(), owner.DID())
	if err != nil || r.Document().String() != v.String() {
		t.Fatalf("OpenReceipt = %+v, %v", r, err)
	}
	block, _ := v.Member("signature")
	b, err := signing.ReadBlock(block)
	if err != nil {
		t.Fatal(err)
	}
	if err := (*signing.Keys)(nil).Verify(v.Without("signature"), "sealbridge/0.2.0/custody-receipt", b); err != nil {
		t.Errorf("under its context: %v", err)
	}
	if (*signing.Keys)(nil).Verify(v.Without("signature"), "sealbridge/0.2.0/checkpoint", b) == nil {
		t.Error("verifies under another context")
	}
	_, err = relay.OpenReceipt(v.Bytes(), agent.DID())
	want(t, "of another relay", err, spec.WrongSigner)
}

// For every log and every leaf: the proof holds, and holds for nothing else.
func TestTheLogProvesWhatIsInIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 70).Draw(t, "leaves")
		var l relay.Log
		heads := make([]relay.Checkpoint, n+1)
		for i := range n {
			leaf, err := receipt(i).Leaf()
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Append(leaf); err != nil {
				t.Fatal(err)
			}
			if heads[i+1], err = l.Head(owner.DID(), "o", at); err != nil {
				t.Fatal(err)
			}
		}
		size := rapid.IntRange(1, n).Draw(t, "size")
		i := rapid.IntRange(0, size-1).Draw(t, "leaf")
		proof, err := l.Prove(int64(size), int64(i))
		if err != nil {
			t.Fatal(err)
		}
		if err := heads[size].Includes(receipt(i), proof); err != nil {
			t.Errorf("Includes: %v", err)
		}
		other := receipt(i)
		other.To = owner.DID()
		if heads[size].Includes(other, proof) == nil {
			t.Error("another receipt is included")
		}
		other = receipt(i)
		other.Origin = "p"
		if heads[size].Includes(other, proof) == nil {
			t.Error("a receipt of another log is included")
		}
		way, err := l.ProveFollows(int64(n), int64(size))
		if err != nil {
			t.Fatal(err)
		}
		if err := heads[n].Follows(heads[size], way); err != nil {
			t.Errorf("Follows: %v", err)
		}
		fork := heads[size]
		fork.Root = signing.DigestOf([]byte("fork"))
		if heads[n].Follows(fork, way) == nil {
			t.Error("a forked log follows")
		}
	})
}

func TestAnEnvelopeIsReadByItsHeader(t *testing.T) {
	d := signing.DigestOf(nil)
	e := fmt.Sprintf(letter, d, agent.DID())
	h, err := relay.ReadHeader([]byte(e))
	if err != nil || h.To != agent.DID() || h.Kid != d || h.Commit != d {
		t.Errorf("ReadHeader = %+v, %v", h, err)
	}
	want(t, "at its end", h.Fresh(h.ExpiresAt.Time()), spec.Expired)
	want(t, "just before", h.Fresh(h.ExpiresAt.Time().Add(-time.Second)), "")
	want(t, "16 days before", h.Fresh(h.ExpiresAt.Time().Add(-16*24*time.Hour)), spec.Malformed)
	for name, bad := range map[string]string{
		"a member more": strings.Replace(e, `"v":1`, `"v":1,"x":1`, 1), "a version": strings.Replace(e, `"v":1`, `"v":2`, 1),
		"a member less": strings.Replace(e, `,"v":1`, ``, 1), "a list": "[]", "nothing": "", "a nested box": strings.Replace(e, `"Ym94"`, `[["x"]]`, 1),
	} {
		if _, err := relay.ReadHeader([]byte(bad)); spec.ReasonOf(err) != spec.Malformed {
			t.Errorf("ReadHeader with %s: %v, want malformed", name, err)
		}
	}
	_, err = relay.ReadHeader(make([]byte, relay.MaxEnvelope+1))
	want(t, "of 1 MiB and a byte", err, spec.TooLarge)
}

func TestTicketsOutliveAListThatKeepsThem(t *testing.T) {
	const ticket = "MDEyMzQ1Njc4OWFiY2RlZg"
	to, from := relay.TokenOf(agent.DID()), relay.TokenOf(owner.DID())
	hash := relay.TicketHash(ticket)
	m := &relay.Mailbox{}
	m.SetList(relay.List{Tickets: []string{hash}})
	for range relay.TicketUses {
		h, err := m.MayPut(to, from, ticket, 10)
		if err != nil || h != hash {
			t.Fatalf("MayPut = %q, %v", h, err)
		}
		m.Use(h)
		m.SetList(relay.List{Tickets: []string{hash}}) // said again
	}
	_, err := m.MayPut(to, from, ticket, 10)
	want(t, "a fourth time", err, spec.NotPermitted)
	_, err = (*relay.Mailbox)(nil).MayPut(to, from, ticket, 10)
	want(t, "no mailbox", err, spec.NotPermitted)
	_, err = m.MayPut(to, from, ticket+"=", 10)
	want(t, "another spelling", err, spec.NotPermitted)
}

// What a parser accepts is written again as the same bytes.

func FuzzAddress(f *testing.F) {
	f.Add("wss://relay.example.org/" + strings.TrimPrefix(owner.DID().String(), "did:key:"))
	f.Fuzz(func(t *testing.T, s string) {
		if a, err := relay.ParseAddress(s); err == nil && a.String() != s {
			t.Errorf("ParseAddress(%q) is written %q", s, a)
		}
	})
}

func FuzzToken(f *testing.F) {
	f.Add(sess.String())
	f.Fuzz(func(t *testing.T, s string) {
		if k, err := relay.ParseToken(s); err == nil && relay.TokenOfKey(k.Key()).String() != s {
			t.Errorf("ParseToken(%q) is written %q", s, k)
		}
	})
}

func FuzzSubject(f *testing.F) {
	f.Add(relay.Subject(relay.VerbPut, sess, sess))
	f.Add(relay.Subject(relay.VerbObjGet, sess, sess))
	f.Fuzz(func(t *testing.T, s string) {
		if v, to, from, ok := relay.ParseSubject(s); ok && relay.Subject(v, to, from) != s {
			t.Errorf("ParseSubject(%q) is written %q", s, relay.Subject(v, to, from))
		}
	})
}

func FuzzReply(f *testing.F) {
	f.Add(relay.Inbox(sess) + ".x")
	f.Fuzz(func(t *testing.T, s string) {
		if relay.OwnReply(sess, s) && (!strings.HasPrefix(s, relay.Inbox(sess)+".") || strings.ContainsAny(s, "*> ")) {
			t.Errorf("OwnReply(%q)", s)
		}
	})
}

func FuzzBatch(f *testing.F) {
	f.Add(relay.EncodeBatch([]relay.Mail{{Seq: 1, At: at, From: sess, Envelope: []byte("x")}, {Seq: 9, At: at, From: sess}}, true))
	f.Add(relay.EncodeBatch(nil, false))
	f.Fuzz(func(t *testing.T, b []byte) {
		if ms, more, err := relay.DecodeBatch(b); err == nil && !bytes.Equal(relay.EncodeBatch(ms, more), b) {
			t.Errorf("DecodeBatch(%x) is written %x", b, relay.EncodeBatch(ms, more))
		}
	})
}

func FuzzEnvelope(f *testing.F) {
	f.Add(fmt.Appendf(nil, letter, signing.DigestOf(nil), agent.DID()))
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := relay.ReadHeader(b); err == nil {
			if v, err := jcs.ParseWithin(b, jcs.Limits{Bytes: 1 << 20, Depth: 2, Values: 10, Number: 10}); err != nil || !bytes.Equal(v.Bytes(), b) {
				t.Errorf("ReadHeader took what is not canonical: %q", b)
			}
		}
	})
}

func FuzzFailure(f *testing.F) {
	f.Add([]byte(`{"error":"quota","limit":"x","retryMs":5}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := relay.Failed(b); err != nil && !slices.Contains(spec.Reasons(), spec.ReasonOf(err)) {
			t.Errorf("Failed(%q) = %v", b, err)
		}
	})
}
