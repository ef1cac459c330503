package journal

import (
	"bytes"
	"sync"
)

// cacheBytes bounds the rows that are kept decoded, by the bytes they were read
// from: a decoded row takes a few times that.
const cacheBytes = 32 << 20

// cache keeps rows as they were decoded. A row is known by its bytes, never by
// its place alone, so that no view, no turn that was taken back and no other
// writer can make it answer wrongly: it saves the decoding, not the reading.
type cache struct {
	mu    sync.Mutex // guards what follows
	rows  map[string]cached
	bytes int
}

type cached struct {
	raw []byte
	v   any
}

func (c *cache) get(id string, raw []byte) (any, bool) {
	c.mu.Lock()
	had, ok := c.rows[id]
	c.mu.Unlock()
	if !ok || !bytes.Equal(had.raw, raw) {
		return nil, false
	}
	return had.v, true
}

// put keeps a row; where there is no room any one of the others goes.
func (c *cache) put(id string, raw []byte, v any) {
	if len(raw) > cacheBytes/8 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil {
		c.rows = map[string]cached{}
	}
	c.bytes += len(raw) - len(c.rows[id].raw)
	c.rows[id] = cached{raw, v}
	for other, had := range c.rows {
		if c.bytes <= cacheBytes {
			return
		}
		if other != id {
			delete(c.rows, other)
			c.bytes -= len(had.raw)
		}
	}
}
