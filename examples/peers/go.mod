module sealbridge/examples/peers

go 1.26.0

require (
	github.com/MetaMask/go-did-it v1.0.0-pre1
	github.com/biscuit-auth/biscuit-go/v2 v2.2.0
	github.com/ipfs/go-cid v0.5.0
	github.com/ucan-wg/go-ucan v1.1.0
	sealbridge v0.0.0
)

require (
	filippo.io/edwards25519 v1.2.0 // indirect
	github.com/alecthomas/participle/v2 v2.0.0 // indirect
	github.com/decred/dcrd/dcrec/secp256k1/v4 v4.4.0 // indirect
	github.com/gowebpki/jcs v1.0.2 // indirect
	github.com/ipld/go-ipld-prime v0.21.0 // indirect
	github.com/klauspost/cpuid/v2 v2.2.9 // indirect
	github.com/minio/sha256-simd v1.0.1 // indirect
	github.com/mr-tron/base58 v1.3.0 // indirect
	github.com/multiformats/go-base32 v0.1.0 // indirect
	github.com/multiformats/go-base36 v0.2.0 // indirect
	github.com/multiformats/go-multibase v0.3.0 // indirect
	github.com/multiformats/go-multicodec v0.9.0 // indirect
	github.com/multiformats/go-multihash v0.2.3 // indirect
	github.com/multiformats/go-varint v0.0.7 // indirect
	github.com/polydawn/refmt v0.89.0 // indirect
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // indirect
	github.com/spaolacci/murmur3 v1.1.0 // indirect
	github.com/ucan-wg/go-varsig v1.0.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
	lukechampine.com/blake3 v1.3.0 // indirect
)

replace sealbridge => ../..
