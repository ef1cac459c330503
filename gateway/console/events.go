package console

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"sealbridge/gateway"
	"sealbridge/spec"
)

// events tells a page that something was written, and nothing else: the page
// asks for itself again. It ends with the session, the page or the gateway.
func (s *Server) events(v *visit) error {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		return spec.Refuse(spec.Quota, "", "too many live pages: close some")
	}
	after, err := strconv.ParseInt(v.URL.Query().Get("after"), 10, 64)
	if err != nil || after < 1 {
		return spec.Refuse(spec.Malformed, "after", "a place in the journal")
	}
	news, err := s.Gateway.Watch(v.Context(), owner, gateway.Since{})
	if err != nil {
		return err
	}
	v.w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(v.w)
	if err := out.SetReadDeadline(time.Time{}); err != nil { // the server's is for requests
		return err
	}
	for shown := after; s.Now().Before(v.session.until); {
		word, at := "quiet", int64(news.Seq)
		if at != shown {
			word, shown = "moved", at
		}
		if _, err := fmt.Fprintf(v.w, "event: %s\nid: %d\ndata: %d\n\n", word, at, at); err != nil || out.Flush() != nil {
			return nil
		}
		if news, err = s.Gateway.Watch(v.Context(), owner, gateway.Since{After: news.Seq}); err != nil || v.Context().Err() != nil {
			return nil // the page went away, or the gateway stops
		}
	}
	return nil
}
