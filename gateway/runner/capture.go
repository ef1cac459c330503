package runner

import "sync"

// head keeps the first limit bytes and calls full once there are more.
type head struct {
	limit int64
	full  func()
	bytes []byte
	over  bool
}

func (h *head) Write(p []byte) (int, error) {
	room := h.limit - int64(len(h.bytes))
	h.bytes = append(h.bytes, p[:min(int64(len(p)), room)]...)
	if int64(len(p)) > room && !h.over {
		h.over = true
		h.full()
	}
	return len(p), nil
}

// tail keeps the last limit bytes.
type tail struct {
	mu    sync.Mutex
	limit int
	buf   []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p[max(0, len(p)-t.limit):]...)
	if len(t.buf) > 2*t.limit {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.limit:]...)
	}
	return len(p), nil
}

func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf[max(0, len(t.buf)-t.limit):]
}
