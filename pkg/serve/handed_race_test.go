//go:build race

package serve

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

func TestAChangeOfAMessageThatWasHandedOverIsFound(t *testing.T) {
	m := wrapperspb.Bytes([]byte("question"))
	entry := remember("test.Echo/Unary", m)
	m.Value = []byte("another field of the sender's own message")
	if got := entry.change(); got != "" {
		t.Errorf("a field that both ends have for themselves: got %q, want no change", got)
	}
	entry.shared.(*wrapperspb.BytesValue).GetValue()[0] = '!'
	if got := entry.change(); !strings.Contains(got, "test.Echo/Unary") {
		t.Errorf("bytes that both ends share: got %q, want a change that names the method", got)
	}
}
