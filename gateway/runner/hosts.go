package runner

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sealbridge/spec"
)

// ProxyPort is where a program finds the proxy that leads to its hosts, on its own loopback.
const ProxyPort = 3128

// What one run may take of the hosts that it reaches.
const (
	MaxConnections = 10_000           // in all: more is a scan, not work
	MaxReachBytes  = 1 << 30          // each way: as much as all output files
	maxHead        = 16 << 10         // bytes of a request's head: the largest that servers take
	headTime       = 10 * time.Second // for the whole head: a slow one holds a seat
	dialTime       = 10 * time.Second // for one address
	maxTried       = 4                // addresses of one host
	idleTime       = 5 * time.Minute  // without a byte either way
	maxAddresses   = 8                // of one host that a record lists
)

// Hosts is the filtering proxy of one run: all that a program without a network
// reaches outside (X1, X2). It takes CONNECT and plain http requests to exactly
// the hosts of the contract, resolves them itself, holds each address against
// the rules and dials that very address. It follows no redirect, and what is
// inside a CONNECT it does not see.
type Hosts struct {
	Allowed []string // as the contract spells them (M4); nothing else is a host

	// Way is by what the owner's rules let the host be reached, and Open decides
	// about one connection to it, where the rules do not say no already: it may
	// hold the run while a person is asked. An error is a no, and its word is what
	// the program is told.
	Way  func(ctx context.Context, host string) (Way, error)
	Open func(ctx context.Context, b *Box, host string) error

	Public func(netip.Addr) bool // addresses of the internet

	// The outside world; nil: this machine's.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	Own     func() ([]netip.Addr, error) // this machine's addresses

	count   atomic.Int64 // connections
	refused atomic.Int64
	sent    atomic.Int64 // bytes
	got     atomic.Int64

	mu    sync.Mutex
	reach []Reached // by host and port, in the order of the first connection
}

// Way is how a host may be reached beyond what always holds.
type Way struct {
	Ports   []uint16       // beside 80 and 443
	Private []netip.Prefix // addresses that are not public and that the owner listed (X2)
}

// Reached is what a run had to do with one host: for its attestation.
type Reached struct {
	Host           string
	Port           uint16
	Addresses      []netip.Addr // that were dialled; the first eight
	Connections    int64
	Sent, Received int64 // bytes, by the program and to it
}

// Reached lists the hosts that were reached, and Refused counts what was not let through.
func (h *Hosts) Reached() []Reached {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.reach)
}

func (h *Hosts) Refused() int64 { return h.refused.Load() }

// environment tells a program where the proxy is. past says that there are other
// ports on the loopback, which are not behind it.
func (h *Hosts) environment(past bool) (env []string) {
	at := "http://127.0.0.1:" + strconv.Itoa(ProxyPort)
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} { // curl reads http_proxy in small letters only
		env = append(env, name+"="+at)
	}
	if past {
		env = append(env, "NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost")
	}
	return env
}

// refusal is what the program is told instead of being connected.
type refusal struct {
	status int
	text   string
}

func refuse(status int, text string) *refusal { return &refusal{status, text} }

// connect opens a connection to a host of the contract, or says why not.
func (h *Hosts) connect(ctx context.Context, b *Box, host, port string) (*metered, *refusal) {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || strconv.FormatUint(number, 10) != port {
		return nil, refuse(400, "a port is a number")
	}
	host = strings.ToLower(host)
	if !slices.Contains(h.Allowed, host) {
		return nil, refuse(403, "the contract names other hosts only")
	}
	if h.count.Add(1) > MaxConnections {
		return nil, refuse(429, fmt.Sprintf("%d connections are all of a run", MaxConnections))
	}
	way, err := h.Way(ctx, host)
	if err != nil {
		return nil, refuse(403, "not opened: "+string(spec.ReasonOf(err)))
	}
	if number != 80 && number != 443 && !slices.Contains(way.Ports, uint16(number)) {
		return nil, refuse(403, "ports 80 and 443 only")
	}
	if err := h.Open(ctx, b, host); err != nil {
		return nil, refuse(403, "not opened: "+string(spec.ReasonOf(err)))
	}
	addrs, err := h.addresses(ctx, host, way)
	if err != nil {
		return nil, refuse(502, "the host has no address")
	}
	if len(addrs) == 0 {
		return nil, refuse(403, "no address of the host is one of the internet")
	}
	for _, a := range addrs[:min(len(addrs), maxTried)] {
		conn, err := h.dial(ctx, netip.AddrPortFrom(a, uint16(number)))
		if err == nil {
			return &metered{Conn: conn, h: h, to: h.record(host, uint16(number), a)}, nil
		}
	}
	return nil, refuse(502, "the host does not answer")
}

// addresses are those of a host that may be dialled: each is held against X2,
// whatever the name and whoever answered for it.
func (h *Hosts) addresses(ctx context.Context, host string, way Way) (good []netip.Addr, err error) {
	all := []netip.Addr{}
	if a, err := netip.ParseAddr(host); err == nil {
		all = append(all, a)
	} else if all, err = h.resolve(ctx, host); err != nil {
		return nil, err
	}
	own, err := h.own()
	if err != nil {
		return nil, err
	}
	for _, a := range all {
		a = a.Unmap()
		listed := slices.ContainsFunc(way.Private, func(p netip.Prefix) bool { return a.Zone() == "" && p.Contains(a) })
		if listed || h.Public(a) && !slices.Contains(own, a) {
			good = append(good, a)
		}
	}
	return good, nil
}

// record notes a connection; what it returns is where its bytes are counted.
func (h *Hosts) record(host string, port uint16, a netip.Addr) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.IndexFunc(h.reach, func(r Reached) bool { return r.Host == host && r.Port == port })
	if i < 0 {
		i = len(h.reach)
		h.reach = append(h.reach, Reached{Host: host, Port: port})
	}
	r := &h.reach[i]
	r.Connections++
	if !slices.Contains(r.Addresses, a) && len(r.Addresses) < maxAddresses {
		r.Addresses = append(slices.Clone(r.Addresses), a)
	}
	return i
}

func (h *Hosts) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	if h.Resolve != nil {
		return h.Resolve(ctx, host)
	}
	return net.DefaultResolver.LookupNetIP(ctx, "ip", host+".") // whole: no search domain is tried
}

func (h *Hosts) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	if h.Dial != nil {
		return h.Dial(ctx, to)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", to.String())
}

func (h *Hosts) own() (out []netip.Addr, err error) {
	if h.Own != nil {
		return h.Own()
	}
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if p, perr := netip.ParsePrefix(a.String()); perr == nil {
			out = append(out, p.Addr().Unmap())
		}
	}
	return out, err
}
