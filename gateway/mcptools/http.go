package mcptools

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Path is where MCP is served over HTTP.
const Path = "/mcp"

type agentKey struct{}

// Handler serves streamable HTTP (A10): no session, so each request stands
// alone with its token. Host, Origin and token are looked at in this order,
// before a byte of the body.
func (d *Door) Handler() http.Handler {
	rpc := mcp.NewStreamableHTTPHandler(func(r *http.Request) *mcp.Server {
		a, ok := r.Context().Value(agentKey{}).(Agent)
		if !ok {
			return nil
		}
		return d.webServer(a)
	}, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxMessage, PropagateRequestCancellation: true})
	mux := http.NewServeMux()
	mux.Handle(Path, http.NewCrossOriginProtection().Handler(d.authorised(rpc)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !localHost(r.Host) || !sameOrigin(r) {
			http.Error(w, "only this computer's own programs", http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// authorised finds the agent of the bearer token.
func (d *Door) authorised(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		var a Agent
		if ok {
			a, ok = d.Identify(token)
		}
		if !ok {
			w.Header().Set("WWW-Authenticate", `Bearer realm="sealbridge"`)
			http.Error(w, "a token of one agent: sealbridge agent add", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), agentKey{}, a)))
	})
}

// webServer is one server an agent: it has been identified by this very request.
func (d *Door) webServer(a Agent) *mcp.Server {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.web[a]
	if !ok {
		s = d.server(a, httpWait, func() bool { return true })
		d.web[a] = s
	}
	return s
}

// localHost refuses a name that another site's DNS can point at us.
func localHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return host == "localhost" || host == "127.0.0.1" || host == "[::1]" || host == "::1"
}

// sameOrigin refuses a page of another site; a program sends no Origin.
func sameOrigin(r *http.Request) bool {
	o := r.Header.Get("Origin")
	if o == "" {
		return true
	}
	u, err := url.Parse(o)
	return err == nil && u.Scheme == "http" && u.Host == r.Host
}
