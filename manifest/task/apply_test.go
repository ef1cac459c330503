package task

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// sign makes the author's next event as it travels.
func (d duo) sign(t *testing.T, now Task, s int, f manifest.Fact, at time.Time) manifest.Verified {
	t.Helper()
	e := now.Next(d.agent[s].DID(), manifest.Body{Fact: f}, at)
	v, err := manifest.Sign(&e, d.agent[s], at)
	if err != nil {
		t.Fatalf("signing %s: %v", f.Kind(), err)
	}
	return v
}

// TestAWholeTaskOfSignedEvents walks from proposal to completion, in whatever
// order the events come.
func TestAWholeTaskOfSignedEvents(t *testing.T) {
	d := newDuo(1)
	var now Task
	var all []manifest.Verified
	say := func(s int, f manifest.Fact) {
		t.Helper()
		v := d.sign(t, now, s, f, t0.Add(time.Duration(len(all))*time.Minute))
		u, err := Apply(now, v)
		if err != nil {
			t.Fatalf("Apply(%s) = %v", f.Kind(), err)
		}
		now, all = u, append(all, v)
	}
	say(0, d.proposed())
	say(1, d.accepted())
	say(1, manifest.Started{})
	say(1, manifest.Asked{Contract: now.InForce().Digest, Amendment: budgetAmendment(2000)})
	say(0, manifest.Answered{Ask: now.Asks()[0].Event, Yes: true})
	say(1, manifest.Progressed{Usage: usage(100), Waiting: "nobody"})
	say(1, manifest.Delivered{Delivery: d.delivery(now), Usage: usage(1500)})
	say(0, manifest.Rejected{Delivery: now.Delivery().Digest, Report: report(now, "fail"), Again: true})
	say(1, manifest.Delivered{Delivery: d.delivery(now), Usage: usage(1800)})
	say(0, manifest.Completed{Delivery: now.Delivery().Digest, Report: report(now, "pass")})

	m, digest := now.Contract()
	if m.Budget.MaxInputTokens != 2000 || digest == d.digest || now.Manifest().Budget.MaxInputTokens != 1000 {
		t.Errorf("the contract in force has %d input tokens, the original %d", m.Budget.MaxInputTokens, now.Manifest().Budget.MaxInputTokens)
	}
	if want := contractDigest(d.digest, []signing.Digest{DigestOf(*budgetAmendment(2000))}); digest != want {
		t.Errorf("contract digest = %s, want %s (H10)", digest, want)
	}
	if got := now.Outcome(later); got != "completed" || now.NextActor() != "" || now.Usage().InputTokens != 1800 {
		t.Errorf("outcome %q, next %q, usage %v", got, now.NextActor(), now.Usage())
	}
	if now.Key() != (manifest.TaskKey{Owner: d.owner[0].DID(), ID: m.TaskID}) {
		t.Errorf("Key = %v", now.Key())
	}
	slices.Reverse(all)
	again, err := Replay(slices.Values(all))
	if err != nil || !reflect.DeepEqual(again, now) {
		t.Errorf("Replay backwards = %v, another task", err)
	}
	if _, err := Replay(slices.Values(all[:5])); !isGap(err) {
		t.Errorf("Replay without the beginning = %v, want a gap", err)
	}
}

// TestADisputeBringsItsEvidence: a reader who never met the second half of a
// fork meets it inside disputed, and holds the same task as one who did (H6).
func TestADisputeBringsItsEvidence(t *testing.T) {
	d := newDuo(1)
	var now Task
	var all []manifest.Verified
	say := func(s int, f manifest.Fact) manifest.Verified {
		t.Helper()
		v := d.sign(t, now, s, f, t0)
		u, err := Apply(now, v)
		if err != nil {
			t.Fatalf("Apply(%s) = %v", f.Kind(), err)
		}
		now, all = u, append(all, v)
		return v
	}
	say(0, d.proposed())
	say(1, d.accepted())
	half := d.sign(t, now, 0, manifest.Cancelled{Reason: "no"}, t0)
	say(0, manifest.Asked{Contract: now.InForce().Digest, Amendment: budgetAmendment(900)})
	before := now
	broken, err := Apply(now, half)
	if spec.ReasonOf(err) != spec.Fork || broken.Break(manifest.Requester) == nil {
		t.Fatalf("Apply(second half) = %v, want fork", err)
	}
	e := before.Next(d.agent[1].DID(), manifest.Body{Fact: manifest.Disputed{Claim: "two events", Evidence: []signing.Digest{},
		Enclosed: []jcs.Value{half.Wire()}}}, t0)
	dispute, err := manifest.Sign(&e, d.agent[1], t0)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Apply(broken, dispute)
	if err != nil {
		t.Fatalf("the dispute at the side that met the fork: %v", err)
	}
	got, err := Apply(now, dispute)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("a reader who meets the fork in the dispute: %v, another task", err)
	}
	if got.Outcome(t0) != OutcomeBroken || len(got.Asks()) != 1 {
		t.Errorf("outcome %q, %d asks: want broken, along the branch that was seen", got.Outcome(t0), len(got.Asks()))
	}
}

