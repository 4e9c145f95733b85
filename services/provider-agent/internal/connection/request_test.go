package connection

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/agentwire"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-agent/internal/connection/hubtest"
	"svc.internal/services/provider-agent/internal/endpoint"
)

func TestRegisterTellsWhoAndWhatIsOffered(t *testing.T) {
	b := setup(t, echo, options{})
	got := b.hub.Accept().Register
	switch {
	case got.GetToken() != testKey:
		t.Errorf("REGISTER: got.GetToken(): got %q, want %q", got.GetToken(), testKey)
	case got.GetNodeId() != "node-under-test":
		t.Errorf(`REGISTER: got.GetNodeId(): got %q, want "node-under-test"`, got.GetNodeId())
	case got.GetNodeName() != "rig":
		t.Errorf(`REGISTER: got.GetNodeName(): got %q, want "rig"`, got.GetNodeName())
	case got.GetRegion() != "here":
		t.Errorf(`REGISTER: got.GetRegion(): got %q, want "here"`, got.GetRegion())
	case got.GetAgentVersion() != "1":
		t.Errorf(`REGISTER: got.GetAgentVersion(): got %q, want "1"`, got.GetAgentVersion())
	case got.GetMaxRequestBytes() != 10<<20:
		t.Errorf("REGISTER: got.GetMaxRequestBytes(): got %d, want 10<<20", got.GetMaxRequestBytes())
	case strings.Join(got.GetCapabilities(), " ") != "chat stream cancel logprobs":
		t.Errorf(`REGISTER: strings.Join(…): got %q, want "chat stream cancel logprobs"`,
			strings.Join(got.GetCapabilities(), " "))
	}
	switch m := got.GetModels(); {
	case len(m) != 1:
		t.Errorf("models: len(m): got %d, want 1, in %v", len(m), m)
	case m[0].GetModelId() != "m":
		t.Errorf(`models: m[0].GetModelId(): got %q, want "m"`, m[0].GetModelId())
	case m[0].GetContextLength() != 4096:
		t.Errorf("models: m[0].GetContextLength(): got %d, want 4096", m[0].GetContextLength())
	case m[0].GetCapacity() != 4:
		t.Errorf("models: m[0].GetCapacity(): got %d, want 4", m[0].GetCapacity())
	case m[0].GetQuantization() != "fp8":
		t.Errorf(`models: m[0].GetQuantization(): got %q, want "fp8"`, m[0].GetQuantization())
	case !m[0].GetHealthy():
		t.Error("models: m[0].GetHealthy(): got false, want true")
	}
}

func TestAnswerArrivesAsTheEngineWroteIt(t *testing.T) {
	var want []byte
	for i := range 3 << 20 {
		want = append(want, byte(i*i>>7))
	}
	b := setup(t, func(_ context.Context, _ Request, w io.Writer) Answer {
		// Pieces of all sizes, below and above a frame and the buffer.
		for rest, n := want, 1; len(rest) > 0; n = n*3%99_991 + 1 {
			k := min(n, len(rest))
			if _, err := w.Write(rest[:k]); err != nil {
				return Answer{Status: 200, Err: err}
			}
			rest = rest[k:]
		}
		return Answer{Status: 200}
	}, options{})
	got, end := b.hub.AcceptLive().Open("m", body(1)).Answer()
	if !bytes.Equal(got, want) {
		t.Errorf("what arrived of %d bytes: got %q, want %q", len(want), got, want)
	}
	switch {
	case end.GetEngineStatus() != 200:
		t.Errorf("end.GetEngineStatus(): got %d, want 200", end.GetEngineStatus())
	case !end.GetComplete():
		t.Errorf("end.GetComplete(): got false, want true, with %v", end)
	case end.GetBusy():
		t.Errorf("end.GetBusy(): got true, want false, with %v", end)
	case end.GetError() != "":
		t.Errorf(`end.GetError(): got %q, want ""`, end.GetError())
	}
}

func TestBodyLargerThanTheWindowArrivesWhole(t *testing.T) {
	b := setup(t, echo, options{cfg: func(c *Config) { c.MaxBufferedBytes = 10 << 20 }})
	s := b.hub.AcceptLive()
	for range 3 { // 27 MiB in all: the connection's credit comes back too
		want := body(9 << 20)
		if got, end := s.Open("m", want).Answer(); string(got) != want {
			t.Fatalf("%d bytes arrived of %d: %v: got %q, want %q", len(got), len(want), end, string(got), want)
		} else if !end.GetComplete() {
			t.Fatalf("%d bytes arrived of %d: %v: end.GetComplete(): got false, want true", len(got), len(want), end)
		}
	}
}

