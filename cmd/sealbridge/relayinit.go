package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"sealbridge/relay"
	"sealbridge/signing"
	"sealbridge/spec"
)

func relayInitCommand(a *app) *cobra.Command {
	var dir, at, listen string
	c := &cobra.Command{
		Use:     "init",
		Short:   "write a commented relay.yaml and the relay's key",
		Example: "  sealbridge relay init --dir /etc/sealbridge --url wss://relay.example.org",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.initRelay(dir, at, listen) },
	}
	c.Flags().StringVar(&dir, "dir", ".", "folder of relay.yaml and relay.key")
	c.Flags().StringVar(&at, "url", "", "what owners dial: wss://relay.example.org, or tls://host:port")
	c.Flags().StringVar(&listen, "listen", relayListen, "host:port")
	return c
}

func (a *app) initRelay(dir, at, listen string) error {
	if err := relayURL(at); err != nil {
		return err
	}
	config, key := filepath.Join(dir, relayConfigName), filepath.Join(dir, relayKeyName)
	for _, p := range []string{key, config} {
		if exists(p) {
			return hint(spec.Refuse(spec.Conflict, p, "is there already"), "a relay's identity is in its address: choose another --dir for another relay")
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return &spec.Error{Reason: spec.Unavailable, Path: dir, Err: err}
	}
	by, err := newRelayKey(key)
	if err != nil {
		return err
	}
	if err := writeOnce(config, []byte(relayText(at, listen)), 0o644); err != nil {
		return err
	}
	return a.sayRelayInit(config, key, at, by.DID())
}

// sayRelayInit prints each file and what it is for. Without a URL the address
// is known once the relay listens.
func (a *app) sayRelayInit(config, key, at string, did signing.DID) error {
	address := ""
	if at != "" {
		address = relay.Address{URL: at, DID: did}.String()
	}
	if a.json {
		return a.emit(map[string]string{"config": config, "key": key, "did": did.String(), "address": address})
	}
	a.print("%s   what you decide: read it, each line has a reason\n%s    the relay's identity: whoever has it is the relay, so back it up\n", config, key)
	if address != "" {
		a.print("give to owners   %s\n", address)
	} else {
		a.print("identity         %s (the address to hand out is printed when it listens)\n", did)
	}
	a.print("start            sealbridge relay --config %s\n", config)
	return nil
}

// relayURL takes what can stand before an identity: an address of its own rules (R3).
func relayURL(at string) error {
	if at == "" {
		return nil
	}
	u, err := url.Parse(at)
	if err != nil || u.Path != "" {
		return usage("--url takes scheme://host[:port] and nothing after it")
	}
	probe := relay.Address{URL: at, DID: signing.NewKey([32]byte{1}).DID()}
	if _, err := relay.ParseAddress(probe.String()); err != nil {
		return spec.At("--url ", err)
	}
	return nil
}

// relayText is relay.yaml with its comments.
func relayText(at, listen string) string {
	public, mode := "url: "+at+"    ", "invite"
	if at == "" {
		public = "# url: wss://relay.example.org"
	}
	if at == "" && onLoopback(listen) {
		mode = "open"
	}
	return strings.TrimLeft(fmt.Sprintf(`
# relay.yaml: what a Sealbridge relay does. It is read strictly: an unknown key
# is an error with its line. Paths count from this folder.

# Shown to owners by %[1]srelay info%[1]s.
# name: Example relay
# contact: relay-ops@example.org
# terms: https://example.org/relay-terms

# What owners dial; the relay's identity is appended. wss:// works behind a web proxy.
%[2]s
# Where it listens. Without tls only loopback, behind a proxy.
listen: %[3]s
# tls: {cert: cert.pem, key: key.pem}      # read again when the files change
# behind_proxy: [127.0.0.1]                # who connects from elsewhere may not log in; X-Forwarded-For is never read
# proxy_certs: [/etc/caddy/cert.pem]       # the proxy's certificates, read again when they change: clients hold it to their keys (R3)
# proxy_tls_keys: [sha256:…]               # or those keys themselves, SHA-256 of the SubjectPublicKeyInfo

# /healthz, /readyz and /metrics. Never public.
# ops: 127.0.0.1:9464

store:
  dir: store
  # max: 40GB                              # default: 8 GiB, at most half of what is free
  # keep_free: 10%%                         # takes nothing more when the disk has less
  # sync: always                           # or interval: faster, the last seconds may be lost with the power

# invite: only keys with a ticket of %[1]srelay admit%[1]s. open: whoever reaches it.
admission: {mode: %[4]s}

# For each key; these are the defaults.
# quota: {put: 200/s, mail: {count: 2000, bytes: 64MB, age: 14d}, files: {bytes: 2GB, age: 7d}, per_sender: 64, connections: 4}
`, "`", strings.TrimRight(public, " "), listen, mode), "\n")
}
