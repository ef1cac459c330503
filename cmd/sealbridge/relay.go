package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/relay/server"
	"sealbridge/signing"
	"sealbridge/spec"
)

var _ = register(relayCommand)

// drainWithin is how long a relay finishes what it took before it stops.
const drainWithin = 20 * time.Second

func relayCommand(a *app) *cobra.Command {
	var f relayFlags
	c := &cobra.Command{
		Use:     "relay",
		GroupID: "relay",
		Short:   "run a relay, which carries sealed bytes between gateways",
		Long: "Without a configuration it listens on loopback and takes everybody: for trying out.\n" +
			"`relay init` writes a relay.yaml for a public one; relay.yaml of this folder is read by itself.",
		Example: "  sealbridge relay --listen 127.0.0.1:0 --store ./relay-store\n  sealbridge relay --config /etc/sealbridge/relay.yaml",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.runRelay(c.Context(), f, false, nil) },
	}
	p := c.PersistentFlags()
	p.StringVar(&f.config, "config", "", "relay.yaml")
	p.StringVar(&f.store, "store", "", "folder of the store")
	c.Flags().StringVar(&f.listen, "listen", "", "host:port; port 0 picks a free one (default "+relayListen+")")
	c.Flags().StringVar(&f.level, "log-level", "info", "debug, info, warn or error, as JSON on stderr")
	c.AddCommand(relayInitCommand(a))
	c.AddCommand(relayAdminCommands(a, &f)...)
	return c
}

// runRelay serves until it is told to stop, drained, or its store had a fault.
// own says that the broker is the operator's, at these URLs or at those of the file.
func (a *app) runRelay(ctx context.Context, f relayFlags, own bool, urls []string) error {
	r, c, err := a.prepareRelay(f)
	if err != nil {
		return err
	}
	if own {
		if c.Attach, err = r.attach(urls); err != nil {
			return err
		}
	}
	s, err := server.Start(ctx, c)
	if err != nil {
		return relayProblem(err)
	}
	if err := a.sayRelay(s, r, c); err != nil {
		return errors.Join(err, s.Close())
	}
	notifySystemd("READY=1")
	select {
	case <-ctx.Done():
	case <-s.Done():
	case <-s.Faulted():
	}
	notifySystemd("STOPPING=1")
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWithin)
	defer cancel()
	if err := s.Drain(drain); err != nil {
		return err
	}
	if s.Failed() {
		return spec.Refuse(spec.Unavailable, "", "the store had a fault: start the relay again")
	}
	return nil
}

// prepareRelay reads the configuration and the key; a relay on loopback without
// a configuration makes its key at the first start.
func (a *app) prepareRelay(f relayFlags) (r relayFile, c server.Config, err error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		return r, c, usage("--log-level takes debug, info, warn, error")
	}
	if r, err = a.readRelay(f); err != nil {
		return r, c, err
	}
	if c, err = r.config(); err != nil {
		return r, c, err
	}
	c.Log = slog.New(slog.NewJSONHandler(a.err, &slog.HandlerOptions{Level: level}))
	c.Signer, err = readRelayKey(r.Key)
	if errors.Is(err, fs.ErrNotExist) {
		if r.from != "" || !onLoopback(r.Listen) {
			return r, c, hint(spec.Refuse(spec.NotFound, r.Key, "no relay key"), "`sealbridge relay init` makes one, with a relay.yaml")
		}
		if err := os.MkdirAll(filepath.Dir(r.Key), 0o700); err != nil {
			return r, c, &spec.Error{Reason: spec.Unavailable, Path: r.Key, Err: err}
		}
		c.Signer, err = newRelayKey(r.Key)
	}
	return r, c, err
}

// relayProblem gives what keeps a relay from starting its word.
func relayProblem(err error) error {
	var e *spec.Error
	if errors.As(err, &e) {
		return err
	}
	return &spec.Error{Reason: spec.Unavailable, Err: err}
}

// startedRelay is what `relay --json` prints once it serves.
type startedRelay struct {
	DID       signing.DID      `json:"did"`
	Address   string           `json:"address"` // to hand out
	Listen    string           `json:"listen"`
	Ops       string           `json:"ops"`
	Store     string           `json:"store"`
	Admission server.Admission `json:"admission"`
	Members   int              `json:"members"`
}

func (a *app) sayRelay(s *server.Server, r relayFile, c server.Config) error {
	info := s.Info()
	at := s.Address()
	if a.json {
		return a.emit(startedRelay{at.DID, at.String(), r.Listen, s.OpsAddress(), s.Dir(), info.Admission, info.Stats.Members})
	}
	line := fmt.Sprintf("relay %s  %s", shortDID(at.DID), at.URL)
	switch {
	case c.Attach != nil:
		line += " via your NATS"
	case c.URL != "":
		line += " via " + r.Listen
	}
	if ops := s.OpsAddress(); ops != "" {
		line += "   ops " + ops
	}
	used := info.Stats.WaitingBytes + info.Stats.FileBytes
	a.print("%s   %s, %s stored, %s free on the disk\n", line, counted(info.Stats.Members, "member"), bytesOf(used), bytesOf(info.Stats.DiskFree))
	a.print("give to owners   %s\n", at)
	if info.Admission == server.Invite {
		a.print("admit one        sealbridge relay admit            (admission is by invitation)\n")
	} else {
		a.print("admission        open: whoever reaches it gets a mailbox\n")
	}
	a.sayWorst(info.Stats.Members, c)
	return nil
}

// sayWorst prints what the members may store at most, where the store is too small for it.
func (a *app) sayWorst(members int, c server.Config) {
	mail, files := c.Quotas.MailBytes, c.Quotas.FileBytes
	if mail == 0 {
		mail = 64 << 20
	}
	if files == 0 {
		files = 2 << 30
	}
	if worst := int64(members) * (mail + files); c.MaxStore > 0 && worst > c.MaxStore {
		a.print("worst case       %s × (%s mail + %s files) = %s > %s store: first come, first served\n",
			counted(members, "member"), bytesOf(mail), bytesOf(files), bytesOf(worst), bytesOf(c.MaxStore))
	}
}

func counted(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// notifySystemd tells a service manager of Type=notify; without one it does nothing.
func notifySystemd(state string) {
	at := os.Getenv("NOTIFY_SOCKET")
	if at == "" {
		return
	}
	c, err := net.Dial("unixgram", at)
	if err != nil {
		return
	}
	defer c.Close()
	c.Write([]byte(state)) //nolint:errcheck // a manager that is gone needs no news
}