func TestRequestKeepsWhatTheHubSaid(t *testing.T) {
	seen := make(chan Request, 1)
	b := setup(t, func(ctx context.Context, r Request, _ io.Writer) Answer {
		seen <- r
		if deadline, ok := ctx.Deadline(); !ok {
			t.Error("ok of ctx.Deadline(): got false, want true")
		} else if got := time.Until(deadline); got > time.Minute+hubFirst {
			t.Errorf("time.Until(deadline): got %v, want at most %v", got, time.Minute+hubFirst)
		}
		return Answer{Status: 200}
	}, options{})
	text := []byte(`{"model":"m","stream":true}`)
	open := hubtest.OpenOf("m", text)
	open.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	st := b.hub.AcceptLive().OpenOnly(open)
	st.SendBody(text)
	r := <-seen
	switch {
	case r.ID != open.GetRequestId():
		t.Errorf("the request: r.ID: got %q, want %q", r.ID, open.GetRequestId())
	case r.ModelID != "m":
		t.Errorf(`the request: r.ModelID: got %q, want "m"`, r.ModelID)
	case !r.Stream:
		t.Error("the request: r.Stream: got false, want true")
	case string(r.Body) != string(text):
		t.Errorf("the request: r.Body: got %q, want %q", string(r.Body), string(text))
	case r.Traceparent != open.GetTraceparent():
		t.Errorf("the request: r.Traceparent: got %q, want %q", r.Traceparent, open.GetTraceparent())
	case string(r.Body[r.ModelOffset:r.ModelOffset+r.ModelLength]) != `"m"`:
		t.Errorf("the request: the model in the body: got %q, want %q",
			string(r.Body[r.ModelOffset:r.ModelOffset+r.ModelLength]), `"m"`)
	}
}

func TestSlowHubHoldsNoMoreThanItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		written := 0
		b := setup(t, func(_ context.Context, _ Request, w io.Writer) Answer {
			for range size / 1024 {
				if _, err := w.Write(make([]byte, 1024)); err != nil {
					return Answer{Err: err}
				}
				written += 1024
			}
			return Answer{Status: 200}
		}, options{piped: true})
		s := b.hub.AcceptLive()
		s.HoldCredit()
		st := s.Open("m", body(1))
		synctest.Wait()
		for granted := agentwire.StreamWindow; ; granted += 100_000 {
			if got := st.Received(); got != min(granted, size) {
				t.Fatalf("%d bytes are in flight with credit for %d: got %d, want %d", got, granted, got, min(granted, size))
			}
			if bound := min(granted+outBuffer, size); written > bound {
				t.Fatalf("the engine was read: got %d, want no more than %d", written, bound)
			}
			if granted >= size {
				break
			}
			s.Grant(st, 100_000)
			synctest.Wait()
		}
		if _, end := st.Answer(); !end.GetComplete() {
			t.Errorf("END is %v", end)
		}
	})
}

func TestStalledRequestDoesNotStallAnother(t *testing.T) {
	b := setup(t, func(_ context.Context, r Request, w io.Writer) Answer {
		_, err := w.Write(make([]byte, len(r.Body)))
		return Answer{Status: 200, Err: err}
	}, options{})
	s := b.hub.AcceptLive()
	stalled := s.Open("m", body(1<<20)) // nobody takes its answer
	for range 20 {
		want := body(100_000)
		if got, end := s.Open("m", want).Answer(); len(got) != len(want) {
			t.Fatalf("len(got): got %d, want %d", len(got), len(want))
		} else if !end.GetComplete() {
			t.Fatalf("end.GetComplete(): got false, want true, with %v", end)
		}
	}
	if stalled.Ended() {
		t.Error("the stalled request has ended: the test shows nothing")
	}
	if got, end := stalled.Answer(); len(got) < 1<<20 {
		t.Errorf("the stalled request: got %d, want at least 1<<20", len(got))
	} else if !end.GetComplete() {
		t.Errorf("end.GetComplete(): got false, want true, with %v", end)
	}
}

func TestConnectionCreditBoundsAllRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(_ context.Context, r Request, w io.Writer) Answer {
			if r.Stream {
				return Answer{Status: 204} // no data, only END
			}
			_, err := w.Write(make([]byte, agentwire.StreamWindow))
			return Answer{Status: 200, Err: err}
		}, options{piped: true, offers: []Offer{{ModelID: "m", Capacity: 64, Healthy: true}}})
		s := b.hub.AcceptLive()
		s.HoldCredit()
		var all []*hubtest.Stream
		for range 40 {
			all = append(all, s.Open("m", body(1)))
		}
		sum := func() (n int) {
			synctest.Wait()
			for _, st := range all {
				n += st.Received()
			}
			return n
		}
		if got := sum(); got != agentwire.ConnWindow {
			t.Fatalf("got %d bytes in flight, want the window of %d", got, agentwire.ConnWindow)
		}
		if _, end := s.Open("m", `{"model":"m","stream":true}`).Answer(); end.GetEngineStatus() != 204 {
			t.Errorf("an answer without data, with no credit: got %d, want 204", end.GetEngineStatus())
		}
		s.Grant(nil, 1<<20)
		if got := sum(); got != agentwire.ConnWindow+1<<20 {
			t.Errorf("bytes in flight after a grant: got %d, want %d", got, agentwire.ConnWindow+1<<20)
		}
		s.Grant(nil, 100) // less than a frame
		if got := sum(); got != agentwire.ConnWindow+1<<20+100 {
			t.Errorf("bytes in flight after a grant of 100: got %d, want %d", got, agentwire.ConnWindow+1<<20+100)
		}
		s.Grant(nil, agentwire.ConnWindow)
		for _, st := range all {
			if _, end := st.Answer(); !end.GetComplete() {
				t.Fatalf("END is %v", end)
			}
		}
	})
}

func TestCancelStopsTheEngineAndEndFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started, stopped := make(chan struct{}), make(chan struct{})
		b := setup(t, func(ctx context.Context, _ Request, w io.Writer) Answer {
			defer close(stopped)
			close(started)
			for {
				if _, err := w.Write(make([]byte, 1000)); err != nil {
					return Answer{Status: 200, Err: err}
				}
			}
		}, options{piped: true})
		s := b.hub.AcceptLive()
		s.HoldCredit()
		st := s.Open("m", body(1))
		<-started
		synctest.Wait() // the window is used up, the buffer full
		began := time.Now()
		st.Cancel()
		<-stopped
		body, end := st.Answer()
		switch {
		case end.GetComplete():
			t.Errorf("end.GetComplete(): got true, want false, with %v", end)
		case end.GetError() != errCancelled.Error():
			t.Errorf("end.GetError(): got %q, want %q", end.GetError(), errCancelled.Error())
		case end.GetBusy():
			t.Errorf("end.GetBusy(): got true, want false, with %v", end)
		}
		if len(body) > agentwire.StreamWindow {
			t.Errorf("bytes arrived: got %d, want at most %d", len(body), agentwire.StreamWindow)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("END took: got %v, want at most %v", took, time.Second)
		}
		if n := b.link.slots.active(); n != 0 {
			t.Errorf("slots still taken: got %d, want 0", n)
		}
	})
}

func TestCancelBeforeTheBodyIsWhole(t *testing.T) {
	b := setup(t, echo, options{})
	s := b.hub.AcceptLive()
	st := s.OpenOnly(hubtest.OpenOf("m", []byte(body(1000))))
	st.Cancel()
	if _, end := st.Answer(); end.GetComplete() {
		t.Errorf("end.GetComplete(): got true, want false, with %v", end)
	} else if end.GetError() != errCancelled.Error() {
		t.Errorf("end.GetError(): got %q, want %q", end.GetError(), errCancelled.Error())
	}
	// What crosses END has no effect, and its credit comes back.
	st.SendBody([]byte(body(1000)))
	st.Cancel()
	if got, end := s.Open("m", body(5)).Answer(); string(got) != body(5) {
		t.Errorf("the next request: got %q, want %q", string(got), body(5))
	} else if !end.GetComplete() {
		t.Errorf("end.GetComplete(): got false, want true, with %v", end)
	}
}

func TestBodyThatNeverComesFreesItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, echo, options{piped: true})
		open := hubtest.OpenOf("m", []byte(body(1000)))
		open.TimeoutMs = 2000
		st := b.hub.AcceptLive().OpenOnly(open)
		if _, end := st.Answer(); end.GetError() != errBodyLate.Error() {
			t.Errorf("END: got %q, want %q", end.GetError(), errBodyLate.Error())
		}
		if n := b.link.slots.active(); n != 0 {
			t.Errorf("slots still taken: got %d, want 0", n)
		}
	})
}

