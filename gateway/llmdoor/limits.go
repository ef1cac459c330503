package llmdoor

import "time"

const (
	maxRequest = 8 << 20  // bytes: a long conversation with some images; read whole, because all of it is checked
	maxDepth   = 64       // of JSON, as of any document of ours (D1)
	maxNumber  = 32       // characters of a number token (D1)
	maxAnswer  = 64 << 20 // bytes of one answer (X4g)
	maxEvent   = 16 << 20 // bytes of one event of a stream: the last of `responses` repeats the whole answer
	maxRefusal = 64 << 10 // bytes read of a provider's error

	around         = 1_024  // tokens that a provider puts around a request: its own words about tools
	imageAnthropic = 5_000  // tokens of one image at most
	imageOpenAI    = 50_000 // the same: a large one in tiles, of the model that counts most for each
	defaultOutput  = 32_000 // tokens of output where a request says nothing
	leastResponses = 16     // fewer are refused by `responses`

	maxCalls = 32 // at once, of all agents: bounds memory

	stall       = 5 * time.Minute  // without a byte of an answer: a model that thinks sends pings before
	firstByte   = 10 * time.Minute // until the head of an answer that is not streamed
	endingCalls = 30 * time.Second // for the turn that ends a call
)