// TestWhatIsNotOfTheTaskIsRefused: no such event changes anything.
func TestWhatIsNotOfTheTaskIsRefused(t *testing.T) {
	d := newDuo(1)
	now, err := Apply(Task{}, d.sign(t, Task{}, 0, d.proposed(), t0))
	if err != nil {
		t.Fatal(err)
	}
	stranger := d
	stranger.agent = [2]signing.Signer{keyOf(8), keyOf(9)}
	accept := func(change func(*manifest.Event)) manifest.Verified {
		e := now.Next(d.agent[1].DID(), manifest.Body{Fact: manifest.Started{}}, t0)
		change(&e)
		by := d.agent[1]
		if e.Author == stranger.agent[1].DID() {
			by = stranger.agent[1]
		}
		return must(manifest.Sign(&e, by, t0))
	}
	other := signing.DigestOf([]byte("other"))
	for _, c := range []struct {
		name   string
		change func(*manifest.Event)
		want   spec.Reason
	}{
		{"another manifest under the same id", func(e *manifest.Event) { e.ManifestDigest = other }, spec.Conflict},
		{"another task", func(e *manifest.Event) { e.TaskID = must(manifest.ParseTaskID("task_another1")) }, spec.NotFound},
		{"a third agent", func(e *manifest.Event) { e.Author = stranger.agent[1].DID() }, spec.WrongSigner},
	} {
		got, err := Apply(now, accept(c.change))
		if spec.ReasonOf(err) != c.want || !reflect.DeepEqual(got, now) {
			t.Errorf("%s: Apply = %v, want %s and nothing changed", c.name, err, c.want)
		}
	}
	if got, err := Apply(now, accept(func(e *manifest.Event) { e.Seen = &other })); !isGap(err) || !reflect.DeepEqual(got, now) {
		t.Errorf("seen names what we do not hold: Apply = %v, want a gap", err)
	}
}

// TestAcceptedCarriesTheWorkersSignature: a block that is not the worker's over
// this payload makes the event illegal in every view.
func TestAcceptedCarriesTheWorkersSignature(t *testing.T) {
	d := newDuo(1)
	now, _ := Apply(Task{}, d.sign(t, Task{}, 0, d.proposed(), t0))
	bad := d.accepted()
	bad.Signature = d.block[0]
	got, err := Apply(now, d.sign(t, now, 1, bad, t0))
	var te *TransitionError
	if !errors.As(err, &te) || got.State() != Proposed || got.Outcome(t0) != OutcomeBroken {
		t.Errorf("Apply(accepted with the requester's block) = %v, state %s", err, got.State())
	}
}

// TestAProposalMustBeWhole holds what opens a task.
func TestAProposalMustBeWhole(t *testing.T) {
	d := newDuo(1)
	got, err := Apply(Task{}, d.sign(t, Task{}, 0, d.proposed(), deadline))
	if spec.ReasonOf(err) != spec.Expired || !got.IsZero() {
		t.Errorf("proposed past its own deadline: Apply = %v, want expired", err)
	}
	e := Task{}.Next(d.agent[0].DID(), manifest.Body{Fact: d.proposed()}, t0)
	e.ManifestDigest = signing.DigestOf(nil)
	if _, err := take(Task{}, fake(e)); spec.ReasonOf(err) != spec.BadDigest {
		t.Errorf("another digest than the manifest's: %v, want bad-digest", err)
	}
	if _, err := take(Task{}, fake(Task{}.Next(d.agent[1].DID(), manifest.Body{Fact: d.proposed()}, t0))); !isGap(err) {
		t.Errorf("a proposal by the worker's agent opens a task: %v", err)
	}
}

