package relay

import "net/netip"

// notPublic are the networks that are not the internet: this host, this link,
// private and shared ones, multicast, what is reserved, and those that stand for
// an IPv4 address inside an IPv6 one (X2). Sources: the IANA special-purpose registries.
var notPublic = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
	"192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/3",
	"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16",
	"fc00::/7", "fe80::/9", "ff00::/8",
	"168.63.129.16/32") // of the internet by its number, and the host of virtual machines in one cloud by what answers there

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

// Public says whether an address is one of the internet (X2). A stranger's word
// suffices to dial only these. It does not know the addresses of this machine.
func Public(a netip.Addr) bool {
	if a = a.Unmap(); !a.IsValid() || a.Zone() != "" {
		return false
	}
	for _, p := range notPublic {
		if p.Contains(a) {
			return false
		}
	}
	return true
}
