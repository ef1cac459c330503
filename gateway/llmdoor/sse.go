package llmdoor

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// sse reads a stream of server-sent events, one at a time.
type sse struct {
	r     *bufio.Reader
	limit int64 // bytes that may still come
}

var errTooMuch = errors.New("an answer of more than its limit")

// next is one whole event: as it came, and its data. io.EOF comes between two
// events only; a stream that ends within one is io.ErrUnexpectedEOF.
func (s *sse) next() (raw, data []byte, err error) {
	for {
		line, err := s.line()
		switch {
		case err == io.EOF && len(raw)+len(line) > 0:
			return nil, nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, nil, err
		}
		raw = append(raw, line...)
		if len(raw) > maxEvent {
			return nil, nil, errTooMuch
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return raw, data, nil
		}
		if v, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(v, []byte(" "))...)
		}
	}
}

func (s *sse) line() (line []byte, err error) {
	for {
		part, err := s.r.ReadSlice('\n')
		if s.limit -= int64(len(part)); s.limit < 0 || len(line)+len(part) > maxEvent {
			return nil, errTooMuch
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
