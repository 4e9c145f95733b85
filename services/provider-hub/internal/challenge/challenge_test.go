package challenge_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/challenge"
	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/session/sessiontest"
)

// in runs a test in a bubble for each dialect.
func in(t *testing.T, test func(t *testing.T, w *world, dialect string)) {
	t.Helper()
	for _, dialect := range []string{"v1", "v2"} {
		t.Run(dialect, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, setup(t), dialect) })
		})
	}
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // of a synctest bubble
	synctest.Wait()
}

// data is a piece of an answer in v2.
func data(stream, seq uint32, text string) *agentv2.Frame {
	return &agentv2.Frame{Stream: stream, Seq: seq, Body: &agentv2.Frame_Data{Data: &agentv2.Data{Data: []byte(text)}}}
}

func endWith(stream, seq uint32, end *agentv2.End) *agentv2.Frame {
	return &agentv2.Frame{Stream: stream, Seq: seq, Body: &agentv2.Frame_End{End: end}}
}

func same[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// refused checks that an error is such a fault.
func refused(t testing.TB, what string, err error, kind fault.Kind, reason fault.Reason) {
	t.Helper()
	f, ok := fault.As(err)
	if !ok {
		t.Errorf("%s: got %v, want %s", what, err, reason)
		return
	}
	same(t, what, f.Kind, kind)
	same(t, what, f.Reason, reason)
}

func (w *world) want(f *challenge.Finish, end challenge.End, status int) {
	w.t.Helper()
	if f.End != end {
		w.t.Errorf("end: got %v (%s), want %v", f.End, f.Error, end)
	}
	if f.Status != status {
		w.t.Errorf("engine status: got %d, want %d", f.Status, status)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	same(w.t, "reported last", w.ended[len(w.ended)-1], end)
}

func TestAnAnswerComesAsItIsWithItsTimes(t *testing.T) {
	in(t, func(t *testing.T, w *world, dialect string) {
		const first, second = 250 * time.Millisecond, 50 * time.Millisecond
		a, epoch := w.join(dialect, 0)
		c := w.run(inference(epoch))
		var want []chunk
		if dialect == "v1" {
			id, _ := a.asked()
			pass(first)
			a.says([]byte(sessiontest.Chunk(id, `{"model":"the engine's name","n":1}`, false)))
			pass(second)
			a.says([]byte(sessiontest.Chunk(id, `{"usage":{"completion_tokens":1e9}}`, false)))
			a.says([]byte(sessiontest.Chunk(id, `null`, true)))
			a.says([]byte(sessiontest.StreamEnd(id, "")))
			want = []chunk{
				{`{"model":"the engine's name","n":1}`, first}, {`{"usage":{"completion_tokens":1e9}}`, first + second},
			}
		} else {
			a.heard()
			pass(first)
			a.frame(data(1, 1, "data: {\"model\":\"the engine's"))
			pass(second)
			a.frame(data(1, 2, " name\"}\n\nwhatever"))
			a.frame(sessiontest.End(1, 3))
			want = []chunk{{"data: {\"model\":\"the engine's", first}, {" name\"}\n\nwhatever", first + second}}
		}
		f := c.end(t)
		w.want(f, challenge.Answered, 200)
		if !slices.Equal(c.chunks, want) {
			t.Errorf("chunks: got %v, want %v", c.chunks, want)
		}
		same(t, "took", f.Took, first+second)
		same(t, "dialect", f.Dialect, dialect)
		same(t, "the time is known", f.SentAt.IsZero(), false)
		if n := a.Streams(); n != 0 {
			t.Errorf("slots behind it: got %d, want 0", n)
		}
	})
}

// What an agent is sent for a challenge is what it is sent for a request without a proof.
func TestAnInferenceLooksLikeARequest(t *testing.T) {
	in(t, func(t *testing.T, w *world, dialect string) {
		a, epoch := w.join(dialect, 0)
		o := inference(epoch)
		w.run(o)
		if dialect == "v1" {
			id, challenged := a.asked()
			other := id[:len(ids.RequestID{}.String())]
			if _, err := ids.ParseRequest(other); err != nil {
				t.Errorf("name: got %q, want a request id: %v", id, err)
			}
			same(t, "what follows the id", strings.TrimPrefix(id, other), "-1")
			if _, err := a.Open(session.Request{RequestID: other, Model: model, Stream: true, Body: o.Body}); err != nil &&
				!errors.Is(err, session.ErrGone) {
				t.Fatal(err)
			}
			_, asked := a.asked()
			if want := bytes.Replace(asked, []byte(other+"-2"), []byte(other+"-1"), 1); !bytes.Equal(challenged, want) {
				t.Errorf("got %s, want %s", challenged, want)
			}
			return
		}
		open := a.frames()[0].GetOpen()
		if len(open.GetProof()) != 0 {
			t.Errorf("proof: got %x, want none", open.GetProof())
		}
		at := open.GetModelOffset()
		if got := string(o.Body[at : at+open.GetModelLength()]); got != `"`+model+`"` {
			t.Errorf("the model's place: got %s, want its name in quotes", got)
		}
		same(t, "attempt", open.GetAttempt(), 1)
		same(t, "timeout", open.GetTimeoutMs(), 60_000)
		same(t, "length", int(open.GetBodyLength()), len(o.Body))
		if _, err := ids.ParseRequest(open.GetRequestId()); err != nil {
			t.Errorf("request id: got %q, want one", open.GetRequestId())
		}
	})
}

func TestAnEngineThatCannotIsRefused(t *testing.T) {
	in(t, func(t *testing.T, w *world, dialect string) {
		a, epoch := w.join(dialect, 0)
		for i, status := range []int{400, 503} {
			c := w.run(inference(epoch))
			if dialect == "v1" {
				id, _ := a.asked()
				a.says([]byte(sessiontest.StreamEnd(id, `,"status_code":`+map[int]string{400: "400", 503: "503"}[status]+
					`,"error":"cannot"`)))
			} else {
				a.heard()
				a.frame(data(uint32(i+1), 1, `{"error":{}}`))
				a.frame(endWith(uint32(i+1), 2, &agentv2.End{EngineStatus: int32(status), Complete: true, Error: "cannot"}))
			}
			f := c.end(t)
			w.want(f, challenge.Refused, status)
			if f.Error != "cannot" {
				t.Errorf("error: got %q, want that of the agent", f.Error)
			}
		}
		c := w.run(inference(epoch))
		if dialect == "v1" {
			id, _ := a.asked()
			a.says([]byte(`{"type":"error","request_id":"` + id + `","payload":{"code":501,"message":"no"}}`))
		} else {
			a.heard()
			a.frame(endWith(3, 1, &agentv2.End{Busy: true}))
		}
		w.want(c.end(t), challenge.Refused, 0)
	})
}

func TestALongErrorIsCutTo1KiBBetweenCharacters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		a, epoch := w.join("v2", 0)
		c := w.run(inference(epoch))
		a.heard()
		a.frame(endWith(1, 1, &agentv2.End{EngineStatus: 500, Error: "x" + strings.Repeat("é", 5000)}))
		same(t, "error", c.end(t).Error, "x"+strings.Repeat("é", 511))
	})
}

