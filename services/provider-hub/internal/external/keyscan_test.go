package external

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestAnAnswerThatRepeatsTheKeyIsCutOffBeforeTheKey(t *testing.T) {
	t.Parallel()
	const secret = "sk-aaab-0123456789"
	for at := 1; at < len(secret); at++ {
		var got bytes.Buffer
		k := &keyScan{w: &got, key: []byte(secret)}
		_, first := k.Write([]byte("before " + secret[:at]))
		_, second := k.Write([]byte(secret[at:] + " after"))
		if first != nil {
			t.Errorf("split at %d: before: got the error %v, want none", at, first)
		}
		if !errors.Is(second, errKeyRepeated) {
			t.Errorf("split at %d: got the error %v, want %v", at, second, errKeyRepeated)
		}
		if strings.Contains(got.String(), secret[:min(at, 4)]) {
			t.Errorf("split at %d: got %q, want nothing of the key", at, got.String())
		}
	}
}

// FuzzKeyScan splits any answer anywhere: it passes whole, or is cut off where it holds the
// key.
func FuzzKeyScan(f *testing.F) {
	f.Add([]byte("ababab"), []byte("xxababaababab"), uint8(3))
	f.Add([]byte("key-key1"), []byte("a key-key-key1 b"), uint8(1))
	f.Fuzz(func(t *testing.T, key, answer []byte, step uint8) {
		if len(key) < minKey || step == 0 {
			return
		}
		var got bytes.Buffer
		k := &keyScan{w: &got, key: key}
		var err error
		for rest := answer; len(rest) > 0 && err == nil; {
			n := min(len(rest), int(step))
			_, err = k.Write(rest[:n])
			rest = rest[n:]
		}
		if err == nil {
			err = k.flush()
		}
		holds := bytes.Contains(answer, key)
		switch {
		case holds != errors.Is(err, errKeyRepeated):
			t.Fatalf("got the error %v, want one where the key is there: %v", err, holds)
		case holds && bytes.Contains(got.Bytes(), key):
			t.Fatal("the key was passed on")
		case !holds && !bytes.Equal(got.Bytes(), answer):
			t.Fatalf("got %q, want %q", got.Bytes(), answer)
		case !bytes.HasPrefix(answer, got.Bytes()):
			t.Fatalf("got %q, want the beginning of %q", got.Bytes(), answer)
		}
	})
}
