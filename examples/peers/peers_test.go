package peers

import (
	"fmt"
	"testing"

	"sealbridge/policy"
)

var lengths = []int{1, 4, 8, 16}

func all(tb testing.TB, links int) map[string]Chain {
	tb.Helper()
	s, err1 := NewSealbridge(links)
	b, err2 := NewBiscuit(links)
	u, err3 := NewUCAN(links)
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			tb.Fatal(err)
		}
	}
	return map[string]Chain{"sealbridge": s, "biscuit": b, "ucan": u}
}

func TestEachTakesAGoodChainAndRefusesAChangedOne(t *testing.T) {
	for _, links := range lengths {
		for name := range all(t, links) {
			for n := range links {
				c := all(t, links)[name]
				if err := c.Verify(); err != nil {
					t.Fatalf("%s, %d links: %v", name, links, err)
				}
				c.Flip(n)
				if err := c.Verify(); err == nil {
					t.Errorf("%s, %d links: link %d may be changed", name, links, n)
				}
			}
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, links := range lengths {
		cs := all(b, links)
		run := func(name string, verify func() error) {
			b.Run(fmt.Sprintf("%s/links=%d", name, links), func(b *testing.B) {
				for b.Loop() {
					if err := verify(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("raw", NewRaw(links+1).Verify)
		run("sealbridge", cs["sealbridge"].Verify)
		seen := *cs["sealbridge"].(*Sealbridge)
		seen.Seen = policy.NewChains()
		run("sealbridge-seen", seen.Verify)
		run("biscuit", cs["biscuit"].Verify)
		run("ucan", cs["ucan"].Verify)
	}
}