// A caller that takes a little for each of many chunks is not slow.
func TestATimeoutIsTheProvidersWhereNoChunkWaitedForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		a, epoch := w.join("v2", 0)
		brisk := &trial{pause: 100 * time.Millisecond}
		c := w.runInto(inference(epoch), brisk)
		a.heard()
		for n := range uint32(20) {
			a.frame(data(1, n+1, "x"))
			pass(time.Second)
		}
		w.want(c.end(t), challenge.TimedOut, 0)
	})
}

func TestATaskIsAnsweredOrRefused(t *testing.T) {
	in(t, func(t *testing.T, w *world, dialect string) {
		a, epoch := w.join(dialect, 0)
		reply := func(good bool) {
			if dialect == "v1" {
				id, _ := a.asked()
				pass(time.Second)
				more := `"success":false,"response":null,"error":"unsupported challenge type: fingerprint"`
				if good {
					more = `"success":false,"response":{"files":[]}`
				}
				a.says([]byte(`{"type":"verify","request_id":"` + id + `","payload":{"challenge_id":"c-1",` + more + `}}`))
				return
			}
			a.heard()
			pass(time.Second)
			r := &agentv2.ChallengeResult{ChallengeId: "c-1", Error: "no such file"}
			if good {
				r.Digests = [][]byte{make([]byte, 32)}
			}
			a.frame(&agentv2.Frame{Body: &agentv2.Frame_ChallengeResult{ChallengeResult: r}})
		}
		for good, want := range map[bool]challenge.End{true: challenge.Answered, false: challenge.Refused} {
			c := w.run(fingerprint(epoch))
			reply(good)
			f := c.end(t)
			w.want(f, want, 0)
			if len(c.chunks) != 1 {
				t.Fatalf("chunks: got %v, want one", c.chunks)
			}
			same(t, "the chunk is JSON", json.Valid([]byte(c.chunks[0].data)), true)
			same(t, "its time", c.chunks[0].after, time.Second)
			same(t, "took", f.Took, time.Second)
		}
	})
}