// TestATimeOutIsTheRequestersWord: a delivery said in time that arrives later is
// kept and changes nothing (H8); the worker may still stop and dispute.
func TestATimeOutIsTheRequestersWord(t *testing.T) {
	d := newDuo(1)
	r := d.walkTo(t, "R:proposed", "W:accepted", "W:started")
	w, delivered, err := d.say(r, manifest.Worker, manifest.Delivered{Delivery: d.delivery(r), Usage: usage(5)}, t0)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Legal(d.agent[0].DID(), manifest.Body{Fact: manifest.TimedOut{}}, deadline.Add(-time.Second)); err == nil {
		t.Error("timed_out before the deadline is legal")
	}
	r, over, err := d.say(r, manifest.Requester, manifest.TimedOut{}, deadline)
	if err != nil {
		t.Fatal(err)
	}
	a, errA := take(r, delivered)
	b, errB := take(w, over)
	if errA != nil || errB != nil || !reflect.DeepEqual(a, b) || a.Outcome(t0) != "timed_out" || a.Delivery() == nil {
		t.Errorf("crossed: %v, %v, outcome %q", errA, errB, a.Outcome(t0))
	}
	if err := b.Legal(d.agent[1].DID(), manifest.Body{Fact: manifest.Stopped{Usage: usage(6)}}, deadline); err != nil {
		t.Errorf("stopped after timed_out: %v", err)
	}
	if err := b.Legal(d.agent[1].DID(), manifest.Body{Fact: manifest.Disputed{Claim: "in time"}}, deadline.Add(DisputeWindow+time.Second)); err == nil {
		t.Error("a dispute 31 days later is legal (H12)")
	}
}

// TestAnAmendmentChangesOnlyWhatItMay is H10.
func TestAnAmendmentChangesOnlyWhatItMay(t *testing.T) {
	d := newDuo(1, "cap_docs")
	now := d.walkTo(t, "R:proposed", "W:accepted")
	id, unknown := new(manifest.CapabilityID), new(manifest.CapabilityID)
	_, _ = id.UnmarshalText([]byte("cap_docs")), unknown.UnmarshalText([]byte("cap_other"))
	late, tooLate := signing.TimeOf(deadline.Add(MaxLonger)), signing.TimeOf(deadline.Add(MaxLonger+time.Second))
	for _, c := range []struct {
		name string
		a    manifest.Amendment
		ok   bool
	}{
		{"nothing", manifest.Amendment{}, false},
		{"budget", *budgetAmendment(0), true},
		{"a budget without time", manifest.Amendment{Budget: &manifest.Meters{}}, false},
		{"a negative budget", *budgetAmendment(-1), false},
		{"a deadline 30 days later", manifest.Amendment{Deadline: &late}, true},
		{"a deadline later still", manifest.Amendment{Deadline: &tooLate}, false},
		{"eleven retries", manifest.Amendment{MaxRetries: ptr(int64(11))}, false},
		{"withdraws a grant", manifest.Amendment{Withdraw: []manifest.CapabilityID{*id}}, true},
		{"withdraws it twice", manifest.Amendment{Withdraw: []manifest.CapabilityID{*id, *id}}, false},
		{"withdraws what is not granted", manifest.Amendment{Withdraw: []manifest.CapabilityID{*unknown}}, false},
	} {
		body := manifest.Body{Fact: manifest.Asked{Contract: now.InForce().Digest, Amendment: &c.a}}
		if err := now.Legal(d.agent[0].DID(), body, t0); (err == nil) != c.ok {
			t.Errorf("%s: Legal = %v, want allowed %v", c.name, err, c.ok)
		}
	}
	asked, _, err := d.say(now, manifest.Requester, manifest.Asked{Contract: now.InForce().Digest,
		Amendment: &manifest.Amendment{Withdraw: []manifest.CapabilityID{*id}}}, t0)
	if err != nil {
		t.Fatal(err)
	}
	yes, _, err := d.say(asked, manifest.Worker, manifest.Answered{Ask: asked.Asks()[0].Event, Yes: true}, t0)
	if m, _ := yes.Contract(); err != nil || len(m.Permissions.GrantedCapabilities) != 0 {
		t.Errorf("a withdrawn grant stays in force: %v", err)
	}
}

