package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"sealbridge/gateway/home"
	"sealbridge/manifest"
	"sealbridge/relay"
	"sealbridge/relay/server"
	"sealbridge/signing"
	"sealbridge/spec"
)

// relayFile is relay.yaml; zero values are the defaults of package server.
type relayFile struct {
	Name         string   `yaml:"name"`
	Contact      string   `yaml:"contact"`
	Terms        string   `yaml:"terms"`
	URL          string   `yaml:"url"`
	Listen       string   `yaml:"listen"`
	TLS          *tlsPair `yaml:"tls"`
	BehindProxy  []string `yaml:"behind_proxy"`
	ProxyTLSKeys []string `yaml:"proxy_tls_keys"`
	ProxyCerts   []string `yaml:"proxy_certs"`
	NATS         natsFile `yaml:"nats"`
	Ops          string   `yaml:"ops"`
	Key          string   `yaml:"key"`
	Store        struct {
		Dir      string `yaml:"dir"`
		Max      string `yaml:"max"`
		KeepFree string `yaml:"keep_free"`
		Sync     string `yaml:"sync"`
	} `yaml:"store"`
	Admission struct {
		Mode string `yaml:"mode"`
	} `yaml:"admission"`
	Quota struct {
		Put  string `yaml:"put"`
		Mail struct {
			Count int    `yaml:"count"`
			Bytes string `yaml:"bytes"`
			Age   string `yaml:"age"`
		} `yaml:"mail"`
		Files struct {
			Bytes string `yaml:"bytes"`
			Age   string `yaml:"age"`
		} `yaml:"files"`
		PerSender   int `yaml:"per_sender"`
		Connections int `yaml:"connections"`
	} `yaml:"quota"`

	from string // the file that it was read from
}

