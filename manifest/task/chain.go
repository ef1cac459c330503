package task

import (
	"slices"
	"strings"

	"sealbridge/manifest"
	"sealbridge/signing"
)

// blockSize bounds what a chain copies for one more event, and so what an event
// of a long history costs.
const blockSize = 16

// chain holds one side's events, every branch, in the order of seq, then
// digest. It is a value: what is once in it is never written again, so a longer
// chain shares the full blocks of the one that it continues, and both stay good.
type chain struct {
	blocks []*[blockSize]entry
	last   []entry // fewer than a block
}

// chainOf is a chain of events that are in order.
func chainOf(list []entry) (c chain) {
	for len(list) >= blockSize {
		block := [blockSize]entry(list)
		c.blocks, list = append(c.blocks, &block), list[blockSize:]
	}
	c.last = kept(list)
	return c
}

func (c chain) len() int { return len(c.blocks)*blockSize + len(c.last) }

// at is the event at index i; it is only read.
func (c chain) at(i int) *entry {
	if b := i / blockSize; b < len(c.blocks) {
		return &c.blocks[b][i%blockSize]
	}
	return &c.last[i%blockSize]
}

// list is a copy.
func (c chain) list() []entry {
	out := make([]entry, 0, c.len())
	for _, b := range c.blocks {
		out = append(out, b[:]...)
	}
	return append(out, c.last...)
}

// then is c with n behind it.
func (c chain) then(n entry) chain {
	last := append(append(make([]entry, 0, len(c.last)+1), c.last...), n)
	if len(last) < blockSize {
		return chain{c.blocks, last}
	}
	return chain{append(slices.Clip(c.blocks), (*[blockSize]entry)(last)), nil}
}

// index finds an event by its digest, the newest first: seen and prev name recent ones.
func (c chain) index(d signing.Digest) int {
	for i := c.len() - 1; i >= 0; i-- {
		if c.at(i).Digest == d {
			return i
		}
	}
	return -1
}

// place is where n stands, or would stand.
func (c chain) place(n entry) (i int, found bool) {
	lo, hi := 0, c.len()
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		m := c.at(mid)
		if m.Seq < n.Seq || m.Seq == n.Seq && strings.Compare(m.Digest.String(), n.Digest.String()) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < c.len() && c.at(lo).Seq == n.Seq && c.at(lo).Digest == n.Digest
}

// top is the highest seq that is held.
func (c chain) top() int64 {
	if c.len() == 0 {
		return 0
	}
	return c.at(c.len() - 1).Seq
}

// with is c and one more event, in its place.
func (c chain) with(n entry) chain {
	i, _ := c.place(n)
	if i == c.len() {
		return c.then(n)
	}
	return chainOf(slices.Insert(c.list(), i, n))
}

// forkAt is the lowest seq that two events share; 0 for none.
func (c chain) forkAt() int64 {
	for i := 1; i < c.len(); i++ {
		if c.at(i).Seq == c.at(i-1).Seq {
			return c.at(i).Seq
		}
	}
	return 0
}

// first is the index of the first event with that seq.
func (c chain) first(seq int64) int {
	i, _ := c.place(entry{Seq: seq})
	return i
}

// pathTo is the branch that ends in the event at index i.
func (c chain) pathTo(i int) chain {
	out := make([]entry, c.at(i).Seq)
	for i >= 0 {
		n := c.at(i)
		out[n.Seq-1] = *n
		if n.Seq == 1 {
			return chainOf(out)
		}
		i = c.index(n.Prev)
	}
	return chain{}
}

// branch is the part of a chain that may count (H6): all of it without a fork;
// with one, what lies before it, or the branch that the other side's own events
// have seen, as far as they have. Where the other side forks too, only what it
// said before its fork is asked.
func (c chain) branch(other chain) chain {
	k := c.forkAt()
	if k == 0 {
		return c
	}
	ok, pin := other.forkAt(), -1
	for i := range other.len() {
		o := other.at(i)
		if ok != 0 && o.Seq >= ok || o.Seen.IsZero() {
			continue
		}
		if i := c.index(o.Seen); i >= 0 && (pin < 0 || c.at(i).Seq > c.at(pin).Seq) {
			pin = i
		}
	}
	if pin >= 0 && c.at(pin).Seq >= k {
		return c.pathTo(pin)
	}
	return chainOf(c.list()[:c.first(k)])
}

// Break is why one side's chain counts only in part (H6). It is named by digests only.
type Break struct {
	Author  manifest.Role
	Seq     int64             // of the event, or of the events that share it
	Fork    bool              // two events with one seq; else one that is illegal in its author's view
	Kind    manifest.Kind     // of an illegal event
	Cause   string            // the rule
	Digests [2]signing.Digest // of a fork both, of an illegal event the first
}

func (c chain) fork(by manifest.Role) *Break {
	k := c.forkAt()
	if k == 0 {
		return nil
	}
	i := c.first(k)
	return &Break{Author: by, Seq: k, Fork: true, Cause: "H6: two events with one seq",
		Digests: [2]signing.Digest{c.at(i).Digest, c.at(i + 1).Digest}}
}
