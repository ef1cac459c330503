package policy

import (
	"sync"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Chains remembers chains that held, by their bytes. It changes speed, never an
// answer: what is remembered is true for ever. nil works, and so does one
// Chains for many goroutines.
type Chains struct {
	mu         sync.Mutex // guards what follows
	young, old map[string]kept
}

// kept is a chain with its texts; it is found by the text of its last link.
type kept struct {
	texts []string
	chain Chain
}

// maxYoungChains: two generations, of a few KB each: what a busy gateway is
// called with in an hour. Only chains that held are kept, so a forger fills nothing.
const maxYoungChains = 512

// NewChains makes an empty one.
func NewChains() *Chains { return &Chains{} }

// Open reads links as they came from the wire, the root first: strictness,
// signatures, shape, and the chain. The error of a link is a *LinkError.
func (k *Chains) Open(keys *signing.Keys, wires ...[]byte) (Chain, error) {
	if c, ok := find(k, wires); ok {
		return c, nil
	}
	return k.open(keys, len(wires), func(i int) (manifest.Signed, error) { return manifest.Open(wires[i], keys) })
}

// OpenValues is Open for links that are canonical already, such as those inside a call.
func (k *Chains) OpenValues(keys *signing.Keys, links ...jcs.Value) (Chain, error) {
	texts := make([]string, len(links))
	for i, l := range links {
		texts[i] = l.String()
	}
	if c, ok := find(k, texts); ok {
		return c, nil
	}
	return k.open(keys, len(links), func(i int) (manifest.Signed, error) { return manifest.OpenValue(links[i], keys) })
}

// open stops at the first link that does not hold: nothing below it is read (C6).
func (k *Chains) open(keys *signing.Keys, n int, read func(int) (manifest.Signed, error)) (Chain, error) {
	if n == 0 || n > manifest.MaxLinks {
		return NewChain(make([]manifest.Signed, n)...)
	}
	links := make([]manifest.Signed, 0, n)
	for i := range n {
		s, err := read(i)
		if err != nil {
			e := specError(err)
			return Chain{}, &LinkError{i + 1, "C2", e.Reason, e.Path, e.Limit}
		}
		if e := joins(links, s); e != nil {
			e.Link = i + 1
			return Chain{}, e
		}
		links = append(links, s)
	}
	c := Chain{links}
	k.keep(c)
	return c, nil
}

// find looks for a chain by the text of its last link, and compares all texts.
func find[T []byte | string](k *Chains, texts []T) (Chain, bool) {
	if k == nil || len(texts) == 0 {
		return Chain{}, false
	}
	last := texts[len(texts)-1]
	k.mu.Lock()
	have, ok := k.young[string(last)]
	if !ok {
		if have, ok = k.old[string(last)]; ok {
			k.put(have)
		}
	}
	k.mu.Unlock()
	if !ok || len(have.texts) != len(texts) {
		return Chain{}, false
	}
	for i := range texts {
		if string(texts[i]) != have.texts[i] {
			return Chain{}, false
		}
	}
	return have.chain, true
}

func (k *Chains) keep(c Chain) {
	if k == nil {
		return
	}
	have := kept{chain: c}
	for _, l := range c.links {
		have.texts = append(have.texts, l.Wire().String())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.put(have)
}

// put makes a chain one of the young generation; the lock is held.
func (k *Chains) put(have kept) {
	if k.young == nil || len(k.young) >= maxYoungChains {
		k.old, k.young = k.young, make(map[string]kept, maxYoungChains)
	}
	k.young[have.texts[len(have.texts)-1]] = have
}

// ChainOf is the chain of a call: the root as the enforcing gateway holds it,
// and the tokens below it that stand in the call.
func (k *Chains) ChainOf(keys *signing.Keys, call *manifest.ToolCall, root jcs.Value) (Chain, error) {
	c, err := k.OpenValues(keys, append([]jcs.Value{root}, call.Links...)...)
	if err != nil {
		return Chain{}, err
	}
	if c.Link(1).Digest() != call.Root {
		return Chain{}, &LinkError{1, "C4", spec.CapabilityDenied, "/root", "the root that is there"}
	}
	return c, nil
}