type tlsPair struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`
}

const (
	relayConfigName = "relay.yaml"
	relayKeyName    = "relay.key"
	relayListen     = "127.0.0.1:8443"
)

// relayFlags are what every relay command may be told.
type relayFlags struct{ config, listen, store, level string }

// readRelay reads the configuration: the file that --config names, or relay.yaml
// of this folder where there is one. Paths in it count from its folder.
func (a *app) readRelay(f relayFlags) (r relayFile, err error) {
	at := f.config
	if at == "" && f.store == "" {
		if _, err := os.Stat(relayConfigName); err == nil {
			at = relayConfigName
		}
	}
	dir := filepath.Join(a.home, "relay")
	if at != "" {
		if err := home.ReadYAML(at, &r); err != nil {
			return r, err
		}
		dir, r.from = filepath.Dir(at), at
	}
	within := func(p, def string) string {
		if p == "" {
			p = def
		}
		if p == "" || filepath.IsAbs(p) {
			return p
		}
		return filepath.Join(dir, p)
	}
	r.Store.Dir = within(r.Store.Dir, "store")
	for i, p := range r.ProxyCerts {
		r.ProxyCerts[i] = within(p, "")
	}
	r.Key = within(r.Key, relayKeyName)
	r.NATS.Keys, r.NATS.CA = within(r.NATS.Keys, natsKeysName), within(r.NATS.CA, "")
	if r.TLS != nil {
		r.TLS.Cert, r.TLS.Key = within(r.TLS.Cert, ""), within(r.TLS.Key, "")
	}
	if f.store != "" {
		if r.Store.Dir = f.store; at == "" {
			r.Key = filepath.Join(f.store, relayKeyName)
		}
	}
	if f.listen != "" {
		r.Listen = f.listen
	}
	if r.Listen == "" {
		r.Listen = relayListen
	}
	return r, nil
}

// config is what package server takes.
func (r relayFile) config() (c server.Config, err error) {
	c = server.Config{
		Dir: r.Store.Dir, Listen: r.Listen, URL: r.URL, OpsListen: r.Ops,
		Admission: server.Admission(r.Admission.Mode), Sync: relay.SyncMode(r.Store.Sync),
		Name: r.Name, Contact: r.Contact, Terms: r.Terms,
		WebSocket: strings.HasPrefix(r.URL, "wss://") || strings.HasPrefix(r.URL, "ws://"),
	}
	q := &c.Quotas
	q.MailCount, q.PerSender, q.Connections = r.Quota.Mail.Count, r.Quota.PerSender, r.Quota.Connections
	read := func(path, text string, into func(string) error) {
		if text != "" && err == nil {
			err = spec.At(path, into(text))
		}
	}
	read("/store/max", r.Store.Max, bytesInto(&c.MaxStore))
	read("/store/keep_free", r.Store.KeepFree, func(s string) error { return share(s, &c.KeepFree) })
	read("/quota/put", r.Quota.Put, func(s string) error { return perSecond(s, &q.PutsPerSecond) })
	read("/quota/mail/bytes", r.Quota.Mail.Bytes, bytesInto(&q.MailBytes))
	read("/quota/mail/age", r.Quota.Mail.Age, spanInto(&q.MailAge))
	read("/quota/files/bytes", r.Quota.Files.Bytes, bytesInto(&q.FileBytes))
	read("/quota/files/age", r.Quota.Files.Age, spanInto(&q.FileAge))
	if q.MailAge > relay.MaxLife && err == nil {
		err = spec.Refuse(spec.Malformed, "/quota/mail/age", "≤ 14 days (R1)")
	}
	for _, p := range r.BehindProxy {
		ip, perr := netip.ParseAddr(p)
		if perr != nil && err == nil {
			err = spec.Refuse(spec.Malformed, "/behind_proxy", "addresses such as 127.0.0.1")
		}
		c.Proxies = append(c.Proxies, ip.Unmap())
	}
	if err == nil {
		c.TLSKeys, err = r.before()
	}
	if r.TLS != nil && err == nil {
		c.TLS, err = r.TLS.config()
	}
	return c, err
}

func bytesInto(to *int64) func(string) error {
	return func(s string) (err error) { *to, err = parseBytes(s); return err }
}

func spanInto(to *time.Duration) func(string) error {
	return func(s string) (err error) { *to, err = manifest.ParseSpan(s); return err }
}

func share(s string, to *float64) error {
	n, err := strconv.ParseFloat(strings.TrimSuffix(s, "%"), 64)
	if err != nil || !strings.HasSuffix(s, "%") || math.IsNaN(n) || n <= 0 || n >= 100 {
		return spec.Refuse(spec.Malformed, "", "a share of the disk: 10%")
	}
	*to = n / 100
	return nil
}

func perSecond(s string, to *int) error {
	n, err := strconv.Atoi(strings.TrimSuffix(s, "/s"))
	if err != nil || !strings.HasSuffix(s, "/s") || n <= 0 || n > 100_000 {
		return spec.Refuse(spec.Malformed, "", "a rate: 20/s")
	}
	*to = n
	return nil
}

// before are the keys of what stands before the relay: fixed ones, and those of
// certificate files, which are read again when they change.
func (r relayFile) before() (func() []signing.Digest, error) {
	var fixed []signing.Digest
	for _, k := range r.ProxyTLSKeys {
		d, err := signing.ParseDigest(k)
		if err != nil {
			return nil, spec.At("/proxy_tls_keys", err)
		}
		fixed = append(fixed, d)
	}
	var of []func() (signing.Digest, error)
	for _, at := range r.ProxyCerts {
		read := again([]string{at}, func() (signing.Digest, error) { return certKey(at) })
		if _, err := read(); err != nil {
			return nil, &spec.Error{Reason: spec.Malformed, Path: "/proxy_certs", Err: err}
		}
		of = append(of, read)
	}
	return func() []signing.Digest {
		out := fixed[:len(fixed):len(fixed)]
		for _, read := range of {
			if d, err := read(); err == nil {
				out = append(out, d)
			}
		}
		return out
	}, nil
}

// certKey is the key of the first certificate of a file in PEM.
func certKey(at string) (signing.Digest, error) {
	b, err := os.ReadFile(at)
	if err != nil {
		return signing.Digest{}, err
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "CERTIFICATE" {
		return signing.Digest{}, errors.New(at + ": no certificate in PEM")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return signing.Digest{}, err
	}
	return server.TLSKey(leaf), nil
}

// again reads now what files hold, and anew whenever one of them has changed.
// What cannot be read, a renewal half written, leaves what was.
func again[T any](paths []string, read func() (T, error)) func() (T, error) {
	var mu sync.Mutex // guards what follows
	var last T
	var stamp string
	return func() (T, error) {
		mu.Lock()
		defer mu.Unlock()
		now, err := stampOf(paths...)
		if err == nil && now != stamp {
			var next T
			if next, err = read(); err == nil {
				last, stamp = next, now
			}
		}
		if stamp == "" {
			return last, err
		}
		return last, nil
	}
}

// config reads the pair now, and again whenever a file of it has changed. It
// names no fixed certificate: that one would be shown to who asks for no name.
func (p *tlsPair) config() (*tls.Config, error) {
	load := again([]string{p.Cert, p.Key}, func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(p.Cert, p.Key)
		return &pair, err
	})
	if _, err := load(); err != nil {
		return nil, &spec.Error{Reason: spec.Malformed, Path: "/tls", Err: err}
	}
	return &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return load() }}, nil
}

// stampOf is another when a file is another.
func stampOf(paths ...string) (stamp string, err error) {
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return "", err
		}
		stamp += fmt.Sprintf("%d %d ", info.ModTime().UnixNano(), info.Size())
	}
	return stamp, nil
}

// onLoopback says whether an address can only be reached from this machine.
func onLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
