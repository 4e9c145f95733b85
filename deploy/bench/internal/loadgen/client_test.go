package loadgen

import (
	"bytes"
	"testing"
)

func TestARequestBoundsItsAnswer(t *testing.T) {
	for _, mode := range []string{"chat", "stream"} {
		for bound, want := range map[int]string{0: `"max_tokens":4096,`, 131072: `"max_tokens":131072,`} {
			c, err := newClient(&Spec{Base: "http://127.0.0.1:1/v1", Mode: mode, MaxTokens: bound}, 0)
			if err != nil {
				t.Fatal(err)
			}
			if got := c.next(); !bytes.Contains(got, []byte(want)) {
				t.Errorf("%s with the bound %d: got %s, want it to have %s", mode, bound, got, want)
			}
		}
	}
}
