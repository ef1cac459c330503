package console

import (
	"fmt"
	"io"
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
	for shown, said := after, ": live\n\n"; s.Now().Before(v.session.until); said = "event: quiet\ndata:\n\n" {
		if at := int64(news.Seq); at != shown {
			shown, said = at, fmt.Sprintf("event: moved\nid: %d\ndata: %d\n\n", at, at)
		}
		if _, err := io.WriteString(v.w, said); err != nil || out.Flush() != nil {
			return nil
		}
		select {
		case <-v.Context().Done():
		case <-time.After(eventsEvery):
		}
		if news, err = s.Gateway.Watch(v.Context(), owner, gateway.Since{After: news.Seq}); err != nil || v.Context().Err() != nil {
			return nil // the page went away, or the gateway stops
		}
	}
	return nil
}

// eventsEvery is how often a page hears at most that something was written.
const eventsEvery = 250 * time.Millisecond
