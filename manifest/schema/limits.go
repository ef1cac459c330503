package schema

// The bounds of M5, and those that keep the work of a check countable.
const (
	// MaxBytes of one schema, canonical: contracts of people fit into a tenth of it.
	MaxBytes = 32 << 10
	// MaxTotal bytes of the schemas of one manifest: half of a manifest.
	MaxTotal = 96 << 10
	// MaxDepth of arrays and objects: what a manifest's own depth of 56 leaves, and more than anybody reads.
	MaxDepth = 32
	// MaxNodes of the graph when every reference is expanded once on each path: a
	// chain of doubling references passes it after a dozen links.
	MaxNodes = 10_000
	// MaxChain of schemas applied to one and the same value, one through the other:
	// the library walks this chain back at every step.
	MaxChain = 64
	// MaxPattern is the largest compiled pattern, in instructions after its
	// repetitions are written out; matching costs this much for each character.
	MaxPattern = 5_000
	// MaxPatterns is the same for all patterns of one schema.
	MaxPatterns = 20_000
	// MaxSteps of one check of one instance, a step being about 20 ns on the
	// machine it was measured on: about a second at the very most.
	MaxSteps = 50_000_000
	// MaxWarnings that are kept: more tell nobody more.
	MaxWarnings = 20

	maxPairs   = 250_000 // schema and value pairs remembered while counting: about 20 MiB
	maxText    = 200     // bytes of an error's text
	maxPath    = 140     // of them, for the path
	maxKeyword = 20      // the longest keyword of 2020-12 has 21 letters
)