func TestAnAnswerThatDoesNotComeTimesOut(t *testing.T) {
	in(t, func(t *testing.T, w *world, dialect string) {
		a, epoch := w.join(dialect, 0)
		sent, cancels := 0, 0
		hear := func() {
			for _, msg := range a.heard() {
				sent++
				if dialect == "v2" && frameOf(t, msg).GetCancel() != nil {
					cancels++
				}
			}
		}
		for _, o := range []*challenge.Order{inference(epoch), fingerprint(epoch)} {
			began := time.Now()
			c := w.run(o)
			hear()
			f := c.end(t)
			w.want(f, challenge.TimedOut, 0)
			same(t, "took", time.Since(began), o.Timeout)
			same(t, "told", f.Took, o.Timeout)
		}
		hear()
		if dialect == "v2" && cancels != 1 {
			t.Errorf("cancels of the inference: got %d, want 1", cancels)
		}
		if dialect == "v1" && sent != 2 {
			t.Errorf("messages to an agent that cannot be cancelled: got %d, want the 2 challenges", sent)
		}
		want := 2 // v1 keeps both slots
		if dialect == "v2" {
			pass(11 * time.Second) // the grace
			want = 0
		}
		if n := a.Streams(); n != want {
			t.Errorf("slots: got %d, want %d", n, want)
		}
	})
}

func TestAConnectionThatIsLostLosesItsChallenges(t *testing.T) {
	in(t, func(t *testing.T, w *world, dialect string) {
		a, epoch := w.join(dialect, 0)
		c, d := w.run(inference(epoch)), w.run(fingerprint(epoch))
		a.heard()
		pass(time.Second)
		a.Shut(session.ShuttingDown(0))
		w.want(c.end(t), challenge.Lost, 0)
		f := d.end(t)
		w.want(f, challenge.Lost, 0)
		if f.Took != time.Second {
			t.Errorf("took: got %v, want a second", f.Took)
		}
	})
}

func TestAnAnswerThatBreaksTheProtocolOrABoundIsInvalid(t *testing.T) {
	in(t, func(t *testing.T, w *world, dialect string) {
		a, epoch := w.join(dialect, 0)
		c := w.run(inference(epoch)) // an engine that closes early
		if dialect == "v1" {
			id, _ := a.asked()
			a.says([]byte(sessiontest.Chunk(id, `{"n":1}`, false)))
			a.says([]byte(sessiontest.StreamEnd(id, "")))
		} else {
			a.heard()
			a.frame(endWith(1, 1, &agentv2.End{EngineStatus: 200}))
		}
		w.want(c.end(t), challenge.Invalid, 200)

		c = w.run(inference(epoch))
		if dialect == "v1" { // more than anybody takes
			id, _ := a.asked()
			a.says([]byte(sessiontest.Chunk(id, `"`+strings.Repeat("x", 2<<20)+`"`, false)))
		} else {
			a.heard()
			a.frame(&agentv2.Frame{Stream: 2, Seq: 1, Body: &agentv2.Frame_Error{Error: &agentv2.Error{Code: "x"}}})
		}
		w.want(c.end(t), challenge.Invalid, 0)

		c = w.run(fingerprint(epoch))
		if dialect == "v1" {
			id, _ := a.asked()
			a.says([]byte(`{"type":"verify","request_id":"` + id + `","payload":{"challenge_id":"c-1","x":"` +
				strings.Repeat("x", 1<<20) + `"}}`))
		} else {
			a.heard()
			a.frame(&agentv2.Frame{Body: &agentv2.Frame_ChallengeResult{
				ChallengeResult: &agentv2.ChallengeResult{ChallengeId: "c-1", ChainDigest: []byte("short")},
			}})
		}
		w.want(c.end(t), challenge.Invalid, 0)
	})
}

