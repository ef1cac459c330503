package console

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"io"
	"net/http"
	"sync"
	"time"

	"sealbridge/spec"
)

const (
	sessionLasts = 12 * time.Hour // a day's work; then a new link
	maxSessions  = 32             // browsers at once; the oldest goes
	maxForm      = 64 << 10       // bytes of a form
	maxStreams   = 32             // live pages at once
)

// key is the digest of a cookie: what lies in memory opens nothing.
type key [32]byte

// session is one browser that used a login link. It is in memory only.
type session struct {
	token string // in every form of its pages
	until time.Time
}

type sessions struct {
	mu   sync.Mutex // guards open
	open map[key]session
}

// login uses a link up. A link that another site follows, or that a browser
// fetches ahead, is not used: only a person who opens it is.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "none" && site != "same-origin" || r.Header.Get("Sec-Purpose") != "" {
		s.refuse(w, r, http.StatusForbidden, "Another page followed this link. It was not used: open it yourself, from the terminal or the address bar.")
		return
	}
	if err := s.Gateway.UseLogin(r.PathValue("secret")); err != nil {
		s.refuse(w, r, http.StatusForbidden, "This link was used already, or it is older than two minutes.")
		return
	}
	value, in, err := s.begin()
	if err != nil {
		s.fail(w, r, err)
		return
	}
	at, _ := s.at(r)
	http.SetCookie(w, &http.Cookie{Name: at.cookie, Secure: at.secure, Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Expires: in.until, MaxAge: int(sessionLasts / time.Second)})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (s *Server) begin() (value string, in session, err error) {
	var b [48]byte
	if _, err := io.ReadFull(s.Chance, b[:]); err != nil {
		return "", in, &spec.Error{Reason: spec.Internal, Err: err}
	}
	value = base64.RawURLEncoding.EncodeToString(b[:24])
	in = session{base64.RawURLEncoding.EncodeToString(b[24:]), s.Now().Add(sessionLasts)}
	m := &s.sessions
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.open) >= maxSessions {
		var oldest key
		for k, o := range m.open {
			if first, ok := m.open[oldest]; !ok || o.until.Before(first.until) {
				oldest = k
			}
		}
		delete(m.open, oldest)
	}
	m.open[sha256.Sum256([]byte(value))] = in
	return value, in, nil
}

// session is the one of a request, if it has one that is still good.
func (s *Server) session(r *http.Request) (in session, ok bool) {
	at, _ := s.at(r)
	c, err := r.Cookie(at.cookie)
	if err != nil {
		return in, false
	}
	m, k := &s.sessions, key(sha256.Sum256([]byte(c.Value)))
	m.mu.Lock()
	defer m.mu.Unlock()
	in, ok = m.open[k]
	if ok && !s.Now().Before(in.until) {
		delete(m.open, k)
		return session{}, false
	}
	return in, ok
}

func (s *Server) logout(v *visit) error {
	if c, err := v.Cookie(v.site().cookie); err == nil {
		s.sessions.mu.Lock()
		delete(s.sessions.open, sha256.Sum256([]byte(c.Value)))
		s.sessions.mu.Unlock()
	}
	http.SetCookie(v.w, &http.Cookie{Name: v.site().cookie, Secure: v.site().secure, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: -1})
	s.refuse(v.w, v.Request, http.StatusOK, "You are logged out in this browser.")
	return nil
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
