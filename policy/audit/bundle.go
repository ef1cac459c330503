// Package audit answers one question: does it hold, offline? It writes an
// evidence bundle and replays it with the law that enforced it (V4).
//
// A bundle is one JSON object whose documents stand one a line, so that it can
// be read as a stream and compared line by line:
//
//	{"type":"sealbridge/bundle","protocolVersion":"0.2.0","documents":[
//	{"createdAt":…,"signatures":{…}},
//	{"type":"sealbridge/event",…},
//	…
//	]}
//
// It holds the manifest with both signatures, certificates and box-keys of both
// owners, both chains, gate-decisions and the asks that we have, revocations,
// acknowledgements of both sides, refusals, custody receipts. Artifact keys
// never stand in it (R5).
//
// The last document is the seal: an acknowledgement by the agent who exported
// it that has both task (the heads that it held) and documents, with one
// digest: the SHA-256 of the digests of all other documents (sha256:…, of their
// whole canonical bytes, also of the manifest), in order, joined by line ends.
// An ordinary acknowledgement never has both. A bundle without a good seal is
// incomplete: somebody may have taken something out.
//
// S7's third answer is made here and nowhere else: binding means that nothing
// which a contract needs is absent.
package audit

import (
	"io"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

const typeBundle = "sealbridge/bundle"

// Writer writes one bundle. The first error stays.
type Writer struct {
	w       io.Writer
	digests []signing.Digest
	sealed  bool
	err     error
}

// NewWriter begins a bundle on w, which the caller closes.
func NewWriter(w io.Writer) *Writer {
	b := &Writer{w: w}
	b.write(`{"type":"` + typeBundle + `","protocolVersion":"` + manifest.ProtocolVersion + `","documents":[`)
	return b
}

func (b *Writer) write(text string) {
	if b.err == nil {
		_, b.err = io.WriteString(b.w, text)
	}
}

// Add puts one document behind the others. The order is the seal's.
func (b *Writer) Add(doc jcs.Value) error {
	switch typ, _ := doc.Member("type"); {
	case b.err != nil:
		return b.err
	case b.sealed:
		b.err = spec.Refuse(spec.Internal, "", "V4: nothing comes after the seal")
	case doc.Kind() != '{':
		b.err = spec.Refuse(spec.Malformed, "", "an object")
	case typ.String() == `"sealbridge/artifact-keys"`:
		b.err = spec.Refuse(spec.NotPermitted, "/type", "R5: keys stand in no bundle")
	default:
		b.put(doc)
		b.digests = append(b.digests, signing.DigestOf(doc.Bytes()))
	}
	return b.err
}

func (b *Writer) put(doc jcs.Value) {
	if len(b.digests) > 0 {
		b.write(",")
	}
	b.write("\n" + doc.String())
}

// Seal signs the bundle by the agent who exports it: heads are the ends of both
// chains as it holds them, to is the other side's agent.
func (b *Writer) Seal(heads manifest.Heads, to signing.DID, mark manifest.RevocationMark, by signing.Signer, at time.Time) error {
	if b.err != nil {
		return b.err
	}
	if b.sealed {
		b.err = spec.Refuse(spec.Internal, "", "V4: one seal")
		return b.err
	}
	v, err := manifest.Sign(&manifest.Acknowledgement{Type: "sealbridge/acknowledgement", ProtocolVersion: manifest.ProtocolVersion,
		To: to, Task: &heads, Documents: []signing.Digest{sealOf(b.digests)}, At: signing.TimeOf(at), Revocations: mark}, by, at)
	if err != nil {
		b.err = err
		return err
	}
	b.put(v.Wire())
	b.sealed = true
	return b.err
}

// Close ends the bundle; without a seal it is an error, and the file is incomplete.
func (b *Writer) Close() error {
	b.write("\n]}\n")
	if b.err == nil && !b.sealed {
		b.err = spec.Refuse(spec.Internal, "", "V4: no seal")
	}
	return b.err
}

// sealOf is the digest that a seal signs.
func sealOf(digests []signing.Digest) signing.Digest {
	var text []byte
	for i, d := range digests {
		if i > 0 {
			text = append(text, '\n')
		}
		text = append(text, d.String()...)
	}
	return signing.DigestOf(text)
}

// isSeal says whether an acknowledgement is a bundle's seal.
func isSeal(d manifest.Document) (*manifest.Acknowledgement, bool) {
	a, ok := d.(*manifest.Acknowledgement)
	return a, ok && a.Task != nil && len(a.Documents) > 0
}
