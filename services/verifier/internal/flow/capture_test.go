package flow_test

import (
	"bytes"
	"testing"

	"svc.internal/services/verifier/internal/flow"
)

// However a network cuts an answer, it is kept and judged alike. What is kept of an answer
// that is left ends with an event.
func FuzzAnAnswerIsTheSameHoweverItIsCut(f *testing.F) {
	const finish = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	f.Add([]byte(chunk+chunk+finish+"data: [DONE]\n\n"), uint8(7), uint8(0), true)
	f.Add([]byte(chunk+": comment\r\n\r\n"+chunk+"data: {"), uint8(3), uint8(2), true)
	f.Add([]byte(`{"choices":[]}`), uint8(1), uint8(0), false)
	f.Add([]byte("data: "+failure("upstream_error")+"\n\n"), uint8(200), uint8(1), true)
	f.Fuzz(func(t *testing.T, body []byte, size, hangUp uint8, streamed bool) {
		const limit = 2_000
		var pieces [][]byte
		for rest := body; len(rest) > 0; {
			n := min(len(rest), int(size)+1)
			pieces, rest = append(pieces, bytes.Clone(rest[:n])), rest[n:]
		}
		raw, whole, failed, left := flow.Capture(pieces, limit, streamed, int(hangUp))
		if len(raw) > limit {
			t.Fatalf("bytes: got %d, want at most %d", len(raw), limit)
		}
		if !bytes.HasPrefix(body, raw) {
			t.Fatal("what is kept is not the beginning of what came")
		}
		if left && len(raw) > 0 && len(raw) < len(body) && !endsEvent(raw) {
			t.Errorf("an answer that is left: got the end %q", raw[max(0, len(raw)-8):])
		}
		if left || len(body) > limit {
			return // where it is left depends on the pieces
		}
		_, wholeAtOnce, failedAtOnce, _ := flow.Capture([][]byte{body}, limit, streamed, int(hangUp))
		if whole != wholeAtOnce {
			t.Errorf("whole: got %v in pieces, %v at once", whole, wholeAtOnce)
		}
		if failed != failedAtOnce {
			t.Errorf("failed: got %v in pieces, %v at once", failed, failedAtOnce)
		}
	})
}

func endsEvent(raw []byte) bool {
	return bytes.HasSuffix(raw, []byte("\n\n")) || bytes.HasSuffix(raw, []byte("\r\n\r\n"))
}
