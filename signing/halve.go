package signing

// signed is a number with a sign.
type signed struct {
	size     wide
	negative bool
}

// orderL is L, the order of the prime group.
var orderL = wide{0x5812631a5cf5d3ed, 0x14def9dea2f79cd6, 0, 0x1000000000000000}

// halve finds an odd v and u ≥ 0 with u = vk mod L, both of about half the
// length of L. It is Euclid's algorithm on L and k, stopped half way, with
// shifts for quotients. Throughout x = ±y·k mod L with signs that differ
// between the two rows, and x₀y₁ + x₁y₀ = L; so not both y are even, and while
// one x has more than half the bits, the other row's y has less.
func halve(k wide) (u wide, v signed) {
	const halfBits = 127
	x, y := [2]wide{orderL, k}, [2]wide{{}, {1}}
	small := 1 // the row with the smaller x
	lens := [2]int{x[0].len(), x[1].len()}
	for lens[small] > halfBits {
		lens[1-small] = reduce(&x, &y, 1-small, lens[1-small]-lens[small])
		if x[1-small].less(x[small]) {
			small = 1 - small
		}
	}
	row := small
	if y[row][0]&1 == 0 { // the other y is odd, and stays so when an even one is added
		row = 1 - small
		for lens[row] > halfBits+1 {
			lens[row] = reduce(&x, &y, row, lens[row]-lens[small])
		}
	}
	return x[row], signed{y[row], row == 0}
}

// reduce takes 2^shift times the other row from x[row], a place less where that
// is too much, and says how long it is then.
func reduce(x, y *[2]wide, row, shift int) int {
	part := x[1-row].shifted(shift)
	if x[row].less(part) {
		shift--
		part = x[1-row].shifted(shift)
	}
	x[row] = x[row].minus(part)
	y[row] = y[row].plus(y[1-row].shifted(shift))
	return x[row].len()
}
