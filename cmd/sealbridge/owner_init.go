package main

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sealbridge/gateway/home"
	"sealbridge/manifest"
	"sealbridge/relay"
	"sealbridge/signing"
)

var (
	_ = register(initCommand)
	_ = register(whoamiCommand)
)

func initCommand(a *app) *cobra.Command {
	var name, address, token string
	var unsealed bool
	c := &cobra.Command{
		Use: "init", GroupID: "start", Short: "make an identity: keys, certificate, configuration",
		Example: "  sealbridge init --name Ann --relay wss://relay.example.org/z6Mk…\n  sealbridge init --name Ben --invite sealbridge-invite:…",
		RunE: func(c *cobra.Command, _ []string) error {
			ref, err := relayOf(address, token)
			if err != nil {
				return err
			}
			pass, err := a.newPassphrase(unsealed, "your owner key")
			if err != nil {
				return err
			}
			h, err := home.Create(a.home, home.New{Name: name, Relay: ref, Passphrase: pass, Chance: rand.Reader, At: a.now()})
			if err != nil {
				return err
			}
			if token != "" {
				if err := home.KeepInvite(a.home, token); err != nil {
					return err
				}
			}
			if a.json {
				return a.emit(identityOf(h))
			}
			sealed := "key sealed"
			if pass == "" {
				sealed = "key not sealed: whoever reads this folder can say yes for you"
			}
			a.print("Ready.\n  you    %s  %s   %s\n  relay  %s\n  home   %s\n", name, shortDID(h.Owner), sealed, ref.Endpoint, a.home)
			a.print("  next owner key  %s  (keep a copy elsewhere: it replaces a lost key)\n", h.NextKeyPath())
			a.print("Next\n  sealbridge serve                          start the gateway\n")
			if token != "" {
				a.print("  sealbridge contact add                    redeem the invite, once serve runs\n")
			} else {
				a.print("  sealbridge invite                         make a contact\n")
			}
			a.print("  sealbridge agent add coder -- COMMAND…    if an agent of yours should do work\n")
			return nil
		},
	}
	c.Flags().StringVar(&name, "name", "", "your name, as contacts first see it")
	c.Flags().StringVar(&address, "relay", "", "address of your relay, its identity included")
	c.Flags().StringVar(&token, "invite", "", "an invite: takes the relay from it")
	c.Flags().BoolVar(&unsealed, "unsealed", false, "keep the owner key open on disk: for machines without a person")
	c.MarkFlagRequired("name") //nolint:errcheck // the flag exists
	return c
}

func relayOf(address, token string) (manifest.RelayRef, error) {
	switch {
	case token != "":
		inv, _, err := manifest.ParseInviteToken(token)
		if err != nil {
			return manifest.RelayRef{}, err
		}
		return inv.Relay, nil
	case address == "":
		return manifest.RelayRef{}, usage("a relay is needed: --relay ADDRESS (a friend's, or run `sealbridge relay` on this computer), or --invite TOKEN")
	}
	at, err := relay.ParseAddress(address)
	return manifest.RelayRef{Endpoint: at.URL, Did: at.DID}, err
}

// newPassphrase asks twice; without a terminal the key stays unsealed, with a warning.
func (a *app) newPassphrase(unsealed bool, key string) (string, error) {
	if unsealed || !a.terminal() {
		if !unsealed {
			a.note("sealbridge: warning: no terminal to ask for a passphrase: %s stays unsealed", key)
		}
		return "", nil
	}
	a.note("Choose a passphrase for %s. Agents never learn it; every yes needs it.", key)
	for {
		one, err := a.passphrase("  passphrase ")
		if err != nil {
			return "", err
		}
		two, err := a.passphrase("  again      ")
		switch {
		case err != nil:
			return "", err
		case one == two && len(one) >= 8:
			return one, nil
		case one != two:
			a.note("They differ.")
		default:
			a.note("Eight characters at least.")
		}
	}
}

// identity is who a home is.
type identity struct {
	Name        string `json:"name"`
	Owner       string `json:"owner"`
	Agent       string `json:"agent"`
	Fingerprint string `json:"fingerprint"`
	Relay       string `json:"relay"`
	RelayDID    string `json:"relayDid"`
	Sealed      bool   `json:"sealed"`
	Until       string `json:"certificateUntil"`
	Home        string `json:"home"`
}

func identityOf(h *home.Home) identity {
	c := h.Certified()
	return identity{c.DisplayName, h.Owner.String(), c.AgentDid.String(), manifest.Fingerprint(h.Owner), c.Relay.Endpoint, c.Relay.Did.String(), h.Sealed(), c.ExpiresAt.String(), h.Dir}
}

func whoamiCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "whoami", GroupID: "start", Short: "say who this home is", Example: "  sealbridge whoami --json",
		RunE: func(*cobra.Command, []string) error {
			h, err := home.Read(a.home)
			if err != nil {
				return err
			}
			id := identityOf(h)
			if a.json {
				return a.emit(id)
			}
			sealed := "sealed with a passphrase"
			if !id.Sealed {
				sealed = "not sealed"
			}
			a.print("%s\n  owner        %s   %s\n  fingerprint  %s\n  agent        %s\n  relay        %s\n  certificate  until %s\n", id.Name, id.Owner, sealed, id.Fingerprint, id.Agent, id.Relay, id.Until)
			return nil
		},
	}
}

// shortDID shows both ends, for a person who knows the whole elsewhere.
func shortDID(d signing.DID) string {
	s := strings.TrimPrefix(d.String(), "did:key:")
	return s[:6] + "…" + s[len(s)-3:]
}

// chance16 is 128 random bits in base64url.
func chance16() (string, error) {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(b[:]), nil
}

// owner opens the owner's key for one signature; the passphrase is asked on the terminal only.
func (a *app) owner(h *home.Home) (signing.Signer, string, error) {
	return h.OwnerSigner(func() (string, error) { return a.passphrase("passphrase ") })
}

// inLocal is a time as people read it: theirs, with its zone.
func inLocal(t time.Time) string { return t.Local().Format("Mon 2 Jan 15:04 MST") }

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
