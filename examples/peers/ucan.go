package peers

import (
	"time"

	didkey "github.com/MetaMask/go-did-it/controller/did-key"
	edkeys "github.com/MetaMask/go-did-it/crypto/ed25519"
	"github.com/ipfs/go-cid"

	"github.com/ucan-wg/go-ucan/pkg/command"
	"github.com/ucan-wg/go-ucan/pkg/policy"
	"github.com/ucan-wg/go-ucan/token/delegation"
	"github.com/ucan-wg/go-ucan/token/invocation"
)

// UCAN is a chain of delegations and an invocation, sealed.
type UCAN struct {
	links [][]byte // from the invoker's to the root, as proofs are
	call  []byte
}

// NewUCAN makes a chain of so many delegations.
func NewUCAN(links int) (*UCAN, error) {
	key := func(n int) edkeys.PrivateKey {
		s := seed(n)
		k, err := edkeys.PrivateKeyFromSeed(s[:])
		if err != nil {
			panic(err)
		}
		return k
	}
	read, err := command.Parse("/docs/read")
	if err != nil {
		return nil, err
	}
	below, err := policy.Construct(policy.Like(".path", "a/*"))
	if err != nil {
		return nil, err
	}
	owner := didkey.FromPrivateKey(key(0))
	u := &UCAN{}
	var proofs []cid.Cid
	for n := range links {
		t, err := delegation.New(didkey.FromPrivateKey(key(n)), didkey.FromPrivateKey(key(n+1)), read, below, owner, delegation.WithExpiration(end))
		if err != nil {
			return nil, err
		}
		sealed, id, err := t.ToSealed(key(n))
		if err != nil {
			return nil, err
		}
		u.links, proofs = append([][]byte{sealed}, u.links...), append([]cid.Cid{id}, proofs...)
	}
	call, err := invocation.New(didkey.FromPrivateKey(key(links)), read, owner, proofs,
		invocation.WithArgument("path", "a/b.txt"), invocation.WithExpiration(time.Now().Add(time.Hour)))
	if err != nil {
		return nil, err
	}
	u.call, _, err = call.ToSealed(key(links))
	return u, err
}

// Signatures are those of the delegations and the invocation.
func (u *UCAN) Signatures() int { return len(u.links) + 1 }

// proofs are delegations that were opened, by their CIDs.
type proofs map[cid.Cid]*delegation.Token

func (p proofs) GetDelegation(c cid.Cid) (*delegation.Token, error) {
	t, ok := p[c]
	if !ok {
		return nil, delegation.ErrDelegationNotFound
	}
	return t, nil
}

// Verify opens the invocation and every delegation, and asks whether it may be executed.
func (u *UCAN) Verify() error {
	call, _, err := invocation.FromSealed(u.call)
	if err != nil {
		return err
	}
	held := proofs{}
	for _, sealed := range u.links {
		t, id, err := delegation.FromSealed(sealed)
		if err != nil {
			return err
		}
		held[id] = t
	}
	return call.ExecutionAllowed(held)
}

// Flip changes one bit of a delegation.
func (u *UCAN) Flip(n int) { u.links[n][len(u.links[n])/2] ^= 1 }
