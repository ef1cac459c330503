// Package notify answers one question: how is a person told that something
// waits? By commands of the owner's and by signed posts to addresses of the
// owner's, both named in config.yaml:
//
//	notify:
//	  - {command: [notify-send, Sealbridge, "{summary}"]}
//	  - {url: https://hooks.example.org/sealbridge}
//
// What is told is a number and ids of our own (J10): no secret, no word
// and no name of anybody else's. Telling is repeatable; a receiver knows a
// repetition by its id.
package notify

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"sealbridge/spec"
)

const (
	maxWays   = 8                // rows of one owner: more is a mistake
	maxWords  = 64               // of one command
	perWay    = 10 * time.Second // for one command or post: the next one waits behind it
	maxIDs    = 100              // ids in one post; the count is whole
	maxStderr = 2 << 10          // bytes kept of what a failing command said, for the log
)

// Way is one row of the owner's: a command or an address.
type Way struct {
	Command []string // argv; {summary} and {count} are replaced in all but the first
	URL     string   // https, or http on loopback
	Private bool     // the owner means an address of the private network
}

// Check says why a row cannot be used.
func (w Way) Check() error {
	switch {
	case (len(w.Command) > 0) == (w.URL != ""):
		return spec.Refuse(spec.Malformed, "", "a command or a url")
	case w.URL != "":
		_, err := address(w.URL)
		return err
	case w.Command[0] == "" || len(w.Command) > maxWords:
		return spec.Refuse(spec.Malformed, "/command", "a program and at most 63 words")
	case w.Private:
		return spec.Refuse(spec.Malformed, "/private", "of a url only")
	}
	return nil
}

// address is a URL that may be posted to, if its host turns out to be one too.
func address(raw string) (*url.URL, error) {
	bad := func(limit string) (*url.URL, error) { return nil, spec.Refuse(spec.Malformed, "/url", limit) }
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "":
		return bad("https://host/path")
	case u.User != nil || u.Fragment != "":
		return bad("no name, password or fragment")
	case u.Scheme == "https", u.Scheme == "http" && loopback(u.Hostname()):
		return u, nil
	}
	return bad("https, or http on this machine")
}

// Note is what is told.
type Note struct {
	ID    string   // the same at each repetition
	Waits []string // ids of asks, and of tasks of ours with a counter-proposal
	Trial bool     // the owner tries whether it arrives
}

// Summary is our own sentence; nothing of anybody else's is in it.
func (n Note) Summary() string {
	switch {
	case n.Trial:
		return "this is a try: nothing waits"
	case len(n.Waits) == 1:
		return "1 question for you: sealbridge gate list"
	}
	return fmt.Sprintf("%d questions for you: sealbridge gate list", len(n.Waits))
}

// Teller tells one owner. It may be used from many goroutines.
type Teller struct {
	secret []byte
	now    func() time.Time

	mu   sync.Mutex     // guards both
	ways []Way          // replaced whole
	told map[int]string // way -> the last note that arrived: a repetition goes only where it did not
}

// New makes a teller. secret signs posts (J11).
func New(secret []byte, now func() time.Time) *Teller {
	return &Teller{secret: secret, now: now, told: map[int]string{}}
}

// CheckAll holds every row against the rules; the path of an error has its place.
func CheckAll(ways []Way) error {
	if len(ways) > maxWays {
		return spec.Refuse(spec.TooLarge, "/notify", "8 rows")
	}
	for i, w := range ways {
		if err := w.Check(); err != nil {
			return spec.At(fmt.Sprintf("/notify/%d", i), err)
		}
	}
	return nil
}

// Use takes the owner's rows, all or none.
func (t *Teller) Use(ways []Way) error {
	if err := CheckAll(ways); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ways, t.told = ways, map[int]string{}
	return nil
}

// Notify tells by every way that has not taken this note yet. An error means
// that some way did not: tell again later, with the same id.
func (t *Teller) Notify(ctx context.Context, id string, waiting []string) error {
	var errs []error
	for _, r := range t.tell(ctx, Note{ID: id, Waits: waiting}) {
		errs = append(errs, r.Err)
	}
	return errors.Join(errs...)
}

// Told is what came of telling by one way.
type Told struct {
	Way string // the program's or the host's name: nothing that could be a secret
	Err error
}

// Try tells by every way that nothing waits.
func (t *Teller) Try(ctx context.Context, id string) []Told {
	return t.tell(ctx, Note{ID: id, Waits: []string{}, Trial: true})
}

func (t *Teller) tell(ctx context.Context, n Note) []Told {
	t.mu.Lock()
	ways := t.ways
	t.mu.Unlock()
	out := make([]Told, 0, len(ways))
	for i, w := range ways {
		r := Told{Way: w.name()}
		if !t.arrived(i, n.ID) {
			one, cancel := context.WithTimeout(ctx, perWay)
			if w.URL != "" {
				r.Err = t.post(one, w, n)
			} else {
				r.Err = run(one, w.Command, n)
			}
			cancel()
			if r.Err != nil {
				r.Err = fmt.Errorf("notify %d, %s: %w", i+1, r.Way, r.Err)
			} else {
				t.note(i, n.ID)
			}
		}
		out = append(out, r)
	}
	return out
}

func (t *Teller) arrived(way int, id string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.told[way] == id
}

func (t *Teller) note(way int, id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.told[way] = id
}

func (w Way) name() string {
	if w.URL == "" {
		return w.Command[0]
	}
	u, err := address(w.URL)
	if err != nil {
		return "url"
	}
	return u.Hostname()
}

// filled replaces the placeholders, once each: what is put in is not read again.
func filled(argv []string, n Note) []string {
	r := strings.NewReplacer("{summary}", n.Summary(), "{count}", fmt.Sprint(len(n.Waits)))
	out := []string{argv[0]}
	for _, a := range argv[1:] {
		out = append(out, r.Replace(a))
	}
	return out
}
