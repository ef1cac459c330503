package main

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"sealbridge/relay/server"
	"sealbridge/spec"
)

// natsFile is the part of relay.yaml for an operator's own NATS.
type natsFile struct {
	URLs     []string `yaml:"urls"`
	Keys     string   `yaml:"keys"`
	Account  string   `yaml:"account"`
	Replicas int      `yaml:"replicas"`
	CA       string   `yaml:"ca"`
}

const natsKeysName = "nats.keys"

// natsKeys are the seeds at rest, mode 0600.
type natsKeys struct {
	Kind    string `json:"kind"`
	Issuer  string `json:"issuer"`
	Service string `json:"service"`
	Callout string `json:"callout"`
	System  string `json:"system"`
}

func relayAttach(a *app, f *relayFlags) *cobra.Command {
	var urls []string
	var show bool
	c := &cobra.Command{
		Use:   "attach --nats URL",
		Short: "run the relay on your own NATS server or cluster",
		Long: "The relay is then an ordinary client of it. First --server-config makes its keys and prints\n" +
			"what your servers have to be told; url: in relay.yaml is what owners dial, and with TLS\n" +
			"proxy_certs: are your servers' certificates.",
		Example: "  sealbridge relay attach --config relay.yaml --server-config > sealbridge.conf\n" +
			"  sealbridge relay attach --config relay.yaml --nats nats://n1:4222 --nats nats://n2:4222 --nats nats://n3:4222",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if show {
				return a.attachConfig(*f)
			}
			return a.runRelay(c.Context(), *f, true, urls)
		},
	}
	c.Flags().StringArrayVar(&urls, "nats", nil, "a server of yours: nats://host:4222 or tls://host:4222")
	c.Flags().BoolVar(&show, "server-config", false, "print what your NATS servers have to be told")
	c.Flags().StringVar(&f.level, "log-level", "info", "debug, info, warn or error, as JSON on stderr")
	return c
}

// attachConfig prints the configuration of the servers, and makes the keys if there are none.
func (a *app) attachConfig(f relayFlags) error {
	r, err := a.readRelay(f)
	if err != nil {
		return err
	}
	at, err := readNATSKeys(r.NATS.Keys)
	if errors.Is(err, fs.ErrNotExist) {
		if at, err = server.NewAttachKeys(); err == nil {
			err = writeNATSKeys(r.NATS.Keys, at)
		}
	}
	if err != nil {
		return err
	}
	at.Account = r.NATS.Account
	text, err := at.ServerConfig()
	if err != nil {
		return err
	}
	if a.json {
		return a.emit(map[string]string{"config": text, "keys": r.NATS.Keys})
	}
	a.print("%s", text)
	return nil
}

// attach is what package server takes; urls of the command line count before those of the file.
func (r relayFile) attach(urls []string) (*server.Attach, error) {
	n := r.NATS
	at, err := readNATSKeys(n.Keys)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, hint(spec.Refuse(spec.NotFound, n.Keys, "no keys for your NATS"), "`sealbridge relay attach --server-config` makes them, and prints what your servers have to be told")
	} else if err != nil {
		return nil, err
	}
	if at.URLs = n.URLs; len(urls) > 0 {
		at.URLs = urls
	}
	at.Account, at.Replicas = n.Account, n.Replicas
	if n.CA != "" {
		pem, err := os.ReadFile(n.CA)
		if err != nil {
			return nil, unopened(n.CA, err)
		}
		at.RootCAs = x509.NewCertPool()
		if !at.RootCAs.AppendCertsFromPEM(pem) {
			return nil, spec.Refuse(spec.Malformed, n.CA, "certificates in PEM")
		}
	}
	return &at, nil
}

func readNATSKeys(path string) (at server.Attach, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return at, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return at, spec.Refuse(spec.NotPermitted, path, "others can read these keys: chmod 600")
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return at, unopened(path, err)
	}
	var k natsKeys
	if err := json.Unmarshal(b, &k); err != nil || k.Kind != natsKeysName {
		return at, spec.Refuse(spec.Malformed, path, "keys that `relay attach --server-config` made")
	}
	return server.Attach{Issuer: k.Issuer, Service: k.Service, Callout: k.Callout, System: k.System}, nil
}

func writeNATSKeys(path string, at server.Attach) error {
	b, err := json.MarshalIndent(natsKeys{natsKeysName, at.Issuer, at.Service, at.Callout, at.System}, "", "  ")
	if err != nil {
		return err
	}
	return writeOnce(path, append(b, '\n'), 0o600)
}