// TestSeenAndAtNeverRunBackwards within a chain (section 6).
func TestSeenAndAtNeverRunBackwards(t *testing.T) {
	d := newDuo(1)
	now := d.walkTo(t, "R:proposed", "W:accepted", "W:started")
	now, _, err := d.say(now, manifest.Requester, manifest.Asked{Contract: now.InForce().Digest, Amendment: budgetAmendment(900)}, t0.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	good := now.Next(d.agent[0].DID(), manifest.Body{Fact: manifest.Cancelled{Reason: "x"}}, t0.Add(time.Hour))
	first := now.chains[1].at(0).Digest
	for name, spoil := range map[string]func(*manifest.Event){
		"seen nothing":    func(e *manifest.Event) { e.Seen = nil },
		"seen less":       func(e *manifest.Event) { e.Seen = &first },
		"an earlier time": func(e *manifest.Event) { e.At = signing.TimeOf(t0) },
	} {
		e := good
		spoil(&e)
		got, err := take(now, fake(e))
		if !isBreak(err) || got.Ended() || got.Break(manifest.Requester) == nil {
			t.Errorf("%s: %v, want the chain broken", name, err)
		}
		if _, err := now.View(e); name != "an earlier time" && err == nil {
			t.Errorf("%s has a view", name)
		}
	}
	if _, err := take(now, fake(good)); err != nil {
		t.Errorf("the good one: %v", err)
	}
}

func TestOnlyAWorkerAsksForAChild(t *testing.T) {
	d := newDuo(1)
	now := d.walkTo(t, "R:proposed", "W:accepted", "W:started")
	child := manifest.Body{Fact: manifest.Asked{Contract: now.InForce().Digest, Child: &d.child}}
	if err := now.Legal(d.agent[0].DID(), child, t0); err == nil {
		t.Error("the requester asks for a child")
	}
	asked := d.walkTo(t, "R:proposed", "W:accepted", "W:started", "W:child", "R:yes")
	again, _, err := d.say(asked, manifest.Worker, d.facts(asked, manifest.Worker, nil)["delegated"], t0)
	if err != nil || len(again.Children()) != 1 {
		t.Fatalf("delegated after the yes: %v", err)
	}
	if err := again.Legal(d.agent[1].DID(), manifest.Body{Fact: d.facts(again, manifest.Worker, nil)["delegated"]}, t0); err == nil {
		t.Error("the same child is delegated twice (G11)")
	}
}

func TestNothingBeforeProposed(t *testing.T) {
	d := newDuo(1)
	for _, r := range roles {
		for word, f := range d.facts(Task{}, r, budgetAmendment(5)) {
			if word == "proposed" && r == manifest.Requester {
				continue
			}
			if _, _, err := d.say(Task{}, r, f, t0); err == nil {
				t.Errorf("%s says %s before there is a task", r, word)
			}
		}
	}
}

func BenchmarkApplyProgressed(b *testing.B) {
	d := newDuo(1)
	now := must(take(Task{}, fake(Task{}.Next(d.agent[0].DID(), manifest.Body{Fact: d.proposed()}, t0))))
	for _, f := range []manifest.Fact{d.accepted(), manifest.Started{}} {
		now, _, _ = d.say(now, manifest.Worker, f, t0)
	}
	e := fake(now.Next(d.agent[1].DID(), manifest.Body{Fact: manifest.Progressed{Usage: usage(5), Waiting: "nobody"}}, t0))
	for b.Loop() {
		if _, err := take(now, e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkJSONRoundTrip(b *testing.B) {
	d := newDuo(1)
	now := must(take(Task{}, fake(Task{}.Next(d.agent[0].DID(), manifest.Body{Fact: d.proposed()}, t0))))
	for _, f := range []manifest.Fact{d.accepted(), manifest.Started{}} {
		now, _, _ = d.say(now, manifest.Worker, f, t0)
	}
	for b.Loop() {
		raw := must(now.MarshalJSON())
		var back Task
		if err := back.UnmarshalJSON(raw); err != nil {
			b.Fatal(err)
		}
	}
}
