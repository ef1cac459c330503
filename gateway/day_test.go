package gateway_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sealbridge/gateway"
	"sealbridge/manifest"
	"sealbridge/policy"
	"sealbridge/policy/approval"
	"sealbridge/spec"
)

// A contact's day is counted by our own clock where the owner is: one task a day
// is one before midnight there and one after it, and the card says what is left (B8).
func TestAContactsDayEndsAtMidnight(t *testing.T) {
	for _, zone := range []*time.Location{nil, time.FixedZone("nine hours ahead", 9*3600), time.FixedZone("half past three behind", -(3*3600 + 1800))} {
		t.Run(zone.String(), func(t *testing.T) { aDayEnds(t, zone) })
	}
}

func aDayEnds(t *testing.T, zone *time.Location) {
	r := newRival(t)
	r.ben.zone = zone
	one, tokens := policy.Amount(1), policy.Amount(50_000)
	r.ben.rules.Policy.Incoming[0].PerDay = policy.PerDay{Tasks: &one, OutputTokens: &tokens}
	r.ben.adopt()
	clock := still(r.ben)
	if zone == nil {
		zone = time.UTC
	}
	y, m, d := clock.now().In(zone).Date()
	midnight := time.Date(y, m, d+1, 0, 0, 0, 0, zone)
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

	r.ben.restart() // a day is no shorter for it
	again := r.offer(nil)
	r.ben.until("declined", func() bool { return r.ben.state(again).Outcome == "declined" })
	clock.add(2 * time.Second)
	third := r.offer(nil)
	if a := r.ben.askOf(third); leftToday(a) == "" {
		t.Error("the card of the new day does not say what is left")
	}
}

// Five questions are open when two tasks are left of the day: no more than
// two of five yeses at once are taken, also where the gateway stops in between,
// and of the others the owner reads why not (B8, F2).
func TestYesesAtOnceDoNotShareADay(t *testing.T) {
	r := newRival(t)
	two := policy.Amount(2)
	r.ben.rules.Policy.Incoming[0].PerDay = policy.PerDay{Tasks: &two}
	r.ben.adopt()
	var answers []gateway.Answer
	var ids []string
	for range 5 {
		id := r.offer(nil)
		answers = append(answers, r.ben.signedAnswer(r.ben.askOf(id).Ask, approval.Allow, r.ben.now()))
		ids = append(ids, id)
	}
	if _, err := r.ben.g.DecideGate(context.Background(), gateway.Owner, answers[0]); err != nil {
		t.Fatal(err)
	}
	r.ben.restart()
	var wg sync.WaitGroup
	for _, a := range answers[1:] {
		wg.Go(func() {
			if _, err := r.ben.g.DecideGate(context.Background(), gateway.Owner, a); err != nil && spec.ReasonOf(err) != spec.Quota && spec.ReasonOf(err) != spec.Conflict { // declined after the start, which looks again
				t.Errorf("past the day: %v, want quota", err)
			}
		})
	}
	wg.Wait()
	accepted, told := 0, 0
	for _, id := range ids {
		if slices.ContainsFunc(r.ben.state(id).History, func(m gateway.Moment) bool { return m.Kind == manifest.KindAccepted }) {
			accepted++
		} else if n, ok := refusal(r.ben.why(id), "rules"); ok && n.Word == spec.Quota && n.Limit == "per_day/tasks" && n.Most == "2" {
			told++
		}
	}
	if accepted > 2 || accepted < 1 || accepted+told != 5 {
		t.Errorf("%d of five are accepted, want at most 2; of %d it is known why not", accepted, told)
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
