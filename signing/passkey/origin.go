package passkey

import (
	"strconv"
	"strings"
)

// hostOf is the host of a web origin in its one spelling: a scheme, a host in
// lower case, a port unless it is the scheme's own. Browsers give passkeys to
// https, and on this machine to http://localhost; an address is no name.
func hostOf(origin string) (string, bool) {
	rest, secure := strings.CutPrefix(origin, "https://")
	own := "443"
	if !secure {
		plain, ok := strings.CutPrefix(origin, "http://")
		if rest, own = plain, "80"; !ok {
			return "", false
		}
	}
	host, port, numbered := strings.Cut(rest, ":")
	if n, err := strconv.ParseUint(port, 10, 16); numbered && (err != nil || n == 0 || port == own || strconv.FormatUint(n, 10) != port) {
		return "", false
	}
	return host, isName(host) && (secure || host == localhost)
}

const localhost = "localhost"

// isName says whether host is a DNS name in lower case that is no address: its last label has a letter.
func isName(host string) bool {
	labels := strings.Split(host, ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return len(host) <= 253 && strings.Trim(labels[len(labels)-1], "0123456789") != ""
}

// under says whether rpID is the host, or a domain of at least two labels above it.
func under(host, rpID string) bool {
	return host == rpID || isName(rpID) && strings.Contains(rpID, ".") && strings.HasSuffix(host, "."+rpID)
}
