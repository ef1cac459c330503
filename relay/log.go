package relay

import (
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"sealbridge/signing"
	"sealbridge/signing/jcs"
	"sealbridge/spec"
)

// Checkpoint is the head of a relay's log of receipts (R7): the tree of RFC
// 6962 over the payloads of the receipts, in order. Gateways put it into
// acknowledgements, so that a relay that shows two logs is seen.
type Checkpoint struct {
	Type            string         `json:"type" rule:"const=sealbridge/checkpoint"`
	ProtocolVersion string         `json:"protocolVersion" rule:"const=0.2.0"`
	RelayDid        signing.DID    `json:"relayDid"`
	Origin          string         `json:"origin" rule:"len=1..200"`
	Size            int64          `json:"size" rule:"num=0..9007199254740991"` // leaves
	Root            signing.Digest `json:"root"`
	At              signing.Time   `json:"at"`
}

// Sign makes the checkpoint a document.
func (c Checkpoint) Sign(by signing.Signer) (jcs.Value, error) {
	c.Type, c.ProtocolVersion, c.RelayDid = typeCheckpoint, version, by.DID()
	return sign(c, typeCheckpoint, by, c.At.Time())
}

// OpenCheckpoint reads a checkpoint of that relay.
func OpenCheckpoint(wire []byte, relay signing.DID) (c Checkpoint, err error) {
	_, by, err := open(wire, typeCheckpoint, &c)
	if err != nil {
		return Checkpoint{}, err
	}
	if by != relay || c.RelayDid != relay {
		return Checkpoint{}, spec.Refuse(spec.WrongSigner, "/relayDid", "R7")
	}
	return c, nil
}

// Leaf is the receipt's leaf hash: SHA-256 of 0x00 and the canonical receipt
// without its signature.
func (r Receipt) Leaf() (signing.Digest, error) {
	p, err := r.payload()
	if err != nil {
		return signing.Digest{}, err
	}
	return signing.DigestFrom(tlog.RecordHash(p.Bytes())), nil
}

// Includes says whether the receipt is in the log at this checkpoint, by its
// audit path (RFC 6962, section 2.1.1).
func (c Checkpoint) Includes(r Receipt, proof []signing.Digest) error {
	if r.RelayDid != c.RelayDid || r.Origin != c.Origin {
		return spec.Refuse(spec.NotFound, "/origin", "another log")
	}
	if r.LeafIndex >= c.Size {
		return spec.Refuse(spec.NotFound, "/leafIndex", "past the checkpoint")
	}
	leaf, err := r.Leaf()
	if err != nil {
		return err
	}
	if err := tlog.CheckRecord(hashes(proof), c.Size, c.Root.Sum(), r.LeafIndex, leaf.Sum()); err != nil {
		return &spec.Error{Reason: spec.BadDigest, Path: "/root", Limit: "R7", Err: err}
	}
	return nil
}

// Follows says whether c continues older by a consistency proof.
func (c Checkpoint) Follows(older Checkpoint, proof []signing.Digest) error {
	if c.RelayDid != older.RelayDid || c.Origin != older.Origin {
		return spec.Refuse(spec.NotFound, "/origin", "another log")
	}
	if older.Size == 0 || c.Size == older.Size && c.Root == older.Root && len(proof) == 0 {
		return nil
	}
	if err := tlog.CheckTree(hashes(proof), c.Size, c.Root.Sum(), older.Size, older.Root.Sum()); err != nil {
		return &spec.Error{Reason: spec.Fork, Path: "/root", Limit: "R7", Err: err}
	}
	return nil
}

func hashes(ds []signing.Digest) []tlog.Hash {
	out := make([]tlog.Hash, len(ds))
	for i, d := range ds {
		out[i] = d.Sum()
	}
	return out
}

func digests(hs []tlog.Hash) []signing.Digest {
	out := make([]signing.Digest, len(hs))
	for i, h := range hs {
		out[i] = signing.DigestFrom(h)
	}
	return out
}

// Log is a log of receipts in memory, 64 bytes a leaf. The zero Log is empty.
// It belongs to one goroutine.
type Log struct {
	size   int64
	stored []tlog.Hash
}

func (l *Log) ReadHashes(at []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(at))
	for i, n := range at {
		if n < 0 || n >= int64(len(l.stored)) {
			return nil, spec.Refuse(spec.NotFound, "", "past the log")
		}
		out[i] = l.stored[n]
	}
	return out, nil
}

// Size is the number of leaves.
func (l *Log) Size() int64 { return l.size }

// Append adds a leaf hash.
func (l *Log) Append(leaf signing.Digest) error {
	hs, err := tlog.StoredHashesForRecordHash(l.size, leaf.Sum(), l)
	if err != nil {
		return err
	}
	l.stored = append(l.stored, hs...)
	l.size++
	return nil
}

// Head is the checkpoint at this moment, not signed.
func (l *Log) Head(relay signing.DID, origin string, at time.Time) (Checkpoint, error) {
	root, err := tlog.TreeHash(l.size, l)
	return Checkpoint{RelayDid: relay, Origin: origin, Size: l.size, Root: signing.DigestFrom(root), At: signing.TimeOf(at)}, err
}

// Prove is the audit path of a leaf in the log of size leaves.
func (l *Log) Prove(size, leaf int64) ([]signing.Digest, error) {
	if leaf < 0 || leaf >= size || size > l.size {
		return nil, spec.Refuse(spec.NotFound, "/leafIndex", "")
	}
	p, err := tlog.ProveRecord(size, leaf, l)
	return digests(p), err
}

// ProveFollows is the consistency proof from older to size leaves.
func (l *Log) ProveFollows(size, older int64) ([]signing.Digest, error) {
	if older < 1 || older > size || size > l.size {
		return nil, spec.Refuse(spec.NotFound, "/size", "")
	}
	p, err := tlog.ProveTree(size, older, l)
	return digests(p), err
}
