package challenge_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/challenge"
	"svc.internal/services/provider-hub/internal/quota"
	"svc.internal/services/provider-hub/internal/session/sessiontest"
)

// large is an order whose body has so many bytes.
func large(epoch int64, size int) *challenge.Order {
	o := inference(epoch)
	head := fmt.Appendf(nil, `{"model":%q,"x":"`, model)
	o.Body = slicesOf(head, size-len(head)-2, `"}`)
	return o
}

func slicesOf(head []byte, filler int, tail string) []byte {
	return append(append(head, bytes.Repeat([]byte("x"), filler)...), tail...)
}

// window grants credit on a stream.
func window(stream, seq, bytes uint32) *agentv2.Frame {
	return &agentv2.Frame{Stream: stream, Seq: seq, Body: &agentv2.Frame_Window{Window: &agentv2.Window{Bytes: bytes}}}
}

func TestAnAgentThatWithholdsCreditLosesTimeAndGainsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const withheld, thought = 20 * time.Second, 2 * time.Second
		w := setup(t)
		a, epoch := w.join("v2", 0)
		c := w.run(large(epoch, 300<<10))
		a.heard()
		pass(withheld)
		a.frame(window(1, 1, 300<<10))
		a.heard()
		pass(thought)
		a.frame(data(1, 2, "answer"))
		a.frame(sessiontest.End(1, 3))
		f := c.end(t)
		w.want(f, challenge.Answered, 200)
		same(t, "its time", c.chunks[0].after, withheld+thought)
		same(t, "the last byte was written", f.Written, withheld)
		same(t, "took", f.Took, withheld+thought)
	})
}

func TestAWholeAnswerBeforeTheLastByteIsInvalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		a, epoch := w.join("v2", 0)
		for n, c := range []struct {
			status int32
			want   challenge.End
		}{{200, challenge.Invalid}, {413, challenge.Refused}} {
			stream := uint32(n + 1)
			run := w.run(large(epoch, 300<<10))
			a.heard()
			a.frame(data(stream, 1, "answer"))
			a.frame(endWith(stream, 2, &agentv2.End{EngineStatus: c.status, Complete: true}))
			w.want(run.end(t), c.want, int(c.status))
		}
	})
}

func TestTheRoundTripThatIsToldIsBounded(t *testing.T) {
	in(t, func(t *testing.T, w *world, dialect string) {
		a, epoch := w.join(dialect, 0)
		for _, c := range []struct{ measured, want time.Duration }{
			{time.Minute, challenge.MaxRoundTrip}, {80 * time.Millisecond, 80 * time.Millisecond},
		} {
			a.Measured(c.measured)
			run := w.run(inference(epoch))
			a.heard()
			pass(time.Minute)
			same(t, "round trip", run.end(t).RoundTrip, c.want)
		}
	})
}

func TestAnAnswerHasAtMost8192Chunks(t *testing.T) {
	in(t, func(t *testing.T, w *world, dialect string) {
		const pieces = challenge.MaxChunks + 1000
		a, epoch := w.join(dialect, 0)
		c := w.run(inference(epoch))
		id := ""
		if dialect == "v1" {
			id, _ = a.asked()
		} else {
			a.heard()
		}
		var want strings.Builder
		for n := range uint32(pieces) {
			text := fmt.Sprintf(`{"n":%d}`, n)
			want.WriteString(text)
			if dialect == "v1" {
				a.says([]byte(sessiontest.Chunk(id, text, false)))
			} else {
				a.frame(data(1, n+1, text))
			}
			pass(time.Millisecond) // it is taken alone
		}
		if dialect == "v1" {
			a.says([]byte(sessiontest.Chunk(id, `null`, true)))
			a.says([]byte(sessiontest.StreamEnd(id, "")))
		} else {
			a.frame(sessiontest.End(1, pieces+1))
		}
		w.want(c.end(t), challenge.Answered, 200)
		if len(c.chunks) > challenge.MaxChunks {
			t.Errorf("chunks: got %d, want at most %d", len(c.chunks), challenge.MaxChunks)
		}
		var got strings.Builder
		for _, p := range c.chunks {
			got.WriteString(p.data)
		}
		same(t, "the bytes are all there", got.String() == want.String(), true)
		for _, n := range []int{0, 1, 8000} {
			same(t, fmt.Sprintf("the time of chunk %d", n), c.chunks[n].after, time.Duration(n)*time.Millisecond)
		}
		last := c.chunks[len(c.chunks)-1]
		same(t, "the time of the joined chunk is its last byte's", last.after, (pieces-1)*time.Millisecond)
	})
}

func TestJoinedChunksAreFullAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const piece = 3 << 10
		w := setup(t)
		a, epoch := w.join("v2", 0)
		c := w.run(inference(epoch))
		a.heard()
		seq := uint32(0)
		send := func(text string) {
			seq++
			a.frame(data(1, seq, text))
			synctest.Wait()
			a.heard() // credit
		}
		for range challenge.MaxChunks {
			send("x")
		}
		for range 1000 {
			send(strings.Repeat("y", piece))
		}
		a.frame(sessiontest.End(1, seq+1))
		w.want(c.end(t), challenge.Answered, 200)
		if got, want := c.bytes(), challenge.MaxChunks+1000*piece; got != want {
			t.Errorf("bytes: got %d, want %d", got, want)
		}
		if len(c.chunks) > challenge.MaxChunks {
			t.Errorf("chunks: got %d, want at most %d", len(c.chunks), challenge.MaxChunks)
		}
		for _, p := range c.chunks[len(c.chunks)-3 : len(c.chunks)-1] {
			if len(p.data) != challenge.MaxChunk {
				t.Errorf("a joined chunk: got %d bytes, want %d", len(p.data), challenge.MaxChunk)
			}
		}
	})
}

func TestTheLargestBodyAndAnswerFitIntoTheShareOfAProvider(t *testing.T) {
	if share := challenge.MaxBytes / quota.Shares; share < challenge.MaxBody+challenge.MaxAnswer {
		t.Errorf("share: got %d bytes, want at least %d", share, challenge.MaxBody+challenge.MaxAnswer)
	}
}

// A provider's eighth has room for 3 bodies, and the whole for 25.
func TestTheBytesOfAllChallengesOfAHubAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const body, room = 10 << 10, 256 << 10
		w := setup(t)
		w.SetRoom(room)
		shared := large(0, body).Body
		var trials []*trial
		run := func(provider byte) (*challenge.Order, *agent) {
			a, epoch := w.join("v2", 0)
			o := inference(epoch)
			o.Provider, o.Body = ids.ProviderID{provider}, shared
			return o, a
		}
		full := func(what string, provider byte) {
			t.Helper()
			o, _ := run(provider)
			_, err := w.Run(t.Context(), o, &trial{})
			refused(t, what, err, fault.Exhausted, fault.RateLimitExceeded)
		}
		for n := range byte(room / body) {
			o, _ := run(n / 3)
			trials = append(trials, w.run(o))
			if n == 2 {
				full("a fourth of one provider", 0)
			}
		}
		full("one more of all", 99)
		trials[0].stop()
		<-trials[0].done
		o, _ := run(99)
		c := w.run(o)
		select {
		case <-c.done:
			t.Errorf("behind one that ended: got %v, want it under way", c.err)
		default:
		}
	})
}

func TestAnAnswerForWhichThereIsNoRoomIsNotHeldAgainstTheProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		w.SetRoom(256 << 10)
		for range 3 {
			_, epoch := w.join("v2", 0)
			w.run(large(epoch, 10<<10))
		}
		a, epoch := w.join("v1", 0)
		o := inference(epoch)
		o.Stream = false
		c := w.run(o)
		id, _ := a.asked()
		a.says([]byte(sessiontest.Answer(id, `,"response":"`+strings.Repeat("y", 3<<10)+`"`)))
		<-c.done
		refused(t, "3 KiB beside 30", c.err, fault.Exhausted, fault.RateLimitExceeded)
	})
}

// Log-probabilities are the largest that an engine sends.
func TestOversizedLogProbabilitiesOfV1EndTheirChallengeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		a, epoch := w.join("v1", 0)
		c := w.run(inference(epoch))
		id, _ := a.asked()
		token := `{"token":"a","logprob":-1e999,"top_logprobs":[]},`
		piece := `{"choices":[{"logprobs":{"content":[` + strings.Repeat(token, (800<<10)/len(token)) + `{}]}}]}`
		for range challenge.MaxAnswer/len(piece) + 1 {
			a.says([]byte(sessiontest.Chunk(id, piece, false)))
			synctest.Wait() // it is taken
		}
		w.want(c.end(t), challenge.Invalid, 0)
		same(t, "bytes passed on are at most", c.bytes() <= challenge.MaxAnswer, true)
		for range 3 { // the agent goes on: nobody can tell it to stop
			a.says([]byte(sessiontest.Chunk(id, piece, false)))
		}
		a.says([]byte(sessiontest.StreamEnd(id, "")))
		same(t, "slots", a.Streams(), 0)
		next := w.run(inference(epoch))
		id, _ = a.asked()
		a.says([]byte(sessiontest.Chunk(id, `{}`, true)))
		a.says([]byte(sessiontest.StreamEnd(id, "")))
		w.want(next.end(t), challenge.Answered, 200)
	})
}
