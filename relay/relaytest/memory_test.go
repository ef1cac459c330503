package relaytest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"sealbridge/relay"
	"sealbridge/relay/relaytest"
	"sealbridge/signing"
	"sealbridge/spec"
)

// The twin, its waits and its faults run in a bubble: no real time passes.
func TestTheTwinWorksInABubble(t *testing.T) {
	ann, ben := relaytest.Agent("ann"), relaytest.Agent("ben")
	synctest.Test(t, func(t *testing.T) {
		m := relaytest.NewMemory()
		fates := []relaytest.Fate{relaytest.Late, relaytest.Twice, relaytest.Lose, relaytest.Unsure, relaytest.Refuse, relaytest.Deliver}
		n := 0
		m.SetFate(func(_, _ signing.DID, _ []byte) relaytest.Fate { n++; return fates[n-1] })
		a, b := m.Conn(ann), m.Conn(ben)
		relaytest.Ready(t, b, ben, ann)
		var got []string
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.Receive(ctx, 1, func(_ context.Context, e []byte) relay.Verdict { //nolint:errcheck // ended by us
				got = append(got, string(e))
				return relay.Ack
			})
		}()
		var sent []string
		for i, fate := range fates {
			e := relaytest.Envelope(ben, fmt.Sprint(i), time.Now().Add(time.Hour))
			sent = append(sent, string(e))
			_, err := a.Put(ctx, ben.DID(), e, "")
			word := spec.Reason("")
			if fate == relaytest.Unsure || fate == relaytest.Refuse {
				word = spec.Unavailable
			}
			relaytest.Want(t, fmt.Sprint("put ", i), err, word)
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		want := []string{sent[1], sent[0], sent[3], sent[5]}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("got %d envelopes %v, want %v", len(got), got, want)
		}
		if w := m.Waiting(ben.DID()); w != 0 {
			t.Errorf("%d wait after all were acknowledged", w)
		}
		cancel()
		<-done
	})
}

// A poison message is offered ten times at growing intervals; what comes after
// it is neither held up nor handed over again.
func TestAPoisonMessageHoldsUpNothingForLong(t *testing.T) {
	ann, ben := relaytest.Agent("ann"), relaytest.Agent("ben")
	synctest.Test(t, func(t *testing.T) {
		m := relaytest.NewMemory()
		a, b := m.Conn(ann), m.Conn(ben)
		relaytest.Ready(t, b, ben, ann)
		poison := string(relaytest.Envelope(ben, "poison", time.Now().Add(time.Hour)))
		for _, e := range []string{poison, string(relaytest.Envelope(ben, "good", time.Now().Add(time.Hour)))} {
			if _, err := a.Put(t.Context(), ben.DID(), []byte(e), ""); err != nil {
				t.Fatal(err)
			}
		}
		count := map[string]int{}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		b.Receive(ctx, 1, func(_ context.Context, e []byte) relay.Verdict { //nolint:errcheck // ended by time
			count[string(e)]++
			if string(e) == poison {
				return relay.Nak
			}
			return relay.Ack
		})
		if count[poison] != 10 || len(count) != 2 || m.Waiting(ben.DID()) != 0 {
			t.Errorf("poison offered %d times, %d kinds, %d wait; want 10, 2, 0", count[poison], len(count), m.Waiting(ben.DID()))
		}
		for e, n := range count {
			if e != poison && n != 1 {
				t.Errorf("the good one was handed over %d times", n)
			}
		}
	})
}

// Cut off in the middle, what is under way is not begun again (B018).
func TestALostConnectionBeginsNothingTwice(t *testing.T) {
	ann, ben := relaytest.Agent("ann"), relaytest.Agent("ben")
	synctest.Test(t, func(t *testing.T) {
		m := relaytest.NewMemory()
		a, b := m.Conn(ann), m.Conn(ben)
		relaytest.Ready(t, b, ben, ann)
		if _, err := a.Put(t.Context(), ben.DID(), relaytest.Envelope(ben, "slow", time.Now().Add(time.Hour)), ""); err != nil {
			t.Fatal(err)
		}
		begun := 0
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		go func() {
			time.Sleep(time.Minute)
			m.Cut(ben.DID(), true)
			time.Sleep(time.Minute)
			m.Cut(ben.DID(), false)
		}()
		b.Receive(ctx, 4, func(context.Context, []byte) relay.Verdict { //nolint:errcheck // ended by time
			begun++
			time.Sleep(5 * time.Minute) // far past every wait
			return relay.Ack
		})
		if begun != 1 || m.Waiting(ben.DID()) != 0 {
			t.Errorf("begun %d times, %d wait; want 1, 0", begun, m.Waiting(ben.DID()))
		}
	})
}