func TestAnAnswerAbove16MiBIsInvalid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		a, epoch := w.join("v2", 0)
		c := w.run(inference(epoch))
		a.heard()
		piece := strings.Repeat("x", 16<<10)
		for n := range uint32(challenge.MaxAnswer/len(piece) + 1) {
			a.frame(data(1, n+1, piece))
			synctest.Wait() // it is taken, so that there is credit
		}
		w.want(c.end(t), challenge.Invalid, 0)
		if got := c.bytes(); got != challenge.MaxAnswer {
			t.Errorf("bytes passed on: got %d, want %d", got, challenge.MaxAnswer)
		}
		cancelled := false
		for _, f := range a.frames() {
			cancelled = cancelled || f.GetCancel() != nil
		}
		if !cancelled {
			t.Error("the agent was not asked to stop")
		}
	})
}

func TestAWholeAnswerComesInChunksOfAtMost1MiB(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		a, epoch := w.join("v1", 0)
		o := inference(epoch)
		o.Stream = false
		c := w.run(o)
		id, _ := a.asked()
		whole := `{"x":"` + strings.Repeat("y", 5<<20) + `"}`
		a.says([]byte(sessiontest.Answer(id, `,"response":`+whole)))
		w.want(c.end(t), challenge.Answered, 200)
		var got strings.Builder
		for _, p := range c.chunks {
			got.WriteString(p.data)
			if len(p.data) > challenge.MaxChunk {
				t.Errorf("chunk: got %d bytes, want at most %d", len(p.data), challenge.MaxChunk)
			}
		}
		if got.String() != whole {
			t.Errorf("got %d bytes, want the %d of the answer", got.Len(), len(whole))
		}
	})
}

func TestAHubThatStopsWaitsForChallengesAndThenEndsThem(t *testing.T) {
	in(t, func(t *testing.T, w *world, dialect string) {
		a, epoch := w.join(dialect, 0)
		c, d := w.run(inference(epoch)), w.run(fingerprint(epoch))
		a.heard()
		patience, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		if err := w.Drain(patience); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drain: got %v, want it to wait", err)
		}
		if waited := time.Since(began); waited != 10*time.Second {
			t.Errorf("waited: got %v, want 10 s", waited)
		}
		_, err := w.Run(t.Context(), inference(epoch), c)
		refused(t, "one more", err, fault.Unavailable, fault.HubDraining)
		w.Abort()
		w.want(c.end(t), challenge.HubStopped, 0)
		w.want(d.end(t), challenge.HubStopped, 0)
		if err := w.Drain(t.Context()); err != nil {
			t.Errorf("drain: got %v, want none", err)
		}
	})
}

func TestACallerThatLeavesEndsItsChallenge(t *testing.T) {
	in(t, func(t *testing.T, w *world, dialect string) {
		a, epoch := w.join(dialect, 0)
		c := w.run(inference(epoch))
		id := ""
		if dialect == "v1" {
			id, _ = a.asked()
		} else {
			a.heard()
		}
		c.stop()
		<-c.done
		if !errors.Is(c.err, context.Canceled) {
			t.Errorf("got %v, want %v", c.err, context.Canceled)
		}
		if dialect == "v1" {
			if got := a.heard(); len(got) != 0 {
				t.Errorf("an agent that cannot be cancelled: got %s, want nothing", got)
			}
			if n := a.Streams(); n != 1 {
				t.Errorf("slots until the agent has ended it: got %d, want 1", n)
			}
			a.says([]byte(sessiontest.StreamEnd(id, "")))
		} else {
			got := a.frames()
			if len(got) != 1 {
				t.Fatalf("got %v, want one cancel", got)
			}
			same(t, "it is a cancel", got[0].GetCancel() != nil, true)
			same(t, "its stream", got[0].GetStream(), 1)
			a.frame(endWith(1, 1, &agentv2.End{}))
		}
		if n := a.Streams(); n != 0 {
			t.Errorf("slots: got %d, want 0", n)
		}
	})
}

