package relay

import (
	"net/netip"
	"testing"
)

func TestOnlyTheInternetIsPublic(t *testing.T) { // X2
	for text, want := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "100.63.255.255": true, "100.128.0.0": true, "172.32.0.1": true, "2606:4700:4700::1111": true, "2a00::1": true,
		"::ffff:8.8.8.8": true,
		"0.0.0.0":        false, "10.1.2.3": false, "100.64.0.1": false, "127.0.0.1": false, "127.255.255.254": false, "169.254.169.254": false,
		"172.16.0.1": false, "172.31.255.255": false, "192.0.0.170": false, "192.168.1.1": false, "198.19.0.1": false, "224.0.0.1": false, "255.255.255.255": false,
		"::": false, "::1": false, "::ffff:127.0.0.1": false, "::ffff:10.0.0.1": false, "::7f00:1": false, "64:ff9b::7f00:1": false, "2002:7f00:1::": false,
		"fd00::1": false, "fe80::1": false, "febf::1": false, "fec0::1": false, "ff02::1": false, "2001:db8::1": false, "2001::1": false, "fe80::1%eth0": false,
		"fd00:ec2::254": false, "168.63.129.16": false, "168.63.129.17": true, "100.100.100.200": false,
	} {
		if got := Public(netip.MustParseAddr(text)); got != want {
			t.Errorf("Public(%s) = %v, want %v", text, got, want)
		}
	}
	if Public(netip.Addr{}) {
		t.Error("the zero address is public")
	}
}