func TestAHubThatForgetsARequestDoesNotKeepItsSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(ctx context.Context, _ Request, _ io.Writer) Answer {
			<-ctx.Done()
			return Answer{Err: ctx.Err()}
		}, options{piped: true})
		text := []byte(body(1))
		open := hubtest.OpenOf("m", text)
		open.TimeoutMs = 3000
		began := time.Now()
		st := b.hub.AcceptLive().OpenOnly(open)
		st.SendBody(text)
		if _, end := st.Answer(); end.GetComplete() {
			t.Errorf("end.GetComplete(): got true, want false, with %v", end)
		} else if end.GetError() != errTimeout.Error() {
			t.Errorf("end.GetError(): got %q, want %q", end.GetError(), errTimeout.Error())
		}
		if took := time.Since(began); took != 3*time.Second+hubFirst {
			t.Errorf("it took: got %v, want %v", took, 3*time.Second+hubFirst)
		}
	})
}

func TestFullModelIsBusyAtOnce(t *testing.T) {
	release := make(chan struct{})
	b := setup(t, func(ctx context.Context, r Request, w io.Writer) Answer {
		if r.Stream {
			<-release
		}
		return Answer{Status: 200}
	}, options{offers: []Offer{{ModelID: "m", Capacity: 2}, {ModelID: "other", Capacity: 1}}})
	s := b.hub.AcceptLive()
	first, second := s.Open("m", `{"model":"m","stream":true}`), s.Open("m", `{"model":"m","stream":true}`)
	switch _, end := s.Open("m", body(1)).Answer(); {
	case !end.GetBusy():
		t.Errorf("END of the third: end.GetBusy(): got false, want true, with %v", end)
	case end.GetComplete():
		t.Errorf("END of the third: end.GetComplete(): got true, want false, with %v", end)
	case end.GetEngineStatus() != 0:
		t.Errorf("END of the third: end.GetEngineStatus(): got %d, want 0", end.GetEngineStatus())
	}
	if _, end := s.Open("other", `{"model":"other"}`).Answer(); end.GetBusy() {
		t.Errorf("the other model's END: end.GetBusy(): got true, want false, with %v", end)
	} else if !end.GetComplete() {
		t.Errorf("the other model's END: end.GetComplete(): got false, want true, with %v", end)
	}
	close(release)
	first.Answer()
	second.Answer()
	if _, end := s.Open("m", body(1)).Answer(); end.GetBusy() {
		t.Errorf("END after the slots are free: end.GetBusy(): got true, want false, with %v", end)
	} else if !end.GetComplete() {
		t.Errorf("END after the slots are free: end.GetComplete(): got false, want true, with %v", end)
	}
}

func TestRequestsThatCannotBeTakenAreAnswered(t *testing.T) {
	b := setup(t, echo, options{cfg: func(c *Config) { c.MaxRequestBytes, c.MaxBufferedBytes = 5000, 6000 }})
	s := b.hub.AcceptLive()
	text := []byte(body(1))
	for name, change := range map[string]func(*agentv2.Open){
		"a model that is not offered": func(o *agentv2.Open) { o.ModelId = "unknown" },
		"a body above the bound":      func(o *agentv2.Open) { o.BodyLength = 5001 },
		"a body of 4 GiB":             func(o *agentv2.Open) { o.BodyLength = 1<<32 - 1 },
		"a model outside the body":    func(o *agentv2.Open) { o.ModelOffset = uint32(len(text)) },
		"a model whose place wraps":   func(o *agentv2.Open) { o.ModelOffset = 1<<32 - 1 },
		"a model of no length":        func(o *agentv2.Open) { o.ModelLength = 0 },
		"an endpoint not declared":    func(o *agentv2.Open) { o.Endpoint = agentv2.Endpoint_ENDPOINT_IMAGES },
		"an endpoint nobody knows":    func(o *agentv2.Open) { o.Endpoint = 99 },
		"a media type of two lines":   func(o *agentv2.Open) { o.ContentType = "a/b\r\nX: y" },
		"a media type without end":    func(o *agentv2.Open) { o.ContentType = strings.Repeat("a", 257) },
		"a body that has nothing":     func(o *agentv2.Open) { o.BodyLength = 0 },
		"a model of more than it all": func(o *agentv2.Open) { o.ModelLength = 1<<32 - 1 },
	} {
		open := hubtest.OpenOf("m", text)
		change(open)
		st := s.OpenOnly(open)
		st.SendBody(text)
		switch _, end := st.Answer(); {
		case end.GetBusy():
			t.Errorf("%s: END: end.GetBusy(): got true, want false, with %v", name, end)
		case end.GetComplete():
			t.Errorf("%s: END: end.GetComplete(): got true, want false, with %v", name, end)
		case end.GetError() == "":
			t.Errorf(`%s: END: end.GetError(): got "", want some text`, name)
		}
	}
	held := s.OpenOnly(hubtest.OpenOf("m", []byte(body(4000))))
	if _, end := s.Open("m", body(3000)).Answer(); !end.GetBusy() {
		t.Errorf("beyond the memory for bodies: END is %v", end)
	}
	held.Cancel()
	held.Answer()
	if _, end := s.Open("m", body(3000)).Answer(); !end.GetComplete() {
		t.Errorf("after memory is free: END is %v", end)
	}
}

func TestEndpointAndMediaTypeReachTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan Request, 1)
		b := setup(t, func(_ context.Context, r Request, w io.Writer) Answer {
			asked <- r
			_, err := io.WriteString(w, `{"choices":[{"message":{"content":"as if it were chat"},"finish_reason":"stop"}]}`)
			return Answer{Status: 200, Err: err}
		}, options{piped: true, receipts: keep(t, ""), cfg: func(c *Config) {
			c.Capabilities = []string{"embeddings",
				"images", "transcriptions"}
		}})
		s := b.hub.AcceptLive()
		if got := s.Register.GetCapabilities(); len(got) != 3 {
			t.Errorf("declared: len(got): got %d, want 3, in %v", len(got), got)
		} else if got[1] != "images" {
			t.Errorf(`declared: got[1]: got %q, want "images"`, got[1])
		}
		for wire, want := range map[agentv2.Endpoint]endpoint.Endpoint{
			agentv2.Endpoint_ENDPOINT_UNSPECIFIED: endpoint.Chat, agentv2.Endpoint_ENDPOINT_CHAT: endpoint.Chat,
			agentv2.Endpoint_ENDPOINT_EMBEDDINGS: endpoint.Embeddings, agentv2.Endpoint_ENDPOINT_IMAGES: endpoint.Images,
			agentv2.Endpoint_ENDPOINT_TRANSCRIPTIONS: endpoint.Transcriptions,
		} {
			text := []byte("--b m --b--")
			open := &agentv2.Open{
				RequestId: fmt.Sprintf("0190a000-0000-7000-8000-00000000000%d", wire), Attempt: 1, ModelId: "m",
				BodyLength:  uint32(len(text)),
				ModelOffset: 4, ModelLength: 1, Endpoint: wire, ContentType: "multipart/form-data; boundary=b",
				Proof: []byte("proof"),
			}
			st := s.OpenOnly(open)
			st.SendBody(text)
			if _, end := st.Answer(); !end.GetComplete() {
				t.Errorf("%v: END is %v", wire, end)
			}
			switch r := <-asked; {
			case r.Endpoint != want:
				t.Errorf("%v: asked: got %v, want %v", wire, r.Endpoint, want)
			case r.ContentType != open.GetContentType():
				t.Errorf("%v: r.ContentType: got %q, want %q", wire, r.ContentType, open.GetContentType())
			case !bytes.Equal(r.Body, text):
				t.Errorf("%v: r.Body: got %q, want %q", wire, r.Body, text)
			}
		}
		synctest.Wait() // what ended is written behind its END
		if n := b.link.deps.Receipts.Status().Kept; n != 2 {
			t.Errorf("receipts, of which chat should have two and all else none: got %d, want 2", n)
		}
	})
}

func TestOpenRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := setup(t, func(_ context.Context, _ Request, w io.Writer) Answer {
			_, err := w.Write(make([]byte, agentwire.StreamWindow+1)) // one byte never leaves
			return Answer{Status: 200, Err: err}
		}, options{piped: true})
		s := b.hub.AcceptLive()
		s.HoldCredit()
		s.Grant(nil, 64<<20)
		for i := range 4 + spareStreams {
			if st := s.Open("m", body(1)); func() bool { synctest.Wait(); return st.Ended() }() {
				t.Fatalf("request %d was refused", i)
			}
		}
		if _, end := s.Open("m", body(1)).Answer(); !end.GetBusy() {
			t.Errorf("END of one more is %v", end)
		}
	})
}

func TestErrorsAreCutAndClean(t *testing.T) {
	b := setup(t, func(context.Context, Request, io.Writer) Answer {
		return Answer{Status: 502, Err: errors.New("bad\x00\n" + strings.Repeat("é", 2000))}
	}, options{})
	_, end := b.hub.AcceptLive().Open("m", body(1)).Answer()
	switch {
	case len(end.GetError()) > maxError:
		t.Errorf("len(end.GetError()): got %d, want at most %d, in %v", len(end.GetError()), maxError, end)
	case !strings.HasPrefix(end.GetError(), "badéé"):
		t.Errorf(`end.GetError(): got %q, want the prefix "badéé"`, end.GetError())
	case end.GetEngineStatus() != 502:
		t.Errorf("end.GetEngineStatus(): got %d, want 502", end.GetEngineStatus())
	}
}
