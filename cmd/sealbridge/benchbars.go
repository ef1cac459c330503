package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"sealbridge/cmd/sealbridge/workload"
	"sealbridge/signing"
)

// bars in the order in which they are measured.
var bars = []bar{
	{"s1", "opening a signed contract by keys not seen before", measureStrangers},
	{"s2", "opening many contracts by few keys", measureFriends},
	{"s4", "refusing bad input before any signature work", measureRefusals},
	{"s5", "handing a document over, durable at both ends", measureHandOff},
	{"s8", "sealing and opening an envelope", measureSeal},
	{"mail", "putting an envelope at a relay", measureMail},
}

func ratio(bar, work string, c workload.Comparison, limit float64, yardstick string) figure {
	return figure{Bar: bar, Work: work, Value: c.Ratio, Unit: "×", Limit: limit,
		Detail: fmt.Sprintf("%s against %s for %s, in %d turns", micros(c.Work), micros(c.Yardstick), yardstick, c.Turns)}
}

// strangers is how many contracts by keys of their own are opened in turn: what
// remembers good keys holds 4,096, four to a contract, so no key is known again.
const strangers = 2048

func measureStrangers(ctx context.Context, _ string, d time.Duration) ([]figure, error) {
	wires, err := workload.Contracts(strangers, 0)
	if err != nil {
		return nil, err
	}
	c, err := workload.Compare(ctx, workload.OpenEach(wires, nil), workload.Raw(wires[0]), d)
	if err != nil {
		return nil, err
	}
	return []figure{ratio("s1", "a 5 KiB contract by four keys not seen before", c, 1.3, "two plain Ed25519 verifications of it")}, nil
}

func measureFriends(ctx context.Context, _ string, d time.Duration) ([]figure, error) {
	few, err := workload.Contracts(1000, 25) // two signers each: fifty keys
	if err != nil {
		return nil, err
	}
	many, err := workload.Contracts(strangers, 0)
	if err != nil {
		return nil, err
	}
	keys := signing.NewKeys()
	warm := workload.OpenEach(few, keys)
	for range few {
		if err := warm(); err != nil {
			return nil, err
		}
	}
	c, err := workload.Compare(ctx, workload.OpenEach(many, nil), warm, d)
	if err != nil {
		return nil, err
	}
	return []figure{{Bar: "s2", Work: "contracts a second by 50 keys, on one processor", Value: c.Ratio, Unit: "×", Limit: 1.7, AtLeast: true,
		Detail: fmt.Sprintf("%s by keys with tables against %s by keys not seen before, in %d turns", micros(c.Yardstick), micros(c.Work), c.Turns)}}, nil
}

// measureRefusals takes the best of many slices, because the bar is a time and
// not a ratio: what a shape costs when nothing else runs.
func measureRefusals(ctx context.Context, _ string, d time.Duration) ([]figure, error) {
	shapes, err := workload.Refusals()
	if err != nil {
		return nil, err
	}
	var worst workload.Refusal
	most := -1.0
	for _, r := range shapes {
		best, err := workload.Best(ctx, r.Do, d/time.Duration(len(shapes)))
		if err != nil {
			return nil, err
		}
		if cost := float64(best.Nanoseconds()) / 1e3 / r.KiB(); cost > most {
			worst, most = r, cost
		}
	}
	return []figure{{Bar: "s4", Work: "the slowest of " + plural(len(shapes), "shape") + " of bad input", Value: most, Unit: "µs/KiB", Limit: 5,
		Detail: fmt.Sprintf("%s, %d bytes", worst.Name, len(worst.Wire))}}, nil
}

// inFlight is how many documents the second figure of a hand-off has under way.
const inFlight = 64

func measureHandOff(ctx context.Context, dir string, d time.Duration) ([]figure, error) {
	p, err := workload.NewPair(ctx, filepath.Join(dir, "pair"), inFlight)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	var alone []time.Duration
	for end := time.Now().Add(d); len(alone) < 8 || time.Now().Before(end); {
		took, err := p.HandOff(ctx, 1)
		if err != nil {
			return nil, err
		}
		alone = append(alone, took)
	}
	var together []time.Duration
	for end := time.Now().Add(d); len(together) < 2 || time.Now().Before(end); {
		took, err := p.HandOff(ctx, inFlight)
		if err != nil {
			return nil, err
		}
		together = append(together, took)
	}
	all := workload.Middle(together)
	middle := workload.Middle(alone)
	return []figure{
		{Bar: "s5", Work: "from one gateway to another, one at a time", Value: middle.Seconds() * 1000, Unit: "ms", Limit: 5,
			Detail: fmt.Sprintf("the middle of %d; decided, flushed at both ends, acknowledged by signature", len(alone))},
		{Bar: "s5", Work: fmt.Sprintf("documents a second, %d at a time", inFlight), Value: inFlight / all.Seconds(), Unit: "per second", Limit: 1000, AtLeast: true,
			Detail: fmt.Sprintf("%d took %s, the middle of %s; the contacts' gateways and the relay run on this machine too", inFlight, number(all.Seconds()*1000)+" ms", plural(len(together), "round"))},
	}, nil
}

func measureSeal(ctx context.Context, _ string, d time.Duration) ([]figure, error) {
	ours, bare, err := workload.Seal()
	if err != nil {
		return nil, err
	}
	c, err := workload.Compare(ctx, ours, bare, d)
	if err != nil {
		return nil, err
	}
	return []figure{ratio("s8", "sealing and opening 2 KiB, post-quantum hybrid", c, 1.2, "crypto/hpke alone")}, nil
}

func measureMail(ctx context.Context, dir string, d time.Duration) ([]figure, error) {
	put, bare, stop, err := workload.Mail(ctx, filepath.Join(dir, "mail"))
	if err != nil {
		return nil, err
	}
	defer stop()
	c, err := workload.Compare(ctx, put, bare, d)
	if err != nil {
		return nil, err
	}
	return []figure{ratio("mail", "an envelope of 6 KiB, flushed and receipted", c, 3, "a bare JetStream publish, flushed")}, nil
}
