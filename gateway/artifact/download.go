package artifact

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"

	"sealbridge/signing"
	"sealbridge/signing/box"
	"sealbridge/spec"
)

// Download brings a file in: chunk by chunk into quarantine, and into the store
// only when size and digest are those promised (R5). After an error it can be
// called again and goes on behind the chunks it has. A file whose chunks open
// but whose digest is another is dropped.
func (s *Store) Download(ctx context.Context, depot Depot, from signing.DID, t Transfer) error {
	if s.Has(t.Digest) {
		return s.Forget(t.ID)
	}
	f, err := s.root.OpenFile(incoming(t.ID), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return disk("opening the quarantine", err)
	}
	defer f.Close()
	sum := sha256.New()
	n, err := arrived(f, sum, t)
	if err != nil {
		return err
	}
	out, done := io.MultiWriter(s.wrap(f), sum), s.moving(t.ID, int64(n))
	var plain [window][]byte // of those under way, each in its place
	err = inOrder(ctx, int(t.Count-n), func(ctx context.Context, i int) error {
		sealed, err := depot.GetChunk(ctx, from, t.ID.s, int(n)+i)
		if err == nil {
			plain[i%window], err = box.OpenChunk(t.Key, t.ID.s, n+uint32(i), t.Count, sealed)
		}
		return err
	}, func(i int) error { // what came is kept, up to the first that did not
		if _, err := out.Write(plain[i%window]); err != nil {
			return disk("writing to quarantine", err)
		}
		done.Add(1)
		return nil
	})
	if err != nil {
		return outward(err)
	}
	return s.admit(f, t, digestOf(sum))
}

// arrived hashes the whole chunks that an earlier try left and cuts off the rest.
func arrived(f *os.File, sum io.Writer, t Transfer) (uint32, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, disk("reading the quarantine", err)
	}
	n := min(info.Size()/box.ChunkSize, int64(t.Count)-1) // the last chunk is always asked for anew
	if err := f.Truncate(n * box.ChunkSize); err != nil {
		return 0, disk("reading the quarantine", err)
	}
	if _, err := io.CopyN(sum, f, n*box.ChunkSize); err != nil {
		return 0, disk("reading the quarantine", err)
	}
	return uint32(n), nil
}

// admit lets a whole file out of quarantine, or drops it.
func (s *Store) admit(f *os.File, t Transfer, got signing.Digest) error {
	info, err := f.Stat()
	if err != nil {
		return disk("measuring the quarantine", err)
	}
	if info.Size() != t.Size || got != t.Digest {
		f.Close()
		s.root.Remove(incoming(t.ID))
		return spec.Refuse(spec.BadDigest, "", fmt.Sprintf("the file that came is not the one promised: %d bytes", info.Size()))
	}
	if err := f.Sync(); err != nil {
		return disk("flushing the quarantine", err)
	}
	if err := f.Close(); err != nil {
		return disk("flushing the quarantine", err)
	}
	return s.commit(incoming(t.ID), t.Digest)
}
