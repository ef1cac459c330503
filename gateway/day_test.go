package gateway_test

import (
	"strings"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
)

// A contact's day is counted by our own clock in UTC: one task a day is one
// before midnight and one after it, and the card says what is left (B8).
func TestAContactsDayEndsAtMidnight(t *testing.T) {
	r := newRival(t)
	one, tokens := policy.Amount(1), policy.Amount(50_000)
	r.ben.rules.Policy.Incoming[0].PerDay = policy.PerDay{Tasks: &one, OutputTokens: &tokens}
	r.ben.adopt()
	clock := still(r.ben)
	midnight := clock.now().Truncate(24 * time.Hour).Add(24 * time.Hour)
	clock.add(midnight.Add(-time.Second).Sub(clock.now()))

	first := r.offer(nil)
	a := r.ben.askOf(first)
	if left := leftToday(a); left != "after this 0 of 1 tasks, 30k of 50k output tokens are left for Ann today" {
		t.Errorf("the card says %q", left)
	}
	if _, err := r.ben.answer(a, approval.Allow); err != nil {
		t.Fatal(err)
	}
	second := r.offer(nil)
	r.ben.until("declined", func() bool { return r.ben.state(second).Outcome == "declined" })
	if h := r.ben.state(second).History; len(h) == 0 || h[len(h)-1].Kind != manifest.KindDeclined || h[len(h)-1].Text != "quota" {
		t.Errorf("the second task of the day: %+v", h)
	}

	clock.add(2 * time.Second)
	third := r.offer(nil)
	if a := r.ben.askOf(third); leftToday(a) == "" {
		t.Error("the card of the new day does not say what is left")
	}
}

// leftToday is the part of a card's line about spending that speaks of the day.
func leftToday(a gateway.AskView) string {
	for _, l := range a.Ask.Lines {
		if _, left, ok := strings.Cut(l.More, " · "); ok && l.Word == "spend" {
			return left
		}
	}
	return ""
}
