package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/signing/box"
	"sealbridge/spec"
)

// Depot holds sealed chunks at a relay. A chunk that is there is kept and not
// replaced, so putting it again is harmless.
type Depot interface {
	PutChunk(ctx context.Context, to signing.DID, id string, n int, b []byte) error
	GetChunk(ctx context.Context, from signing.DID, id string, n int) ([]byte, error)
	// HasChunks lists what has arrived, as first and last of each run, in order.
	HasChunks(ctx context.Context, from signing.DID, id string) ([][2]int, error)
}

// window is how many chunks are under way at once: 512 KiB.
const window = 8

// TransferID names one transfer of one artifact: 128 random bits as 32
// lower-case hex digits.
type TransferID struct{ s string }

// ParseTransferID reads the one spelling.
func ParseTransferID(s string) (TransferID, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 16 || hex.EncodeToString(b) != s {
		return TransferID{}, spec.Refuse(spec.Malformed, "/transfer", "32 lower-case hex digits")
	}
	return TransferID{s}, nil
}

func (id TransferID) String() string { return id.s }

// Transfer is what both sides know of a transfer: the key opens its chunks and
// stands in artifact-keys, in no chain and no bundle (R5).
type Transfer struct {
	ID     TransferID
	Key    [32]byte
	Count  uint32 // chunks
	Digest signing.Digest
	Size   int64 // bytes of the plaintext
}

var keyText = base64.RawURLEncoding.Strict()

// FileKey is the entry in artifact-keys.
func (t Transfer) FileKey() manifest.FileKey {
	return manifest.FileKey{Digest: t.Digest, Transfer: t.ID.s, Key: keyText.EncodeToString(t.Key[:]), Chunks: int64(t.Count)}
}

// Incoming reads an entry of artifact-keys for the file that a manifest or a
// delivery promised: another digest, or a number of chunks that its size does
// not make, is refused.
func Incoming(k manifest.FileKey, ref manifest.ArtifactRef) (Transfer, error) {
	id, err := ParseTransferID(k.Transfer)
	if err != nil {
		return Transfer{}, err
	}
	key, err := keyText.DecodeString(k.Key)
	if err != nil || len(key) != 32 || keyText.EncodeToString(key) != k.Key {
		return Transfer{}, spec.Refuse(spec.Malformed, "/key", "256 bits as base64url")
	}
	if k.Digest != ref.Digest || ref.Digest.IsZero() {
		return Transfer{}, spec.Refuse(spec.BadDigest, "/digest", "not the file that was promised")
	}
	count := box.Chunks(ref.SizeBytes)
	if count == 0 || int64(count) != k.Chunks {
		return Transfer{}, spec.Refuse(spec.Malformed, "/chunks", "64 KiB a chunk")
	}
	return Transfer{ID: id, Key: [32]byte(key), Count: count, Digest: ref.Digest, Size: ref.SizeBytes}, nil
}

func outgoing(id TransferID) string { return path.Join(outgoingDir, id.s) }
func incoming(id TransferID) string { return path.Join(incomingDir, id.s) }

