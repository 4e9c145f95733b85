package external

import (
	"bytes"
	"errors"
	"io"
)

// errKeyRepeated ends an answer that repeats the endpoint's key. A server may echo the head
// of a request, and what follows goes to consumers.
var errKeyRepeated = errors.New("the endpoint's answer repeats its key")

// keyScan passes an answer on unless it holds a key, wherever the answer is split into pieces. It
// keeps back the end of a piece where that may be the beginning of the key.
type keyScan struct {
	w    io.Writer
	key  []byte
	back []byte // the beginning of the key, at most len(key)-1 bytes
}

// Write implements io.Writer.
func (k *keyScan) Write(p []byte) (int, error) {
	if len(k.key) == 0 {
		return k.w.Write(p)
	}
	piece := p
	if len(k.back) > 0 {
		piece = append(append([]byte{}, k.back...), p...)
	}
	if bytes.Contains(piece, k.key) {
		return 0, errKeyRepeated
	}
	n := begun(piece, k.key)
	if _, err := k.w.Write(piece[:len(piece)-n]); err != nil {
		return 0, err
	}
	k.back = append(k.back[:0], piece[len(piece)-n:]...)
	return len(p), nil
}

// flush passes on what was kept back: the answer ends here.
func (k *keyScan) flush() error {
	if len(k.back) == 0 {
		return nil
	}
	_, err := k.w.Write(k.back)
	k.back = nil
	return err
}

// begun is the length of the longest end of a piece that is a beginning of the key.
func begun(piece, key []byte) int {
	for n := min(len(piece), len(key)-1); n > 0; n-- {
		if bytes.HasSuffix(piece, key[:n]) {
			return n
		}
	}
	return 0
}
