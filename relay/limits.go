package relay

import "time"

// What one relay takes. Counts and rates that an operator may change are in
// server.Quotas; these are the same everywhere.
const (
	MaxEnvelope = 1 << 20             // bytes; D1
	MaxChunk    = 64<<10 + 16         // bytes; a chunk of R5 and its tag
	MaxChunks   = 1 << 14             // per transfer: 1 GiB, the largest artifact
	MaxKey      = 8 << 10             // bytes; a box-key document with an ML-KEM key is 3 KiB
	MaxDrop     = 16 << 10            // bytes; a certificate and a box-key, sealed, padded
	MaxAllowed  = 1000                // keys on a mailbox's list: an owner's contacts
	MaxTickets  = 100                 // open invites of one owner
	TicketUses  = 3                   // envelopes a ticket pays for: request, answer, one more (R3b)
	TicketBytes = 16 << 10            // each (R3b)
	MaxGetCount = 64                  // envelopes in one answer
	MaxGetBytes = 512 << 10           // bytes in one answer, unless its first envelope is larger
	Shards      = 16                  // streams of mail; fixed for the life of a store
	TagBytes    = 8                   // of an envelope's digest: an ack for another store must not fit by chance
	MaxRequest  = 128 << 10           // bytes of a JSON request: a full list is 64 KiB
	MaxLogin    = 3 << 10             // bytes of binding and join ticket, within a NATS control line of 4 KiB
	MaxLife     = 14 * 24 * time.Hour // of an envelope (R1)
	MaxBinding  = 24 * time.Hour      // R3a
	MaxHello    = 7 * 24 * time.Hour
	Skew        = time.Minute      // how far ahead another clock may be (T1)
	MaxWait     = 25 * time.Second // a long poll; proxies cut at 30 s
	PollEvery   = 30 * time.Second // a client asks again from the start: cursors are not promises
)
