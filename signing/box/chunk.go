package box

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"

	"sealbridge/spec"
)

const (
	// ChunkSize is how many bytes of a file one chunk holds; only the last may hold fewer (R5).
	ChunkSize = 64 << 10
	// SealedChunkSize is the largest sealed chunk in bytes.
	SealedChunkSize = ChunkSize + tagSize
	// MaxChunks is enough for the largest artifact of a manifest, 1 GiB.
	MaxChunks = 1 << 14
)

// Chunks is how many chunks a file of size bytes becomes; an empty file is one
// empty chunk. It is 0 for a size that no artifact may have.
func Chunks(size int64) uint32 {
	if size < 0 || size > ChunkSize*MaxChunks {
		return 0
	}
	return uint32(max(1, (size+ChunkSize-1)/ChunkSize))
}

// chunkCipher is AES-256-GCM. Both calls fail for key and nonce sizes only.
func chunkCipher(key [32]byte) cipher.AEAD {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return gcm
}

// chunkNonce is seven zero bytes ‖ counter (4, big-endian) ‖ last flag (1).
func chunkNonce(n, count uint32) []byte {
	nonce := make([]byte, 12)
	binary.BigEndian.PutUint32(nonce[7:], n)
	if n == count-1 {
		nonce[11] = 1
	}
	return nonce
}

// chunkData is what each chunk is bound to: transfer id ‖ count (4, big-endian).
func chunkData(transfer string, count uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte(transfer), count)
}

// chunkFits says whether a plaintext of this length may be chunk n of count.
func chunkFits(n, count uint32, length int) bool {
	switch {
	case n >= count || count > MaxChunks || length > ChunkSize:
		return false
	case n < count-1:
		return length == ChunkSize
	}
	return length > 0 || count == 1
}

// SealChunk seals chunk n of count under the fresh key of one artifact and one
// transfer. A key seals each n once: sealed bytes are kept and sent again as
// they are (R5). It panics if plain cannot be chunk n of count.
func SealChunk(key [32]byte, transfer string, n, count uint32, plain []byte) []byte {
	if !chunkFits(n, count, len(plain)) {
		panic("box: not a chunk of this transfer")
	}
	return chunkCipher(key).Seal(nil, chunkNonce(n, count), plain, chunkData(transfer, count))
}

// OpenChunk opens it. A chunk of another place, another transfer or a transfer
// of another length does not open.
func OpenChunk(key [32]byte, transfer string, n, count uint32, sealed []byte) ([]byte, error) {
	if len(sealed) > SealedChunkSize {
		return nil, spec.Refuse(spec.TooLarge, "", "64 KiB a chunk")
	}
	if !chunkFits(n, count, len(sealed)-tagSize) {
		return nil, spec.Refuse(spec.Malformed, "", "not a chunk of this transfer")
	}
	plain, err := chunkCipher(key).Open(nil, chunkNonce(n, count), sealed, chunkData(transfer, count))
	if err != nil {
		return nil, &spec.Error{Reason: spec.BadDigest, Limit: "the chunk does not open", Err: err}
	}
	return plain, nil
}