func TestASlowCallerLosesItsOwnChallengeAlone(t *testing.T) {
	in(t, func(t *testing.T, w *world, dialect string) {
		a, epoch := w.join(dialect, 0)
		slow := &trial{block: make(chan struct{})}
		w.runInto(inference(epoch), slow)
		quick := w.run(inference(epoch))
		names := make([]string, 2)
		if dialect == "v1" {
			for i, msg := range a.heard() {
				var m struct {
					RequestID string `json:"request_id"`
				}
				if err := json.Unmarshal(msg, &m); err != nil {
					t.Fatal(err)
				}
				names[i] = m.RequestID
			}
		} else {
			a.heard()
		}
		send := func(i int, seq uint32) {
			if dialect == "v1" {
				a.says([]byte(sessiontest.Chunk(names[i], `{"x":"`+strings.Repeat("y", 8<<10)+`"}`, false)))
			} else {
				a.frame(data(uint32(i+1), seq, strings.Repeat("y", 8<<10)))
			}
		}
		const pieces = 30 // below a stream's credit, and with v1 below its bound
		for n := range uint32(pieces) {
			send(0, n+1)
			send(1, n+1)
			synctest.Wait()
		}
		if got := quick.bytes(); got < pieces*8<<10 {
			t.Errorf("the quick caller: got %d bytes, want all of %d", got, pieces*8<<10)
		}
		if got := slow.bytes(); got != 0 {
			t.Errorf("the slow caller: got %d bytes, want none yet", got)
		}
		pass(time.Minute + 11*time.Second) // the timeout and the grace
		if n := a.Streams(); dialect == "v2" && n != 0 {
			t.Errorf("slots while the slow caller still takes nothing: got %d, want 0", n)
		}
		close(slow.block)
		<-slow.done
		refused(t, "the slow caller", slow.err, fault.Exhausted, fault.RateLimitExceeded)
	})
}

func TestAnAgentThatIsSilentIsPinged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		a, epoch := w.join("v2", 0)
		w.run(inference(epoch))
		a.heard()
		var o session.Outbox
		a.Next(&o)
		if o.Ping {
			t.Error("at once: got a ping, want none")
		}
		pass(2 * time.Second)
		if a.Next(&o); !o.Ping {
			t.Error("after 2 s: got no ping, want one")
		}
	})
}

func TestAChallengeThatCannotBeginSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		_, epoch := w.join("v2", 0)
		_, single := w.join("v2", 1)
		_, old := w.join("v1", 0)
		w.run(inference(single))
		for range session.MaxChallenges {
			w.run(inference(epoch))
		}
		other, large := inference(old), inference(old)
		other.Model = "other"
		other.Body = []byte(`{"model":"other"}`)
		large.Body = append(large.Body, bytes.Repeat([]byte(" "), 1<<20)...)
		deep := inference(old)
		deep.Body = []byte(`{"model":"m","x":` + strings.Repeat("[", 400) + strings.Repeat("]", 400) + `}`)
		malformed := inference(epoch)
		malformed.ID = ""
		benchmark := fingerprint(single)
		benchmark.Task = &session.Benchmark{Test: "math", Prompts: []string{"1+1"}}
		for name, c := range map[string]struct {
			order  *challenge.Order
			kind   fault.Kind
			reason fault.Reason
		}{
			"an epoch that is not here":  {inference(99), fault.Unavailable, fault.SessionGone},
			"no free slot":               {inference(single), fault.Unavailable, fault.ProviderBusy},
			"a ninth of a session":       {inference(epoch), fault.Exhausted, fault.RateLimitExceeded},
			"a model that is not served": {other, fault.Precondition, fault.ChallengeUnsupported},
			"a body above v1's message":  {large, fault.Precondition, fault.ChallengeUnsupported},
			"a benchmark for v2":         {benchmark, fault.Precondition, fault.ChallengeUnsupported},
			"a body that v1 cannot send": {deep, fault.Invalid, fault.InvalidRequest},
			"a malformed order":          {malformed, fault.Invalid, fault.InvalidRequest},
		} {
			_, err := w.Run(t.Context(), c.order, &trial{})
			refused(t, name, err, c.kind, c.reason)
		}
	})
}

func TestAHubHas64ChallengesAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := setup(t)
		var trials []*trial
		for range challenge.MaxChallenges / session.MaxChallenges {
			_, epoch := w.join("v2", 0)
			for range session.MaxChallenges {
				trials = append(trials, w.run(inference(epoch)))
			}
		}
		_, epoch := w.join("v2", 0)
		_, err := w.Run(t.Context(), inference(epoch), &trial{})
		refused(t, "one more", err, fault.Exhausted, fault.RateLimitExceeded)
		trials[0].stop()
		<-trials[0].done
		c := w.run(inference(epoch))
		select {
		case <-c.done:
			t.Errorf("behind one that ended: got %v, want it under way", c.err)
		default:
		}
	})
}
