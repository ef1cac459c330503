package jcs

import (
	"hash/maphash"
	"slices"
)

// isNew says whether an object whose names begin at from in s.names has no
// such name yet. Names that ascend, as they do in a canonical text, lie there
// in order; only those that fall need a set.
func (s *scanner) isNew(name string, from int, fallen *nameSet) bool {
	rising := s.names[from:]
	if k := len(rising); k == 0 || rising[k-1] < name {
		s.names = append(s.names, name)
		return true
	}
	if _, twice := slices.BinarySearch(rising, name); twice {
		return false
	}
	return fallen.add(name)
}

// nameSet is a set of names by open addressing. A map does the same and takes
// twice as long, and a stranger chooses how many names there are. The zero
// nameSet is empty.
type nameSet struct {
	names  []string
	hashes []uint32
	slots  []int32 // index into names and one more; 0 is free
}

// hashed differs from process to process, so that nobody can choose names that
// fall together. It changes speed, never an answer.
var hashed = maphash.MakeSeed()

// add says whether name was not there yet.
func (n *nameSet) add(name string) bool {
	if 2*len(n.names) >= len(n.slots) {
		n.grow()
	}
	h := uint32(maphash.String(hashed, name))
	at := n.free(h, name)
	if at < 0 {
		return false
	}
	n.names, n.hashes = append(n.names, name), append(n.hashes, h)
	n.slots[at] = int32(len(n.names))
	return true
}

// free is the slot where name would stand; -1 if it stands there already.
func (n *nameSet) free(h uint32, name string) int {
	mask := len(n.slots) - 1
	for at := int(h) & mask; ; at = (at + 1) & mask {
		i := n.slots[at] - 1
		if i < 0 {
			return at
		}
		if n.hashes[i] == h && n.names[i] == name {
			return -1
		}
	}
}

func (n *nameSet) grow() {
	n.slots = make([]int32, max(64, 4*len(n.slots)))
	mask := len(n.slots) - 1
	for i, h := range n.hashes {
		at := int(h) & mask
		for n.slots[at] != 0 {
			at = (at + 1) & mask
		}
		n.slots[at] = int32(i) + 1
	}
}
