// Package relaytest has an in-memory twin of a relay, and the one contract
// suite that the twin and the real relay both pass.
package relaytest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sealbridge/relay"
	"sealbridge/relay/client"
	"sealbridge/signing"
	"sealbridge/spec"
)

// Conn is what one agent can do at one relay: the methods of *client.Conn.
type Conn interface {
	Put(ctx context.Context, to signing.DID, envelope []byte, ticket string) (relay.Receipt, error)
	Receive(ctx context.Context, inFlight int, take func(context.Context, []byte) relay.Verdict) error
	PublishKey(ctx context.Context, kid signing.Digest, doc []byte) error
	KeyOf(ctx context.Context, did signing.DID) ([]byte, error)
	SetList(ctx context.Context, allow []signing.DID, tickets []string) error
	DropPut(ctx context.Context, id string, blob []byte, until time.Time) error
	DropGet(ctx context.Context, id string) ([]byte, error)
	DropDelete(ctx context.Context, id string) error
	PutChunk(ctx context.Context, to signing.DID, id string, n int, chunk []byte) error
	GetChunk(ctx context.Context, from signing.DID, id string, n int) ([]byte, error)
	HasChunks(ctx context.Context, from signing.DID, id string) ([][2]int, error)
	DropChunks(ctx context.Context, id string) error
}

var (
	_ Conn          = (*client.Conn)(nil)
	_ Conn          = (*MemoryConn)(nil)
	_ client.Source = (*client.Conn)(nil)
	_ client.Source = (*MemoryConn)(nil)
)

// Connector makes connections to one relay.
type Connector func(agent signing.Signer) Conn

// Agent is a key that anybody can make again: for tests.
func Agent(name string) signing.Signer { return signing.NewKey(sha256.Sum256([]byte(name))) }

// KidOf is the name of a key that an agent publishes in tests.
func KidOf(s signing.Signer) signing.Digest {
	return signing.DigestOf([]byte("key of " + s.DID().String()))
}

// Envelope is a well-formed envelope whose sealed part is text, not sealed: a
// relay cannot tell.
func Envelope(to signing.Signer, text string, expires time.Time) []byte {
	b := base64.RawURLEncoding.EncodeToString
	return []byte(fmt.Sprintf(`{"box":"%s","commit":"%s","enc":"%s","expiresAt":"%s","kid":"%s","to":"%s","v":1}`,
		b([]byte("sealed "+text)), signing.DigestOf([]byte("commit "+text)), b([]byte("enc")), signing.TimeOf(expires), KidOf(to), to.DID()))
}

// Ready publishes a key and a list.
func Ready(t testing.TB, c Conn, who signing.Signer, allow ...signing.Signer) {
	t.Helper()
	ctx := t.Context()
	if err := c.PublishKey(ctx, KidOf(who), []byte("document of "+who.DID().String())); err != nil {
		t.Fatalf("PublishKey: %v", err)
	}
	var dids []signing.DID
	for _, a := range allow {
		dids = append(dids, a.DID())
	}
	if err := c.SetList(ctx, dids, nil); err != nil {
		t.Fatalf("SetList: %v", err)
	}
}

// Collect receives until it has n envelopes, acknowledging each.
func Collect(t testing.TB, c Conn, n int) (got [][]byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := c.Receive(ctx, 1, func(_ context.Context, e []byte) relay.Verdict {
		if got = append(got, slices.Clone(e)); len(got) >= n {
			cancel()
		}
		return relay.Ack
	})
	if len(got) < n {
		t.Fatalf("received %d of %d envelopes: %v", len(got), n, err)
	}
	return got
}

// Want fails unless err has the word.
func Want(t testing.TB, doing string, err error, word spec.Reason) {
	t.Helper()
	if spec.ReasonOf(err) != word {
		t.Errorf("%s: %v, want %q", doing, err, word)
	}
}

