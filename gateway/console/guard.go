package console

import (
	"net/http"
	"strconv"

	"sealbridge/gateway"
	"sealbridge/spec"
)

// ServeHTTP holds every request against the door's list before a page sees it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	headers(w.Header())
	at, ours := s.at(r)
	switch {
	case !ours:
		s.elsewhere(w, r)
	case !visited(r), r.Method != http.MethodGet && !sameOrigin(r, at):
		s.refuse(w, r, http.StatusForbidden, "This came from another page. Nothing was done.")
	default:
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		s.mux.ServeHTTP(w, r)
	}
}

// headers are the same for every answer: no script or style but ours, no frame,
// nothing kept, no guessing of types.
func headers(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer a form's Origin would be null
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), clipboard-read=()")
}

// elsewhere answers a name that is not ours. The loopback addresses are sent to
// the one name that passkeys are bound to (A12's finding: browsers refuse them at 127.0.0.1);
// any other name is somebody else's page that resolves to us, and is told nothing.
func (s *Server) elsewhere(w http.ResponseWriter, r *http.Request) {
	port := ":" + strconv.Itoa(s.Port)
	if r.Method == http.MethodGet && (r.Host == "127.0.0.1"+port || r.Host == "[::1]"+port) {
		http.Redirect(w, r, s.Origin()+r.URL.EscapedPath(), http.StatusTemporaryRedirect)
		return
	}
	http.Error(w, "this is not "+s.sites[0].host, http.StatusMisdirectedRequest)
}

// sameOrigin says whether a post comes from one of our own pages. A browser says
// Origin with every post; a program that says none is no browser.
func sameOrigin(r *http.Request, at site) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return r.Header.Get("Origin") == at.origin && (site == "" || site == "same-origin")
}

// visited says whether a page of another site, or of another port of this host,
// asked for something else than to be left for ours: a frame, an image, a script, a fetch.
func visited(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return true
	}
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// visit is one request of a logged-in person.
type visit struct {
	*http.Request
	w       http.ResponseWriter
	session session
	door    *Server
}

// page answers whoever is logged in; everybody else is told how to get in.
func (s *Server) page(pattern string, do func(*visit) error) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		in, ok := s.session(r)
		if !ok {
			s.refuse(w, r, http.StatusUnauthorized, "")
			return
		}
		if err := do(&visit{r, w, in, s}); err != nil {
			s.fail(w, r, err)
		}
	})
}

// post is page for what changes something: the form carries the session's own token.
func (s *Server) post(pattern string, do func(*visit) error) {
	s.page(pattern, func(v *visit) error {
		if !same(v.PostFormValue("token"), v.session.token) {
			return spec.Refuse(spec.NotPermitted, "", "the form is of another session: load the page again")
		}
		return do(v)
	})
}

// statusOf is the HTTP side of a word.
func statusOf(r spec.Reason) int {
	switch r {
	case spec.NotFound:
		return http.StatusNotFound
	case spec.NotPermitted:
		return http.StatusForbidden
	case spec.Conflict, spec.GateExpired, spec.Replayed:
		return http.StatusConflict
	case spec.Malformed, spec.TooLarge:
		return http.StatusBadRequest
	case spec.Unavailable, spec.Quota:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// owner is who asks by this door, once a session stands.
var owner = gateway.Owner
