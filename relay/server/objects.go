package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"sealbridge/relay"
	"sealbridge/spec"
)

// objects are sealed chunks. The id is a read capability; only its sender
// writes or drops under its own name.
type objects struct {
	st  store
	cfg *Config

	mu   sync.Mutex            // guards used
	used map[relay.Token]int64 // bytes, counted as whole chunks
}

// load counts what each sender has.
func (o *objects) load() error {
	subjects, err := o.subjects("sb.o.>")
	if err != nil {
		return err
	}
	used := make(map[relay.Token]int64)
	for subject := range subjects {
		if p := strings.Split(subject, "."); len(p) == 5 {
			if t, err := relay.ParseToken(p[2]); err == nil {
				used[t] += relay.MaxChunk
			}
		}
	}
	o.mu.Lock()
	o.used = used
	o.mu.Unlock()
	return nil
}

func (o *objects) subjects(filter string) (map[string]uint64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), storeWait)
	defer cancel()
	stream, err := o.st.js.Stream(ctx, objectStream)
	if err != nil {
		return nil, fmt.Errorf("listing chunks: %w", err)
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return nil, fmt.Errorf("listing chunks: %w", err)
	}
	return info.State.Subjects, nil
}

func (o *objects) put(from relay.Token, id string, n int, chunk []byte) error {
	o.mu.Lock()
	if o.used[from]+relay.MaxChunk > o.cfg.Quotas.FileBytes {
		o.mu.Unlock()
		return spec.Refuse(spec.Quota, "", "bytes of files waiting")
	}
	o.used[from] += relay.MaxChunk
	o.mu.Unlock()
	_, err := o.st.publish(relay.ObjectSubject(from, id, n), chunk)
	if err != nil {
		o.mu.Lock()
		o.used[from] -= relay.MaxChunk
		o.mu.Unlock()
	}
	if err == nil || errors.Is(err, errShare) { // it is there already
		return nil
	}
	return storeError(err)
}

func (o *objects) list(from relay.Token, id string) (ns []int, err error) {
	prefix := relay.ObjectSubject(from, id, 0)
	prefix = prefix[:len(prefix)-1]
	subjects, err := o.subjects(prefix + "*")
	if err != nil {
		return nil, storeError(err)
	}
	for subject := range subjects {
		if n, err := strconv.Atoi(strings.TrimPrefix(subject, prefix)); err == nil {
			ns = append(ns, n)
		}
	}
	return ns, nil
}

func (o *objects) drop(from relay.Token, id string) error {
	ns, err := o.list(from, id)
	if err != nil {
		return err
	}
	if err := o.st.purge(objectStream, "sb.o."+from.String()+"."+id+".*", 0); err != nil {
		return storeError(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.used[from] -= int64(len(ns)) * relay.MaxChunk; o.used[from] <= 0 {
		delete(o.used, from)
	}
	return nil
}

func (o *objects) forget(from relay.Token) error {
	if err := o.st.purge(objectStream, "sb.o."+from.String()+".>", 0); err != nil {
		return storeError(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.used, from)
	return nil
}

func (o *objects) total() (bytes int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range o.used {
		bytes += n
	}
	return bytes
}

const recount = time.Hour // chunks go by age, which nobody tells us
