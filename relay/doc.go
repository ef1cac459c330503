// Package relay is what a relay and its clients say and sign: subjects,
// documents, requests, answers and proofs (protocol section 11, R1–R7). It is
// pure; relay/server and relay/client carry it.
//
// A relay is a did:key with an address: wss://relay.example.org/z6Mk…
//
//	sb.put.<to>.<U>                     body: a sealed envelope    answer: the signed custody receipt
//	sb.get.<U>                          [GetRequest]                    answer: 0x01 and [Mail], see [EncodeBatch]
//	sb.ack.<U>                          [AckRequest]                    {} or stale
//	sb.key.set.<U>    sb.key.get.<U>    [Key]                      {} or [Key]
//	sb.list.<U>                         [List]                     {}
//	sb.drop.put|get|del.<U>             header Sb-Id; a blob       {} or 0x01 and the blob
//	sb.obj.put|get|stat|drop.<U>        [Chunk]; a sealed chunk    {} or 0x01 and the chunk, or [Have]
//	sb.hello.<U>                        nothing                    the signed relay-hello
//
// <U> is the agent's key in the 56 characters of a NATS user key ([Token]). A
// connection may publish only what ends in its own <U>, and hear only what
// begins with sb.r.<U>. Errors are [Failure], one object whose first byte is {.
package relay

// Verdict is what became of an envelope that was received.
type Verdict int

const (
	Nak  Verdict = iota // not kept: it stays at the relay and is offered again
	Ack                 // kept, durable: the relay may forget it
	Term                // never to be kept: the relay may forget it
)

func (v Verdict) String() string {
	switch v {
	case Ack:
		return "ack"
	case Term:
		return "term"
	}
	return "nak"
}
