package challenge_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/challenge"
)

// The answer ended before the timeout and the caller took it later. Its bytes are given up
// at the timeout, so that its end must not be taken either.
func TestACutAnswerIsNeverAWholeOne(t *testing.T) {
	for range 20 { // the order of two events is drawn each time
		in(t, func(t *testing.T, w *world, dialect string) {
			if dialect == "v1" {
				t.Skip("an answer of v1 ends by the message that has its last bytes")
			}
			a, epoch := w.join(dialect, 0)
			slow := &trial{block: make(chan struct{})}
			w.runInto(inference(epoch), slow)
			a.heard()
			a.frame(data(1, 1, strings.Repeat("y", 8<<10)))
			synctest.Wait()
			a.frame(data(1, 2, strings.Repeat("z", 8<<10)))
			a.frame(endWith(1, 3, &agentv2.End{EngineStatus: 200, Complete: true}))
			pass(time.Minute + 11*time.Second)
			close(slow.block)
			<-slow.done
			if slow.finish != nil && slow.finish.End == challenge.Answered && slow.bytes() < 16<<10 {
				t.Errorf("end: got %v with %d bytes, want none without all %d", slow.finish.End, slow.bytes(), 16<<10)
			}
		})
	}
}
