package workload

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"sealbridge/relay"
	"sealbridge/relay/client"
	"sealbridge/relay/server"
	"sealbridge/signing"
)

// startRelay is a real relay on loopback, with shares that no measurement runs into.
func startRelay(ctx context.Context, dir string) (*server.Server, error) {
	return server.Start(ctx, server.Config{Dir: dir, Listen: "127.0.0.1:0", Signer: Keys(0)[0], Log: slog.New(slog.DiscardHandler), MaxStore: 1 << 30,
		Quotas: server.Quotas{PutsPerSecond: 1_000_000, MailCount: 1_000_000, MailBytes: 1 << 30, PerSender: 1_000_000}})
}

// Mail is a put of 6 KiB at a relay that flushes each, and the yardstick: a bare
// JetStream publish of the same bytes, flushed too. stop ends both.
func Mail(ctx context.Context, dir string) (put, bare Work, stop func(), err error) {
	s, err := startRelay(ctx, filepath.Join(dir, "relay"))
	if err != nil {
		return nil, nil, nil, err
	}
	var end []func()
	stop = func() {
		for i := len(end) - 1; i >= 0; i-- {
			end[i]()
		}
	}
	end = append(end, func() { s.Close() }) //nolint:errcheck // its folder goes too
	ann, ben := Keys(1)[1], Keys(2)[1]
	dial := func(who signing.Signer) (c *client.Conn) {
		if err == nil {
			if c, err = client.Dial(ctx, client.Config{Address: s.Address(), Agent: who}); err == nil {
				end = append(end, c.Close)
			}
		}
		return c
	}
	from, to := dial(ann), dial(ben)
	if err != nil {
		stop()
		return nil, nil, nil, err
	}
	kid := signing.DigestOf([]byte("key of ben"))
	envelope, err := letter(ben.DID(), kid)
	if err == nil {
		err = to.PublishKey(ctx, kid, []byte("document of ben"))
	}
	if err == nil {
		err = to.SetList(ctx, []signing.DID{ann.DID()}, nil)
	}
	publish, ended, yerr := server.Yardstick(ctx, filepath.Join(dir, "bare"), relay.SyncAlways)
	if yerr == nil {
		end = append(end, ended)
	} else if err == nil {
		err = yerr
	}
	if err != nil {
		stop()
		return nil, nil, nil, err
	}
	put = func() error {
		_, err := from.Put(ctx, ben.DID(), envelope, "")
		return err
	}
	return put, func() error { return publish(envelope) }, stop, nil
}

// letter looks like an envelope and holds noise: a relay cannot tell.
func letter(to signing.DID, kid signing.Digest) ([]byte, error) {
	noise := make([]byte, 4200)
	if _, err := rand.Read(noise); err != nil {
		return nil, err
	}
	b64 := base64.RawURLEncoding.EncodeToString
	return fmt.Appendf(nil, `{"box":"%s","commit":"%s","enc":"%s","expiresAt":"%s","kid":"%s","to":"%s","v":1}`,
		b64(noise), signing.DigestOf(noise), b64([]byte("enc")), signing.TimeOf(time.Now().Add(time.Hour)), kid, to), nil
}
