package box

import (
	"bytes"
	"testing"

	"sealbridge/spec"
)

const transferA, transferB = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"

func chunksOf(key [32]byte, transfer string, size int) (plain [][]byte, sealed [][]byte) {
	count := Chunks(int64(size))
	for n := range count {
		p := bytes.Repeat([]byte{byte(n + 1)}, min(ChunkSize, size-int(n)*ChunkSize))
		plain = append(plain, p)
		sealed = append(sealed, SealChunk(key, transfer, n, count, p))
	}
	return plain, sealed
}

func TestChunksOpenInTheirPlaceOnly(t *testing.T) {
	key := [32]byte{1}
	plain, sealed := chunksOf(key, transferA, 3*ChunkSize+10)
	for n := range plain {
		got, err := OpenChunk(key, transferA, uint32(n), 4, sealed[n])
		if err != nil || !bytes.Equal(got, plain[n]) {
			t.Fatalf("OpenChunk(%d) = %v", n, err)
		}
	}
	tests := []struct {
		name     string
		key      [32]byte
		transfer string
		n, count uint32
		sealed   []byte
		want     spec.Reason
	}{
		{"reordered", key, transferA, 0, 4, sealed[1], spec.BadDigest},
		{"last as a middle one", key, transferA, 0, 4, sealed[3], spec.Malformed},
		{"middle one as the last", key, transferA, 3, 4, sealed[2], spec.BadDigest},
		{"truncated file", key, transferA, 2, 3, sealed[2], spec.BadDigest},
		{"longer file", key, transferA, 3, 5, sealed[3], spec.Malformed},
		{"swapped transfer", key, transferB, 0, 4, sealed[0], spec.BadDigest},
		{"another key", [32]byte{2}, transferA, 0, 4, sealed[0], spec.BadDigest},
		{"truncated chunk", key, transferA, 3, 4, sealed[3][:20], spec.BadDigest},
		{"shorter than a tag", key, transferA, 3, 4, sealed[3][:10], spec.Malformed},
		{"beyond the count", key, transferA, 4, 4, sealed[3], spec.Malformed},
		{"no count", key, transferA, 0, 0, sealed[3], spec.Malformed},
		{"too many chunks", key, transferA, 0, MaxChunks + 1, sealed[0], spec.Malformed},
		{"too large", key, transferA, 0, 4, make([]byte, SealedChunkSize+1), spec.TooLarge},
	}
	for _, test := range tests {
		_, err := OpenChunk(test.key, test.transfer, test.n, test.count, test.sealed)
		wantReason(t, test.name, err, test.want)
	}
}

func TestChunkCounts(t *testing.T) {
	for size, want := range map[int64]uint32{0: 1, 1: 1, ChunkSize: 1, ChunkSize + 1: 2, 1 << 30: MaxChunks, 1<<30 + 1: 0, -1: 0} {
		if got := Chunks(size); got != want {
			t.Errorf("Chunks(%d) = %d, want %d", size, got, want)
		}
	}
	if _, err := OpenChunk([32]byte{}, transferA, 0, 1, SealChunk([32]byte{}, transferA, 0, 1, nil)); err != nil {
		t.Errorf("an empty file: %v", err)
	}
}

func FuzzOpenChunk(f *testing.F) {
	key := [32]byte{1}
	f.Add(transferA, uint32(0), uint32(1), SealChunk(key, transferA, 0, 1, []byte("x")))
	f.Fuzz(func(t *testing.T, transfer string, n, count uint32, sealed []byte) {
		plain, err := OpenChunk(key, transfer, n, count, sealed)
		if err == nil && !bytes.Equal(SealChunk(key, transfer, n, count, plain), sealed) {
			t.Fatalf("what opens is not sealed again")
		}
	})
}
