package llmdoor

import "bytes"

// Rewritten reads a request and writes it anew.
func Rewritten(b []byte) ([]byte, error) {
	o, err := readTree(b)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	writeTree(&out, o)
	return out.Bytes(), nil
}
