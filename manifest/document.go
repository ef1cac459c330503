// Package manifest answers one question: what was said? It has one file for
// each group of documents of protocol section S4 (but the relay's own), one way
// in ([Open]) and one way out ([Sign]), and [Trust], the fold of the identity
// documents, which says whether whoever signed may have said it.
//
// S7 gives three answers and they are three types: [Signed] (the arithmetic
// holds), [Verified] (role, pin, certificate and revocation hold too), and
// audit's binding (nothing a contract needs is absent).
package manifest

import (
	"sealbridge/signing"
	"sealbridge/signing/jcs"
)

// ProtocolVersion is the version that every document of this package is of.
const ProtocolVersion = "0.2.0"

// Document is the sealed sum of what can be signed.
type Document interface {
	// context is the domain that the document is signed in (S4).
	context() signing.Context
}

// Mark is one signature that holds by arithmetic: who signed and when they say they did.
type Mark struct {
	Role Role // of a TaskManifest; "" for every other document
	By   signing.DID
	At   signing.Time
}

// Signed is a document whose bytes, digest and signatures hold. Nothing says
// yet that the signer had the right to say it.
type Signed struct {
	doc    Document
	wire   jcs.Value
	digest signing.Digest
	marks  []Mark

	approver *ApproverCertificate // of a gate-decision by an approver; openApproval held it
}

func (s Signed) Document() Document     { return s.doc }
func (s Signed) Wire() jcs.Value        { return s.wire }   // canonical bytes, signatures included
func (s Signed) Digest() signing.Digest { return s.digest } // S8
func (s Signed) Marks() []Mark          { return s.marks }
func (s Signed) IsZero() bool           { return s.doc == nil }

// Approver is the certificate by which a gate-decision's signer decides; ok is
// false where an owner decides itself. It names the signer and the gate, and an
// assertion that it asks for was held (G10).
func (s Signed) Approver() (c ApproverCertificate, ok bool) {
	if s.approver == nil {
		return c, false
	}
	return *s.approver, true
}

// By is the signer of a document with one signature.
func (s Signed) By() signing.DID {
	if len(s.marks) == 0 {
		return signing.DID{}
	}
	return s.marks[0].By
}

// Verified is a Signed document whose signer may say what it says: the role of
// S6, the pin of I6, the certificate and the revocations held at one instant.
type Verified struct {
	Signed
	owner signing.DID
}

// Owner is the pinned owner for whom the signer speaks (I6).
func (v Verified) Owner() signing.DID { return v.owner }
