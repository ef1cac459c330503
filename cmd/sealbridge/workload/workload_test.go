package workload

import (
	"context"
	"errors"
	"testing"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
)

func TestTheContractIsFiveKiBAndHolds(t *testing.T) {
	wires, err := Contracts(3, 2)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(wires[0]); n < 5000 || n > 5600 {
		t.Errorf("%d bytes, want about 5 KiB", n)
	}
	var by [3]signing.DID
	for i, w := range wires {
		s, err := manifest.Open(w, nil)
		if err != nil {
			t.Fatal(err)
		}
		by[i] = s.Marks()[0].By
	}
	if by[0] == by[1] || by[0] != by[2] {
		t.Errorf("signed by %v, want two keys in turn", by)
	}
	for name, do := range map[string]Work{"open": OpenEach(wires, nil), "by tables": OpenEach(wires, signing.NewKeys()), "raw": Raw(wires[0])} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEveryRefusalIsRefused(t *testing.T) {
	all, err := Refusals()
	if err != nil || len(all) < 10 {
		t.Fatal(len(all), err)
	}
	for _, r := range all {
		if err := r.Do(); err != nil {
			t.Error(err)
		}
	}
	if err := (Refusal{"good", must(Contract(1, 1))}).Do(); err == nil {
		t.Error("a good contract counts as refused")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestSealAndYardstickBothOpen(t *testing.T) {
	ours, bare, err := Seal()
	if err != nil {
		t.Fatal(err)
	}
	for name, do := range map[string]Work{"ours": ours, "bare": bare} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMailIsTakenByRelayAndYardstick(t *testing.T) {
	put, bare, stop, err := Mail(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for name, do := range map[string]Work{"put": put, "bare": bare} {
		if err := do(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAHandOffEndsWithItsAcknowledgement(t *testing.T) {
	p, err := NewPair(t.Context(), t.TempDir(), perContact+1)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if len(p.contacts) != 2 {
		t.Errorf("%d contacts for %d in flight", len(p.contacts), perContact+1)
	}
	for range 2 {
		if took, err := p.HandOff(t.Context(), 3); err != nil || took <= 0 {
			t.Fatal(took, err)
		}
	}
}

func TestACompareTakesTurnsAndStops(t *testing.T) {
	var a, b int
	work := func(n *int) Work { return func() error { *n++; return nil } }
	c, err := Compare(t.Context(), work(&a), work(&b), 0)
	if err != nil || c.Turns != 12 || a < 12 || b < 12 || c.Work <= 0 || c.Ratio <= 0 {
		t.Errorf("%+v, %v, %d and %d pieces", c, err, a, b)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Compare(ctx, work(&a), work(&b), time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("goes on after its end: %v", err)
	}
	broken := errors.New("broken")
	if _, err := Compare(t.Context(), func() error { return broken }, work(&b), time.Hour); !errors.Is(err, broken) {
		t.Errorf("%v, want what broke", err)
	}
}

func TestTheMiddle(t *testing.T) {
	for want, times := range map[time.Duration][]time.Duration{0: nil, 2: {3, 2, 1}, 5: {5}} {
		if got := Middle(times); got != want {
			t.Errorf("Middle(%v) = %v", times, got)
		}
	}
}
