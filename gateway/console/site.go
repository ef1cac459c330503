package console

import (
	"net/http"
	"net/url"
	"strings"
)

// site is one name under which the pages are there. A browser binds cookies and
// passkeys to it, so each has its own.
type site struct {
	host   string // as a request says it: localhost:7811
	origin string // as a post says it: http://localhost:7811
	rpID   string // what a passkey is made for: the host without its port
	cookie string
	secure bool
}

// local is the console on this machine. Its cookie is named after the port:
// cookies of one host are shared by all its ports.
func local(port string) site {
	host := "localhost:" + port
	return site{host: host, origin: "http://" + host, rpID: "localhost", cookie: "sealbridge-" + port}
}

// also is the console behind a proxy of the owner's own (A12). origin was checked
// when config.yaml was read.
func also(origin string) (site, bool) {
	u, err := url.Parse(origin)
	if origin == "" || err != nil || u.Scheme != "https" {
		return site{}, false
	}
	return site{host: u.Host, origin: origin, rpID: u.Hostname(), cookie: "__Host-sealbridge", secure: true}, true
}

// at is the site that a request is for; ok is false for a name that is not ours.
func (s *Server) at(r *http.Request) (site, bool) {
	for _, x := range s.sites {
		if strings.EqualFold(r.Host, x.host) {
			return x, true
		}
	}
	return site{}, false
}

// site is the same for a request that the guard let pass.
func (v *visit) site() site {
	x, _ := v.door.at(v.Request)
	return x
}
