package jcs

import (
	"bufio"
	"errors"
	"io"
	"iter"
	"strconv"

	"sealbridge/spec"
)

// The bounds of one stream of documents. Memory is bounded by one document.
const (
	// MaxStreamBytes: two full histories of a task with every other document of it, laid out by hand.
	MaxStreamBytes = 512 << 20
	// MaxStreamDocuments: 10,000 events a side, and five more documents for each.
	MaxStreamDocuments = 120_000
)

// Documents reads what a file or a pipe holds: one document, several one after
// the other (NDJSON), or an object whose member documents is a list of objects,
// as a bundle is. It forgives layout and nothing else: each document comes out
// canonical, under l. The object around a list comes last, with an empty list.
//
// The sequence ends with the first error, which is a *spec.Error but for
// errors of r; its path says which document of a list is meant.
func Documents(r io.Reader, l Limits) iter.Seq2[Value, error] {
	return func(yield func(Value, error) bool) {
		s := splitter{r: bufio.NewReaderSize(r, 64<<10), lim: l, yield: yield}
		if err := s.all(); err != nil && !errors.Is(err, errEnough) {
			yield(Value{}, err)
		}
	}
}

var errEnough = errors.New("the reader wants no more")

// splitter finds where documents begin and end; it judges nothing else.
type splitter struct {
	r     *bufio.Reader
	lim   Limits
	yield func(Value, error) bool
	buf   []byte
	bytes int
	count int
}

func (s *splitter) all() error {
	for {
		c, err := s.space()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if c != '{' {
			return malformed("", "expected an object")
		}
		if err := s.object(); err != nil {
			return err
		}
	}
}

// take reads one byte into the buffer.
func (s *splitter) take() (byte, error) {
	c, err := s.r.ReadByte()
	if err != nil {
		return 0, err
	}
	if s.bytes++; s.bytes > MaxStreamBytes {
		return 0, tooLarge("", "%d bytes", MaxStreamBytes)
	}
	if len(s.buf) >= layoutFactor*s.lim.Bytes {
		return 0, tooLarge("", "%d bytes", layoutFactor*s.lim.Bytes)
	}
	s.buf = append(s.buf, c)
	return c, nil
}

// must is take where the text may not end.
func (s *splitter) must() (byte, error) {
	c, err := s.take()
	if err == io.EOF {
		err = malformed("", "ends too early")
	}
	return c, err
}

func (s *splitter) peek() (byte, error) {
	b, err := s.r.Peek(1)
	if err != nil {
		return 0, err
	}
	return b[0], nil
}

// space passes over white space and shows the byte behind it.
func (s *splitter) space() (byte, error) {
	for {
		c, err := s.peek()
		if err != nil || c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c, err
		}
		if _, err := s.take(); err != nil {
			return 0, err
		}
	}
}

// object reads one object at the top: all bytes of it but those of a list of documents.
func (s *splitter) object() error {
	s.buf = s.buf[:0]
	if _, err := s.must(); err != nil {
		return err
	}
	for {
		start := len(s.buf)
		c, err := s.must()
		switch {
		case err != nil:
			return err
		case c == '}':
			return s.emit()
		case c == '{' || c == '[':
			err = s.nested()
		case c == '"':
			if err = s.str(); err == nil && string(s.buf[start:]) == `"documents"` {
				err = s.member()
			}
		}
		if err != nil {
			return err
		}
	}
}

// member reads a list of documents behind its name; anything else stays in the buffer.
func (s *splitter) member() error {
	if c, err := s.space(); err != nil || c != ':' {
		return s.end(err)
	}
	if _, err := s.must(); err != nil {
		return err
	}
	if c, err := s.space(); err != nil || c != '[' {
		return s.end(err)
	}
	if _, err := s.must(); err != nil {
		return err
	}
	around := append([]byte(nil), s.buf...)
	if c, err := s.space(); err != nil || c != '{' {
		if err == nil {
			err = s.nested()
		}
		return s.end(err)
	}
	if err := s.list(); err != nil {
		return err
	}
	s.buf = append(around, ']')
	return nil
}

func (s *splitter) end(err error) error {
	if err == io.EOF {
		return malformed("", "ends too early")
	}
	return err
}

// list reads the documents of a list, up to and with its end.
func (s *splitter) list() error {
	for n := 0; ; n++ {
		at := "/documents/" + strconv.Itoa(n)
		c, err := s.space()
		if err == nil && c != '{' {
			err = malformed("", "expected an object")
		}
		if err != nil {
			return spec.At(at, s.end(err))
		}
		s.buf = s.buf[:0]
		if _, err = s.must(); err == nil {
			err = s.nested()
		}
		if err == nil {
			err = s.emit()
		}
		if err != nil {
			return spec.At(at, err)
		}
		s.buf = s.buf[:0]
		if _, err := s.space(); err != nil {
			return spec.At(at, s.end(err))
		}
		switch c, err := s.must(); {
		case err != nil:
			return err
		case c == ']':
			return nil
		case c != ',':
			return malformed(at, "expected a comma or the end of the list")
		}
		s.buf = s.buf[:0]
	}
}

// nested reads to the end of the list or object whose first byte was read.
func (s *splitter) nested() error {
	for depth := 1; depth > 0; {
		c, err := s.must()
		if err != nil {
			return err
		}
		switch c {
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		case '"':
			if err := s.str(); err != nil {
				return err
			}
		}
	}
	return nil
}

// str reads to the end of the string whose quote was read.
func (s *splitter) str() error {
	for {
		c, err := s.must()
		if err == nil && c == '\\' {
			_, err = s.must()
		} else if c == '"' {
			return err
		}
		if err != nil {
			return err
		}
	}
}

// emit hands out the document in the buffer.
func (s *splitter) emit() error {
	if s.count++; s.count > MaxStreamDocuments {
		return tooLarge("", "%d documents", MaxStreamDocuments)
	}
	v, err := CanonicalizeWithin(s.buf, s.lim)
	if err != nil {
		return err
	}
	if !s.yield(v, nil) {
		return errEnough
	}
	return nil
}
