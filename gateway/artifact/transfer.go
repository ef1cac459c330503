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
	"sync"
	"sync/atomic"

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
	// HasChunks lists what is there, as first and last of each run, in order.
	HasChunks(ctx context.Context, from signing.DID, id string) ([][2]int, error)
	// DropChunks forgets a transfer of our own.
	DropChunks(ctx context.Context, id string) error
}

// window is how many chunks are under way at once: 1 MiB.
const window = 16

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

// Upload puts what the depot does not have of a transfer, from first to last,
// and returns once it says that it has every chunk. After an error, or when the
// relay has lost its store, it is called again and puts what is missing: the
// same sealed bytes. from is who sends.
func (s *Store) Upload(ctx context.Context, depot Depot, from, to signing.DID, t Transfer) error {
	f, err := s.root.Open(outgoing(t.ID))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return spec.Refuse(spec.NotFound, "", "no such transfer")
		}
		return disk("opening sealed chunks", err)
	}
	defer f.Close()
	for range passes {
		left, err := missing(ctx, depot, from, t)
		if err != nil || len(left) == 0 {
			return err
		}
		done := s.moving(t.ID, int64(t.Count)-int64(len(left)))
		err = inOrder(ctx, len(left), func(ctx context.Context, i int) error {
			n := left[i]
			b := make([]byte, box.SealedChunkSize)
			got, err := f.ReadAt(b, int64(n)*box.SealedChunkSize)
			if err != nil && !errors.Is(err, io.EOF) {
				return disk("reading sealed chunks", err)
			}
			return depot.PutChunk(ctx, to, t.ID.s, int(n), b[:got])
		}, func(int) error { done.Add(1); return nil })
		if err != nil {
			return outward(err)
		}
	}
	return spec.Refuse(spec.Unavailable, "", "the relay does not keep what it takes")
}

// passes is how often Upload looks at what is missing: once before, once after,
// once more for a relay that lost its store in between.
const passes = 3

// missing lists the chunks that a depot does not have, in order.
func missing(ctx context.Context, depot Depot, from signing.DID, t Transfer) ([]uint32, error) {
	runs, err := depot.HasChunks(ctx, from, t.ID.s)
	if err != nil {
		return nil, outward(err)
	}
	var left []uint32
	next := 0
	for _, run := range inReason(runs, int(t.Count)) {
		for ; next < run[0]; next++ {
			left = append(left, uint32(next))
		}
		next = run[1] + 1
	}
	for ; next < int(t.Count); next++ {
		left = append(left, uint32(next))
	}
	return left, nil
}

// Kept says whether a depot has every chunk of a transfer.
func Kept(ctx context.Context, depot Depot, from signing.DID, t Transfer) (bool, error) {
	left, err := missing(ctx, depot, from, t)
	return len(left) == 0, err
}

// inReason leaves out of a relay's list what is not in order or beyond the count.
func inReason(runs [][2]int, count int) (out [][2]int) {
	next := 0
	for _, run := range runs {
		first, last := max(run[0], next), min(run[1], count-1)
		if last >= first {
			out = append(out, [2]int{first, last})
			next = last + 1
		}
	}
	return out
}

// moving counts the chunks of a transfer from here on, for whoever watches.
func (s *Store) moving(id TransferID, n int64) *atomic.Int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	done := s.under[id]
	if done == nil {
		done = new(atomic.Int64)
		s.under[id] = done
	}
	done.Store(n)
	return done
}

// Progress is how many bytes of a file have been put, or have come: as far as
// this process has looked, or as the quarantine holds them.
func (s *Store) Progress(t Transfer) int64 {
	s.mu.Lock()
	done := s.under[t.ID]
	s.mu.Unlock()
	if done != nil {
		return min(done.Load()*box.ChunkSize, t.Size)
	}
	if info, err := s.root.Lstat(incoming(t.ID)); err == nil {
		return min(info.Size(), t.Size)
	}
	return 0
}

// Forget drops the sealed chunks of a transfer, or what of it has arrived: it
// was acknowledged, or its task has ended.
func (s *Store) Forget(id TransferID) error {
	s.mu.Lock()
	delete(s.under, id)
	s.mu.Unlock()
	for _, name := range []string{outgoing(id), incoming(id)} {
		if err := s.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return disk("forgetting a transfer", err)
		}
	}
	return nil
}

// inOrder calls do for 0 … n-1, window of them at once, and then done for each,
// one after the other in order. It stops at the first error, of the least.
func inOrder(ctx context.Context, n int, do func(ctx context.Context, i int) error, done func(i int) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	under := make(chan chan error, window-1)
	wg.Go(func() {
		defer close(under)
		for i := range n {
			answer := make(chan error, 1)
			select {
			case under <- answer:
			case <-ctx.Done():
				return
			}
			wg.Go(func() { answer <- do(ctx, i) })
		}
	})
	i := 0
	for answer := range under {
		if err := <-answer; err != nil {
			return err
		}
		if err := done(i); err != nil {
			return err
		}
		i++
	}
	if i < n {
		return &spec.Error{Reason: spec.Unavailable, Err: ctx.Err()}
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
