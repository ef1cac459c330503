package gateway

import (
	"context"
	"encoding/base64"
	"io"
	"strings"
	"sync"
	"time"

	"sealbridge/manifest"
	"sealbridge/signing"
	"sealbridge/spec"
)

const (
	loginLasts = 2 * time.Minute // from the command to the browser
	maxLogins  = 16              // links at once; whoever asks for more gets no further ones
)

// Login is a one-time way into the console. It shows and never decides (G9).
type Login struct {
	URL   string    `json:"url"`
	Until time.Time `json:"until"`
}

// logins are asked for at the people's socket and used up at the console. They
// live in memory: a gateway that starts again has none.
type logins struct {
	mu   sync.Mutex // guards both
	at   string     // where the console listens, "" nowhere
	open map[signing.Digest]time.Time
}

// ConsoleAt says where the console listens: http://localhost:7811, or "" nowhere.
func (g *Gateway) ConsoleAt(url string) {
	g.logins.mu.Lock()
	g.logins.at = url
	g.logins.mu.Unlock()
}

// Login makes a link that opens the console once, within two minutes.
func (g *Gateway) Login(_ context.Context, by Caller, _ None) (out Login, err error) {
	if err := by.Person(); err != nil {
		return out, err
	}
	var secret [16]byte
	if _, err := io.ReadFull(g.Chance, secret[:]); err != nil {
		return out, err
	}
	l, now := &g.logins, g.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == "" {
		return out, spec.Refuse(spec.Unavailable, "", "the gateway runs without its console")
	}
	for d, until := range l.open {
		if !now.Before(until) {
			delete(l.open, d)
		}
	}
	if len(l.open) >= maxLogins {
		return out, spec.Refuse(spec.Quota, "", "16 login links at once: wait two minutes")
	}
	if l.open == nil {
		l.open = map[signing.Digest]time.Time{}
	}
	text := base64.RawURLEncoding.EncodeToString(secret[:])
	out = Login{l.at + "/login/" + text, now.Add(loginLasts)}
	l.open[signing.DigestOf([]byte(text))] = out.Until
	return out, nil
}

// UseLogin takes the secret of a link, once. A second use, and one that comes
// late, are replayed: the two are not told apart.
func (g *Gateway) UseLogin(secret string) error {
	l, d := &g.logins, signing.DigestOf([]byte(secret))
	l.mu.Lock()
	defer l.mu.Unlock()
	until, ok := l.open[d]
	delete(l.open, d)
	if !ok || !g.Now().Before(until) {
		return spec.Refuse(spec.Replayed, "", "a login link opens the console once, within two minutes")
	}
	return nil
}

// Peek names one file of the delivery that an ask is about.
type Peek struct {
	Ask  string `json:"ask"`
	Name string `json:"name"`
}

// Peek opens one file of a delivery for the person, before the decision (G14).
// That it was opened is on the record, as with Quarantined.
func (g *Gateway) Peek(ctx context.Context, by Caller, in Peek) (f FileView, r io.ReadCloser, err error) {
	if err := by.Person(); err != nil {
		return f, nil, err
	}
	var d manifest.Delivery
	if err := g.turn(ctx, func(t *turn) (err error) { d, err = t.opened(in.Ask); return err }); err != nil {
		return f, nil, err
	}
	for _, a := range d.Artifacts {
		if a.Name == in.Name {
			r, err := g.Files.Open(a.Digest)
			return FileView{a.Name, a.Digest.String(), a.MediaType, a.SizeBytes, true}, r, err
		}
	}
	if in.Name == resultFile {
		text := d.Output.String()
		return FileView{resultFile, signing.DigestOf([]byte(text)).String(), "application/json", int64(len(text)), true}, io.NopCloser(strings.NewReader(text)), nil
	}
	return f, nil, spec.Refuse(spec.NotFound, "", "no such file in this delivery")
}

// opened is the delivery that an ask is about, noted as opened by the person.
func (t *turn) opened(ask string) (d manifest.Delivery, err error) {
	r, err := t.findAsk(ask)
	if err != nil {
		return d, err
	}
	row, err := t.row(r.Task)
	if err != nil {
		return d, err
	}
	if r.Ask.Gate != manifest.DeliveryGate {
		return d, spec.Refuse(spec.NotFound, "", "this ask is about no delivery")
	}
	if d, err = t.deliveryOf(row); err != nil {
		return d, err
	}
	row.Opened = true
	if err := t.note(r.Task, map[string]string{"opened": row.Task.Delivery().Digest.String()}); err != nil {
		return d, err
	}
	return d, t.putRow(row)
}
