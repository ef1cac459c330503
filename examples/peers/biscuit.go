package peers

import (
	"crypto/ed25519"
	"crypto/rand"
	"time"

	"github.com/biscuit-auth/biscuit-go/v2"
	"github.com/biscuit-auth/biscuit-go/v2/datalog"
	"github.com/biscuit-auth/biscuit-go/v2/parser"
)

// Biscuit is a token with one block for each link; each block checks path and time.
type Biscuit struct {
	token []byte
	root  ed25519.PublicKey
	n     int
	asks  biscuit.ParsedAuthorizer // the call and the rule for it: text is parsed once, not for each call
}

// NewBiscuit makes a token of so many blocks, the authority with them.
func NewBiscuit(links int) (*Biscuit, error) {
	key := seed(0)
	priv := ed25519.NewKeyFromSeed(key[:])
	authority, err := parser.FromStringBlock(`right("docs.read", "mcp://docs/public/");`)
	if err != nil {
		return nil, err
	}
	builder := biscuit.NewBuilder(priv)
	if err := builder.AddBlock(authority); err != nil {
		return nil, err
	}
	b, err := builder.Build()
	if err != nil {
		return nil, err
	}
	for range links - 1 {
		part, err := parser.FromStringBlock(`
			check if resource($r), $r.starts_with("mcp://docs/public/");
			check if tool("docs.read");
			check if argument($p), $p.matches("^[a-z./]*$");
			check if time($t), $t < 2131-03-01T12:00:00Z;`)
		if err != nil {
			return nil, err
		}
		block := b.CreateBlock()
		if err := block.AddBlock(part); err != nil {
			return nil, err
		}
		if b, err = b.Append(rand.Reader, block.Build()); err != nil {
			return nil, err
		}
	}
	token, err := b.Serialize()
	if err != nil {
		return nil, err
	}
	asks, err := parser.FromStringAuthorizer(`
		resource("mcp://docs/public/a/b.txt"); tool("docs.read"); argument("a/b.txt"); time(2031-03-01T12:00:00Z);
		allow if right("docs.read", $p), resource($r), $r.starts_with($p);`)
	return &Biscuit{token, priv.Public().(ed25519.PublicKey), links, asks}, err
}

// Signatures are those of the blocks; the last holder proves itself with the key in the token.
func (b *Biscuit) Signatures() int { return b.n }

// Verify decodes the token, checks every block's signature and runs its checks.
func (b *Biscuit) Verify() error {
	token, err := biscuit.Unmarshal(b.token)
	if err != nil {
		return err
	}
	// By default it gives up after 2 ms of the clock, whatever it was doing.
	a, err := token.Authorizer(b.root, biscuit.WithWorldOptions(datalog.WithMaxDuration(time.Minute)))
	if err != nil {
		return err
	}
	a.AddAuthorizer(b.asks)
	return a.Authorize()
}

// Flip changes one bit.
func (b *Biscuit) Flip(n int) { b.token[len(b.token)*n/b.n+40] ^= 1 }