// Suite is the contract. newRelay makes an empty relay that admits every key
// and lives as long as the test.
func Suite(t *testing.T, newRelay func(t *testing.T) Connector) {
	ann, ben, eve := Agent("ann"), Agent("ben"), Agent("eve")
	soon := func() time.Time { return time.Now().Add(time.Hour) }
	pair := func(t *testing.T) (Conn, Conn, Connector) {
		dial := newRelay(t)
		a, b := dial(ann), dial(ben)
		Ready(t, a, ann, ben)
		Ready(t, b, ben, ann)
		return a, b, dial
	}

	t.Run("a receipt names the envelope and mail arrives in order", func(t *testing.T) {
		a, b, _ := pair(t)
		var sent [][]byte
		for i := range 5 {
			e := Envelope(ben, fmt.Sprint("letter ", i), soon())
			r, err := a.Put(t.Context(), ben.DID(), e, "")
			if err != nil {
				t.Fatalf("Put: %v", err)
			}
			if r.EnvelopeDigest != signing.DigestOf(e) || r.To != ben.DID() || r.Commit != signing.DigestOf([]byte(fmt.Sprint("commit letter ", i))) {
				t.Errorf("receipt %+v is for something else", r)
			}
			if _, err := relay.OpenReceipt(r.Document().Bytes(), r.RelayDid); err != nil {
				t.Errorf("the receipt does not verify offline: %v", err)
			}
			sent = append(sent, e)
		}
		for i, e := range Collect(t, b, 5) {
			if string(e) != string(sent[i]) {
				t.Errorf("envelope %d is another", i)
			}
		}
	})

	t.Run("nak leaves it and does not hold up what follows", func(t *testing.T) {
		a, b, _ := pair(t)
		for i := range 3 {
			if _, err := a.Put(t.Context(), ben.DID(), Envelope(ben, fmt.Sprint(i), soon()), ""); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		first, others, again := "", 0, false
		b.Receive(ctx, 1, func(_ context.Context, e []byte) relay.Verdict { //nolint:errcheck // ended by us
			switch s := string(e); {
			case first == "":
				first = s
				return relay.Nak
			case s == first:
				again = true
				cancel()
			default:
				others++
			}
			return relay.Ack
		})
		if others != 2 || !again {
			t.Errorf("after a nak: %d others, again %v; want 2, true", others, again)
		}
	})

	t.Run("who is not listed hears the same as of a mailbox that is not there", func(t *testing.T) {
		_, _, dial := pair(t)
		e := dial(eve)
		_, err1 := e.Put(t.Context(), ben.DID(), Envelope(ben, "hi", soon()), "")
		nobody := Agent("nobody")
		_, err2 := e.Put(t.Context(), nobody.DID(), Envelope(nobody, "hi", soon()), "")
		Want(t, "Put to a mailbox that does not list us", err1, spec.NotPermitted)
		if fmt.Sprint(err1) != fmt.Sprint(err2) {
			t.Errorf("answers differ: %q, %q", err1, err2)
		}
		_, err1 = e.KeyOf(t.Context(), ben.DID())
		_, err2 = e.KeyOf(t.Context(), nobody.DID())
		Want(t, "KeyOf an agent that does not list us", err1, spec.NotFound)
		if fmt.Sprint(err1) != fmt.Sprint(err2) {
			t.Errorf("answers differ: %q, %q", err1, err2)
		}
	})

	t.Run("a ticket is good for three small envelopes", func(t *testing.T) {
		_, b, dial := pair(t)
		ticket := base64.RawURLEncoding.EncodeToString([]byte("0123456789abcdef"))
		if err := b.SetList(t.Context(), nil, []string{ticket}); err != nil {
			t.Fatal(err)
		}
		e := dial(eve)
		_, err := e.Put(t.Context(), ben.DID(), Envelope(ben, strings.Repeat("x", relay.TicketBytes), soon()), ticket)
		Want(t, "Put of more than 16 KiB with a ticket", err, spec.NotPermitted)
		for i := range relay.TicketUses {
			if _, err := e.Put(t.Context(), ben.DID(), Envelope(ben, fmt.Sprint(i), soon()), ticket); err != nil {
				t.Errorf("use %d: %v", i+1, err)
			}
		}
		_, err = e.Put(t.Context(), ben.DID(), Envelope(ben, "4", soon()), ticket)
		Want(t, "fourth use of a ticket", err, spec.NotPermitted)
	})

	t.Run("an envelope is refused by what its header says", func(t *testing.T) {
		a, b, _ := pair(t)
		put := func(e []byte) error { _, err := a.Put(t.Context(), ben.DID(), e, ""); return err }
		Want(t, "Put of an expired envelope", put(Envelope(ben, "x", time.Now().Add(-time.Second))), spec.Expired)
		Want(t, "Put of one that lives 15 days", put(Envelope(ben, "x", time.Now().Add(15*24*time.Hour))), spec.Malformed)
		Want(t, "Put for another mailbox than it says", put(Envelope(ann, "x", soon())), spec.Malformed)
		Want(t, "Put of no envelope", put([]byte("hello")), spec.Malformed)
		if err := b.PublishKey(t.Context(), signing.DigestOf([]byte("next")), []byte("next")); err != nil {
			t.Fatal(err)
		}
		Want(t, "Put to a past key", put(Envelope(ben, "x", soon())), spec.UnknownKey)
	})

	t.Run("an oversize envelope is refused at once and harms nobody (B019)", func(t *testing.T) {
		a, b, _ := pair(t)
		_, err := a.Put(t.Context(), ben.DID(), make([]byte, relay.MaxEnvelope+1), "")
		Want(t, "Put of 1 MiB and a byte", err, spec.TooLarge)
		if _, err := a.Put(t.Context(), ben.DID(), Envelope(ben, "small", soon()), ""); err != nil {
			t.Errorf("a small one straight after: %v", err)
		}
		full := Envelope(ben, strings.Repeat("x", 780000), soon())
		if _, err := a.Put(t.Context(), ben.DID(), full, ""); err != nil {
			t.Errorf("Put of %d bytes: %v", len(full), err)
		}
		Collect(t, b, 2)
	})

	t.Run("box-keys are told to who is listed", func(t *testing.T) {
		a, _, _ := pair(t)
		doc, err := a.KeyOf(t.Context(), ben.DID())
		if want := "document of " + ben.DID().String(); err != nil || string(doc) != want {
			t.Errorf("KeyOf = %q, %v, want %q", doc, err, want)
		}
		Want(t, "PublishKey of 8 KiB and a byte", a.PublishKey(t.Context(), KidOf(ann), make([]byte, relay.MaxKey+1)), spec.TooLarge)
	})

	t.Run("a drop waits for who knows its id", func(t *testing.T) {
		a, b, _ := pair(t)
		id := hex.EncodeToString([]byte("0123456789abcdef"))
		if err := a.DropPut(t.Context(), id, []byte("sealed"), soon()); err != nil {
			t.Fatal(err)
		}
		if got, err := b.DropGet(t.Context(), id); err != nil || string(got) != "sealed" {
			t.Errorf("DropGet = %q, %v", got, err)
		}
		Want(t, "DropPut over another's", b.DropPut(t.Context(), id, []byte("mine"), soon()), spec.NotPermitted)
		Want(t, "DropDelete of another's", b.DropDelete(t.Context(), id), spec.NotFound)
		Want(t, "DropPut of 16 KiB and a byte", a.DropPut(t.Context(), id, make([]byte, relay.MaxDrop+1), soon()), spec.TooLarge)
		if err := a.DropDelete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		_, err := b.DropGet(t.Context(), id)
		Want(t, "DropGet after DropDelete", err, spec.NotFound)
	})

	t.Run("chunks are kept, listed, read and dropped", func(t *testing.T) {
		a, b, _ := pair(t)
		id := hex.EncodeToString([]byte("fedcba9876543210"))
		for _, n := range []int{0, 1, 2, 5} {
			if err := a.PutChunk(t.Context(), ben.DID(), id, n, []byte(fmt.Sprint("chunk ", n))); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.PutChunk(t.Context(), ben.DID(), id, 1, []byte("other")); err != nil {
			t.Errorf("PutChunk again: %v", err)
		}
		if got, err := b.GetChunk(t.Context(), ann.DID(), id, 1); err != nil || string(got) != "chunk 1" {
			t.Errorf("GetChunk = %q, %v, want the first", got, err)
		}
		if have, err := b.HasChunks(t.Context(), ann.DID(), id); err != nil || fmt.Sprint(have) != "[[0 2] [5 5]]" {
			t.Errorf("HasChunks = %v, %v", have, err)
		}
		_, err := b.GetChunk(t.Context(), ann.DID(), id, 3)
		Want(t, "GetChunk of a missing one", err, spec.NotFound)
		if err := b.DropChunks(t.Context(), id); err != nil {
			t.Errorf("DropChunks of none: %v", err)
		}
		if have, err := b.HasChunks(t.Context(), ann.DID(), id); err != nil || len(have) != 2 {
			t.Errorf("another's DropChunks took ours: %v, %v", have, err)
		}
		if err := a.DropChunks(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		if have, err := b.HasChunks(t.Context(), ann.DID(), id); err != nil || len(have) != 0 {
			t.Errorf("HasChunks after DropChunks = %v, %v", have, err)
		}
	})

	t.Run("the same envelope is never under way twice (B018)", func(t *testing.T) {
		a, b, _ := pair(t)
		same := Envelope(ben, "once", soon())
		for range 3 {
			if _, err := a.Put(t.Context(), ben.DID(), same, ""); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := a.Put(t.Context(), ben.DID(), Envelope(ben, "last", soon()), ""); err != nil {
			t.Fatal(err)
		}
		times := 0
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		b.Receive(ctx, 1, func(_ context.Context, e []byte) relay.Verdict { //nolint:errcheck // ended by us
			if string(e) == string(same) {
				times++
			} else {
				cancel()
			}
			return relay.Ack
		})
		if times != 1 {
			t.Errorf("handed over %d times, want 1", times)
		}
	})
}
