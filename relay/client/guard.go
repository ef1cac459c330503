package client

import (
	"net"
	"net/netip"
	"syscall"
	"time"

	"sealbridge/relay"
	"sealbridge/spec"
)

// errNotPublic is told apart from a relay that is only not there.
var errNotPublic = spec.Refuse(spec.NotPermitted, "/relay", "X2: not an address of the internet; name the relay in config.yaml under also_relays")

// guarded dials only addresses of the internet that are not ours. It looks at the
// address that is connected to, after every name was resolved, so that no name
// can be one thing when it is checked and another when it is dialled.
func guarded(wait time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: wait, Control: func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || !relay.Public(at.Addr()) || ours(at.Addr()) {
			return errNotPublic
		}
		return nil
	}}
}

// ours says whether an address is one of this machine.
func ours(a netip.Addr) bool {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, x := range all {
		if n, ok := x.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(n.IP); ok && own.Unmap() == a.Unmap() {
				return true
			}
		}
	}
	return false
}