// Seal makes a new transfer of a file: a fresh id and key from chance, and the
// sealed chunks on disk before it returns. They are kept, and sent again as
// they are, until [Store.Forget]; nothing is sealed twice under one key. It
// needs the memory of one chunk.
func (s *Store) Seal(ctx context.Context, d signing.Digest, chance io.Reader) (Transfer, error) {
	f, err := s.Open(d)
	if err != nil {
		return Transfer{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Transfer{}, disk("measuring a file", err)
	}
	t := Transfer{Count: box.Chunks(info.Size()), Digest: d, Size: info.Size()}
	if t.Count == 0 {
		return Transfer{}, spec.Refuse(spec.TooLarge, "", "1 GiB a file")
	}
	var id [16]byte
	if _, err := io.ReadFull(chance, id[:]); err != nil {
		return Transfer{}, &spec.Error{Reason: spec.Internal, Err: err}
	}
	if _, err := io.ReadFull(chance, t.Key[:]); err != nil {
		return Transfer{}, &spec.Error{Reason: spec.Internal, Err: err}
	}
	t.ID = TransferID{hex.EncodeToString(id[:])}
	temp := outgoing(t.ID) + ".new"
	sealing := &sealer{transfer: t, plain: f, sum: sha256.New()}
	_, err = s.write(temp, io.Discard, &within{ctx: ctx, r: sealing, left: int64(t.Count) * box.SealedChunkSize})
	if err == nil && digestOf(sealing.sum) != d {
		err = spec.Refuse(spec.BadDigest, "", "the stored file has changed")
	}
	if err == nil {
		if err = s.root.Rename(temp, outgoing(t.ID)); err != nil {
			err = disk("keeping sealed chunks", err)
		}
	}
	if err != nil {
		s.root.Remove(temp)
		return Transfer{}, err
	}
	if err := syncDir(s.root, outgoingDir); err != nil {
		return Transfer{}, disk("keeping sealed chunks", err)
	}
	return t, nil
}

// sealer reads a file as its sealed chunks, one behind the other.
type sealer struct {
	transfer Transfer
	plain    io.Reader
	sum      hash.Hash // of the plaintext
	n        uint32
	buf      [box.ChunkSize]byte
	rest     []byte // of the chunk before
}

func (s *sealer) Read(p []byte) (int, error) {
	t := s.transfer
	if len(s.rest) == 0 {
		if s.n == t.Count {
			return 0, io.EOF
		}
		chunk := s.buf[:min(box.ChunkSize, t.Size-int64(s.n)*box.ChunkSize)]
		if _, err := io.ReadFull(s.plain, chunk); err != nil {
			return 0, err
		}
		s.sum.Write(chunk)
		s.rest = box.SealChunk(t.Key, t.ID.s, s.n, t.Count, chunk)
		s.n++
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// Upload puts what of a transfer has not been put yet. After an error it can be
// called again and goes on where it was; a chunk put twice is harmless.
func (s *Store) Upload(ctx context.Context, depot Depot, to signing.DID, t Transfer) error {
	f, err := s.root.Open(outgoing(t.ID))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return spec.Refuse(spec.NotFound, "", "no such transfer")
		}
		return disk("opening sealed chunks", err)
	}
	defer f.Close()
	at := outgoing(t.ID) + ".at"
	for n := s.progress(at, t.Count); n < t.Count; {
		batch := min(window, t.Count-n)
		err := each(batch, func(i uint32) error {
			b := make([]byte, box.SealedChunkSize)
			got, err := f.ReadAt(b, int64(n+i)*box.SealedChunkSize)
			if err != nil && !errors.Is(err, io.EOF) {
				return disk("reading sealed chunks", err)
			}
			return depot.PutChunk(ctx, to, t.ID.s, int(n+i), b[:got])
		})
		if err != nil {
			return outward(err)
		}
		n += batch
		s.root.WriteFile(at, []byte(strconv.Itoa(int(n))), 0o600) // a hint: losing it costs bandwidth
	}
	return nil
}

// progress reads the hint of how many chunks have been put.
func (s *Store) progress(at string, count uint32) uint32 {
	b, err := s.root.ReadFile(at)
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 32)
	if err != nil || n > uint64(count) {
		return 0
	}
	return uint32(n)
}

// Resend lets the next Upload begin anew: the relay has lost its store, or the
// recipient asked again. The sealed bytes are the same.
func (s *Store) Resend(id TransferID) error {
	if err := s.root.Remove(outgoing(id) + ".at"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return disk("sending a transfer again", err)
	}
	return nil
}

// Forget drops the sealed chunks of a transfer, or what of it has arrived: it
// was acknowledged, or its task has ended.
func (s *Store) Forget(id TransferID) error {
	for _, name := range []string{outgoing(id), outgoing(id) + ".at", incoming(id)} {
		if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return disk("forgetting a transfer", err)
		}
	}
	return nil
}

// each calls f for 0 … n-1 at once and returns the error of the least.
func each(n uint32, f func(i uint32) error) error {
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// outward lets an error of a depot leave with a word of ours.
func outward(err error) error {
	var e *spec.Error
	if errors.As(err, &e) {
		return e
	}
	return &spec.Error{Reason: spec.Unavailable, Err: err}
}
