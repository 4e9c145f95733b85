package providerhub_test

import (
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fakeagent"
	agentv2 "svc.internal/proto/svc/agent/v2"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// twoWords begins a stream and sends content of two words, eleven bytes.
func twoWords(t *testing.T, r *fakeagent.Request) {
	t.Helper()
	must(t, r.Role())
	must(t, r.Text("Hello world"))
}

// TestEveryEndingAfterContent is the table of stream endings, seen from
// outside: what is billed, what the gateway hears, and in which order.
func TestEveryEndingAfterContent(t *testing.T) {
	t.Parallel()
	type want struct {
		ending    eventsv1.Ending
		prompt    bool // charged
		code      string
		claim     eventsv1.ClaimState
		cancelled bool // the agent is told to stop
	}
	absent, valid := eventsv1.ClaimState_CLAIM_STATE_ABSENT, eventsv1.ClaimState_CLAIM_STATE_VALID
	for name, c := range map[string]struct {
		change func(*hubv1.DispatchOpen)
		then   func(*testing.T, *fakeagent.Agent, *fakeagent.Request)
		want   want
	}{
		"normal, usage missing": {
			then: func(t *testing.T, _ *fakeagent.Agent, r *fakeagent.Request) {
				must(t, r.Finish("stop"))
				must(t, r.Done())
				must(t, r.End(200, true))
			},
			want: want{eventsv1.Ending_ENDING_COMPLETED, true, "", absent, false},
		},
		"normal without [DONE], by the end mark": {
			then: func(t *testing.T, _ *fakeagent.Agent, r *fakeagent.Request) {
				must(t, r.Finish("stop"))
				must(t, r.End(200, true))
			},
			want: want{eventsv1.Ending_ENDING_COMPLETED, true, "", absent, false},
		},
		"normal, the agent never sends END": {
			then: func(t *testing.T, _ *fakeagent.Agent, r *fakeagent.Request) {
				must(t, r.Finish("stop"))
				must(t, r.Done())
			},
			want: want{eventsv1.Ending_ENDING_COMPLETED, true, "", absent, false},
		},
		"truncated: no finish_reason": {
			then: func(t *testing.T, _ *fakeagent.Agent, r *fakeagent.Request) {
				must(t, r.Usage(10, 2))
				must(t, r.Done())
				must(t, r.End(200, true))
			},
			want: want{eventsv1.Ending_ENDING_TRUNCATED, false, "upstream_error", valid, false},
		},
		"truncated: no end mark": {
			then: func(t *testing.T, _ *fakeagent.Agent, r *fakeagent.Request) {
				must(t, r.Finish("stop"))
				must(t, r.End(200, false))
			},
			want: want{eventsv1.Ending_ENDING_TRUNCATED, false, "upstream_error", absent, false},
		},
		"error object inside the stream": {
			then: func(t *testing.T, _ *fakeagent.Agent, r *fakeagent.Request) {
				must(t, r.Event(`{"error":{"message":"out of memory","code":500}}`))
			},
			want: want{eventsv1.Ending_ENDING_ENGINE_ERROR, false, "upstream_error", absent, true},
		},
		"garbage inside the stream": {
			then: func(t *testing.T, _ *fakeagent.Agent, r *fakeagent.Request) { must(t, r.Event(`{"choices":[`)) },
			want: want{eventsv1.Ending_ENDING_ENGINE_ERROR, false, "upstream_error", absent, true},
		},
		"a member twice inside the stream": {
			then: func(t *testing.T, _ *fakeagent.Agent, r *fakeagent.Request) {
				must(t, r.Event(`{"choices":[{"delta":{"content":"a","content":"b"}}]}`))
			},
			want: want{eventsv1.Ending_ENDING_ENGINE_ERROR, false, "upstream_error", absent, true},
		},
		"provider lost mid-stream": {
			then: func(_ *testing.T, a *fakeagent.Agent, _ *fakeagent.Request) { a.Kill() },
			want: want{eventsv1.Ending_ENDING_PROVIDER_LOST, false, "upstream_error", absent, true},
		},
		"the agent resets the stream": {
			then: func(t *testing.T, a *fakeagent.Agent, r *fakeagent.Request) {
				must(t, a.Send(&agentv2.Frame{Stream: r.Stream(), Body: &agentv2.Frame_Error{Error: &agentv2.Error{Code: "x"}}}))
			},
			want: want{eventsv1.Ending_ENDING_PROVIDER_LOST, false, "upstream_error", absent, false},
		},
		"wall limit": {
			change: func(o *hubv1.DispatchOpen) { o.TotalTimeoutMs = wallMs },
			then: func(t *testing.T, _ *fakeagent.Agent, r *fakeagent.Request) {
				wait(t, "the cancel", r.Cancelled())
				must(t, r.Usage(11, 1)) // less than was delivered: believed
				must(t, r.End(200, false))
			},
			want: want{eventsv1.Ending_ENDING_WALL_LIMIT, true, "timeout", valid, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := setup(t)
			usage := w.listen()
			m := w.active()
			a := w.dial(m, fakeagent.Options{})
			open := order(m, a, true)
			if c.change != nil {
				c.change(open)
			}
			call := w.call(open)
			r := received(t, a)
			twoWords(t, r)
			call.content()
			c.then(t, a, r)
			end := call.rest()
			e := usage.next(1)
			switch {
			case c.want.code == "" && end.failed != nil:
				t.Errorf(`end.failed: got %v, want nil, where c.want.code == ""`, end.failed)
			case c.want.code != "" && end.failed.GetCode() != c.want.code:
				t.Errorf(`end.failed.GetCode(): got %q, want %q, where c.want.code != ""`, end.failed.GetCode(), c.want.code)
			case c.want.code != "" && end.failed.GetRetryable():
				t.Errorf(`end.failed.GetRetryable(): got true, want false, where c.want.code != "", with %v`, end.failed)
			}
			switch {
			case e.GetEnding() != c.want.ending:
				t.Errorf("usage: e.GetEnding(): got %v, want %v", e.GetEnding(), c.want.ending)
			case e.GetClaimState() != c.want.claim:
				t.Errorf("usage: e.GetClaimState(): got %v, want %v", e.GetClaimState(), c.want.claim)
			case (e.GetBillablePromptTokens() > 0) != c.want.prompt:
				t.Errorf("usage: e.GetBillablePromptTokens() > 0: got %t, want %t", e.GetBillablePromptTokens() > 0, c.want.prompt)
			}
			switch {
			case e.GetDeliveredBytes() != 11:
				t.Errorf("e.GetDeliveredBytes(): got %d, want 11", e.GetDeliveredBytes())
			case e.GetBillableCompletionTokens() > e.GetRecountedCompletionTokens():
				t.Errorf("billed: got %d, want at most %d", e.GetBillableCompletionTokens(), e.GetRecountedCompletionTokens())
			case e.GetBillableCompletionTokens() == 0:
				t.Error("billed: got 0, want any but 0")
			}
			if c.want.cancelled {
				wait(t, "the cancel", r.Cancelled())
			}
		})
	}
}

func TestClientGoneIsCancelledDrainedAndBilledByWhatWasDelivered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		drain      func(*testing.T, *fakeagent.Request)
		prompt     int64
		completion int64 // 0: the recount
	}{
		"usage comes while draining": {func(t *testing.T, r *fakeagent.Request) {
			must(t, r.Usage(11, 1))
			must(t, r.End(200, false))
		}, 11, 1},
		"a claim above what was relayed": {func(t *testing.T, r *fakeagent.Request) {
			must(t, r.Usage(11, 90))
			must(t, r.End(200, false))
		}, 12, 0},
		"the agent ignores the cancel": {func(t *testing.T, r *fakeagent.Request) {
			for range 20 {
				must(t, r.Text(" more that nobody reads"))
			}
		}, 12, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := setup(t)
			usage := w.listen()
			m := w.active()
			a := w.dial(m, fakeagent.Options{})
			call := w.call(order(m, a, true))
			r := received(t, a)
			twoWords(t, r)
			call.content()
			must(t, r.Text("!"))
			call.event() // behind it the commit has surely been read
			must(t, call.stream.CloseSend())
			wait(t, "the cancel", r.Cancelled())
			c.drain(t, r)
			e := usage.next(1)
			completion := c.completion
			if completion == 0 {
				completion = e.GetRecountedCompletionTokens()
			}
			switch {
			case e.GetEnding() != eventsv1.Ending_ENDING_CLIENT_GONE:
				t.Errorf("usage: e.GetEnding(): got %v, want %v", e.GetEnding(), eventsv1.Ending_ENDING_CLIENT_GONE)
			case e.GetBillablePromptTokens() != c.prompt:
				t.Errorf("usage: e.GetBillablePromptTokens(): got %d, want %d", e.GetBillablePromptTokens(), c.prompt)
			case e.GetBillableCompletionTokens() != completion:
				t.Errorf("usage: e.GetBillableCompletionTokens(): got %d, want %d", e.GetBillableCompletionTokens(), completion)
			case e.GetDeliveredBytes() != 12:
				t.Errorf("usage: e.GetDeliveredBytes(): got %d, want 12", e.GetDeliveredBytes())
			}
		})
	}
}

// A gateway that breaks off is no consumer who hung up: what it relayed is
// paid, the prompt is not.
func TestAGatewayThatBreaksOffCostsTheConsumerNoPrompt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	usage := w.listen()
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	call := w.call(order(m, a, true))
	r := received(t, a)
	twoWords(t, r)
	call.content()
	must(t, r.Text("!"))
	call.event() // behind it the commit has surely been read
	call.cancel()
	wait(t, "the cancel", r.Cancelled())
	must(t, r.End(0, false))
	e := usage.next(1)
	switch {
	case e.GetEnding() != eventsv1.Ending_ENDING_PLATFORM_LOST:
		t.Errorf("usage: e.GetEnding(): got %v, want %v", e.GetEnding(), eventsv1.Ending_ENDING_PLATFORM_LOST)
	case e.GetBillablePromptTokens() != 0:
		t.Errorf("usage: e.GetBillablePromptTokens(): got %d, want 0", e.GetBillablePromptTokens())
	case e.GetBillableCompletionTokens() != e.GetRecountedCompletionTokens():
		t.Errorf("usage: e.GetBillableCompletionTokens(): got %d, want %d", e.GetBillableCompletionTokens(),
			e.GetRecountedCompletionTokens())
	case e.GetBillableCompletionTokens() == 0:
		t.Error("usage: e.GetBillableCompletionTokens(): got 0, want any but 0")
	}
}

// TestHangUpInGoodOrderNeverOvertakesTheCommit closes the caller's side right
// behind the commit, many times: every one is billed, none is lost.
func TestHangUpInGoodOrderNeverOvertakesTheCommit(t *testing.T) {
	t.Parallel()
	w := setup(t)
	usage := w.listen()
	m := w.active()
	a := w.dial(m, fakeagent.Options{Capacity: 64, Handler: func(r *fakeagent.Request) {
		if r.Text("Hello world") == nil {
			<-r.Cancelled()
		}
		_ = r.End(0, false)
	}})
	const calls = 50
	for range calls {
		call := w.call(order(m, a, true))
		call.content()
		must(t, call.stream.CloseSend())
		if end := call.rest(); end.finished != nil {
			t.Errorf("a caller who hung up heard: got %v, want nil", end.finished)
		} else if end.failed != nil {
			t.Errorf("end.failed: got %v, want nil", end.failed)
		}
	}
	if e := usage.next(calls); e.GetEnding() != eventsv1.Ending_ENDING_CLIENT_GONE {
		t.Errorf("usage: e.GetEnding(): got %v, want %v", e.GetEnding(), eventsv1.Ending_ENDING_CLIENT_GONE)
	} else if e.GetDeliveredBytes() != 11 {
		t.Errorf("usage: e.GetDeliveredBytes(): got %d, want 11", e.GetDeliveredBytes())
	}
}

// TestBeforeContentEveryFailureButARefusalIsRetryable is the other half of the
// table: nothing is billed, and the next provider may be tried.
func TestBeforeContentEveryFailureButARefusalIsRetryable(t *testing.T) {
	t.Parallel()
	w := setup(t)
	usage := w.listen()
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	status := func(code int32, body string) func(*testing.T, *fakeagent.Request) {
		return func(t *testing.T, r *fakeagent.Request) { must(t, r.Fail(code, body)) }
	}
	refusal := `{"error":{"message":"too many images","type":"invalid_request_error",` +
		`"param":"messages","code":"too_many"}}`
	for name, c := range map[string]struct {
		whole  bool
		change func(*hubv1.DispatchOpen)
		do     func(*testing.T, *fakeagent.Request)
		want   *hubv1.DispatchFailed
	}{
		"400": {do: status(400, refusal), want: &hubv1.DispatchFailed{Code: "engine_refused",
			EngineStatus: 400, Message: "too many images", EngineType: "invalid_request_error", EngineParam: "messages",
			EngineCode: "too_many"}},
		"400 whole": {whole: true, do: status(400, refusal), want: &hubv1.DispatchFailed{Code: "engine_refused",
			EngineStatus: 400, Message: "too many images", EngineType: "invalid_request_error", EngineParam: "messages",
			EngineCode: "too_many"}},
		"422 as plain text": {do: status(422, "no"), want: &hubv1.DispatchFailed{Code: "engine_refused",
			EngineStatus: 422, Message: "no"}},
		"404": {do: status(404, `{"error":"model not found"}`), want: &hubv1.DispatchFailed{Retryable: true,
			Code: "upstream_error", EngineStatus: 404, Message: "model not found"}},
		"401 of the engine": {do: status(401, ""), want: &hubv1.DispatchFailed{Retryable: true, Code: "upstream_error",
			EngineStatus: 401}},
		"408": {do: status(408, ""), want: &hubv1.DispatchFailed{Retryable: true, Code: "upstream_error",
			EngineStatus: 408}},
		"429": {do: status(429, ""), want: &hubv1.DispatchFailed{Retryable: true, Code: "upstream_error",
			EngineStatus: 429, Busy: true}},
		"500": {do: status(500, ""), want: &hubv1.DispatchFailed{Retryable: true, Code: "upstream_error",
			EngineStatus: 500}},
		"engine not reached": {do: status(0, ""), want: &hubv1.DispatchFailed{Retryable: true, Code: "upstream_error"}},
		"busy": {do: func(t *testing.T, r *fakeagent.Request) { must(t, r.Busy()) },
			want: &hubv1.DispatchFailed{Retryable: true, Code: "upstream_error", Busy: true,
				Message: "the provider has no free slot"}},
		"error in a 200 stream": {do: func(t *testing.T, r *fakeagent.Request) {
			must(t, r.Event(`{"error":{"message":"m","code":503}}`))
		}, want: &hubv1.DispatchFailed{Retryable: true, Code: "upstream_error", EngineStatus: 503, Message: "m"}},
		"refusal in a 200 stream": {do: func(t *testing.T, r *fakeagent.Request) {
			must(t, r.Event(`{"error":{"message":"m","type":"BadRequestError"}}`))
		}, want: &hubv1.DispatchFailed{Code: "engine_refused", EngineStatus: 400, Message: "m",
			EngineType: "BadRequestError"}},
		"plain error body, 200": {do: status(200, `{"error":"overloaded"}`), want: &hubv1.DispatchFailed{Retryable: true,
			Code: "upstream_error", EngineStatus: 500, Message: "overloaded"}},
		"error in a whole 200": {whole: true, do: status(200, `{"error":{"message":"m"}}`),
			want: &hubv1.DispatchFailed{Retryable: true, Code: "upstream_error", EngineStatus: 500, Message: "m"}},
		"empty stream": {do: func(t *testing.T, r *fakeagent.Request) {
			must(t, r.Role())
			must(t, r.Done())
		}, want: &hubv1.DispatchFailed{Retryable: true, Code: "upstream_error", EngineStatus: 200,
			Message: "the engine's answer is empty"}},
		"cut before content": {do: func(t *testing.T, r *fakeagent.Request) {
			must(t, r.Role())
			must(t, r.End(200, false))
		}, want: &hubv1.DispatchFailed{Retryable: true, Code: "upstream_error",
			Message: "the engine's answer was cut off: "}},
		"cut whole": {whole: true, do: func(t *testing.T, r *fakeagent.Request) {
			must(t, r.Data([]byte(`{"id":`)))
			must(t, r.End(200, false))
		}, want: &hubv1.DispatchFailed{Retryable: true, Code: "upstream_error",
			Message: "the engine's answer was cut off: "}},
		"first content too late": {change: func(o *hubv1.DispatchOpen) { o.FirstContentTimeoutMs = 1000 },
			do: func(t *testing.T, r *fakeagent.Request) {
				wait(t, "the cancel", r.Cancelled())
				must(t, r.End(0, false))
			}, want: &hubv1.DispatchFailed{Retryable: true, Code: "timeout", Message: "no content in time"}},
		"whole answer too late": {whole: true, change: func(o *hubv1.DispatchOpen) {
			o.TotalTimeoutMs = 1000
			o.FirstContentTimeoutMs = 10
		}, do: func(t *testing.T, r *fakeagent.Request) {
			wait(t, "the cancel", r.Cancelled())
			must(t, r.End(0, false))
		}, want: &hubv1.DispatchFailed{Retryable: true, Code: "timeout"}},
		"events without content for ever": {do: func(t *testing.T, r *fakeagent.Request) {
			for r.Role() == nil {
				select {
				case <-r.Cancelled():
					return
				default:
				}
			}
		}, want: &hubv1.DispatchFailed{Retryable: true, Code: "upstream_error",
			Message: "the engine sends events without content"}},
	} {
		t.Run(name, func(t *testing.T) {
			open := order(m, a, !c.whole)
			if c.change != nil {
				c.change(open)
			}
			call := w.call(open)
			go c.do(t, received(t, a))
			r := call.rest()
			if len(r.events) != 0 || r.failed == nil || r.failed.GetRetryable() != c.want.GetRetryable() ||
				r.failed.GetCode() != c.want.GetCode() ||
				r.failed.GetEngineStatus() != c.want.GetEngineStatus() || r.failed.GetBusy() != c.want.GetBusy() ||
				r.failed.GetEngineType() != c.want.GetEngineType() || r.failed.GetEngineCode() != c.want.GetEngineCode() ||
				c.want.GetMessage() != "" && r.failed.GetMessage() != c.want.GetMessage() {
				t.Errorf("%d events, finished %v\n got %v\nwant %v", len(r.events), r.finished, r.failed, c.want)
			}
		})
	}
	call := w.call(order(m, a, true))
	go fakeagent.Answer("x")(received(t, a))
	call.rest()
	if usage.next(1); usage.count() != 1 {
		t.Errorf("usage events for one served request: got %d, want 1", usage.count())
	}
}

func TestProviderLostBeforeContentIsRetryable(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	call := w.call(order(m, a, true))
	r := received(t, a)
	must(t, r.Role())
	a.Kill()
	if end := call.rest(); !end.failed.GetRetryable() {
		t.Errorf("end.failed.GetRetryable(): got false, want true, with %v", end.failed)
	} else if len(end.events) != 0 {
		t.Errorf("len(end.events): got %d, want 0", len(end.events))
	}
}

func TestAnswerWithNothingToSayIsServedAndCostsNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	usage := w.listen()
	m := w.active()
	a := w.dial(m, fakeagent.Options{Handler: fakeagent.Answer()})
	r := w.call(order(m, a, true)).rest()
	switch {
	case r.finished == nil:
		t.Fatal("r.finished: got nil, want a value")
	case len(r.events) != 2:
		t.Fatalf("len(r.events): got %d, want 2", len(r.events))
	case !r.events[1].GetFirstContent():
		t.Fatal("r.events[1].GetFirstContent(): got false, want true")
	}
	if e := usage.next(1); e.GetBillablePromptTokens() != 0 {
		t.Errorf("usage: e.GetBillablePromptTokens(): got %d, want 0", e.GetBillablePromptTokens())
	} else if e.GetBillableCompletionTokens() != 0 {
		t.Errorf("usage: e.GetBillableCompletionTokens(): got %d, want 0", e.GetBillableCompletionTokens())
	}
}

// TestHostile34 sends every kind of broken usage: the hub's count stands in.
func TestHostile34_BrokenUsageIsCountedByTheHub(t *testing.T) {
	t.Parallel()
	w := setup(t)
	usage := w.listen()
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	for i, broken := range []string{
		`{"prompt_tokens":-1,"completion_tokens":2,"total_tokens":1}`,
		`{"prompt_tokens":10,"completion_tokens":-2,"total_tokens":8}`,
		`{"prompt_tokens":10,"completion_tokens":2.5,"total_tokens":12.5}`,
		`{"prompt_tokens":"10","completion_tokens":"2","total_tokens":"12"}`,
		`{"prompt_tokens":10,"completion_tokens":18446744073709551616,"total_tokens":1}`,
		`{"prompt_tokens":10,"completion_tokens":1000000,"total_tokens":1000010}`,
		`{"prompt_tokens":10,"completion_tokens":2,"completion_tokens":3,"total_tokens":12}`,
		`"NaN"`, `[]`, `NaN`, `{"prompt_tokens":NaN}`,
	} {
		call := w.call(order(m, a, true))
		r := received(t, a)
		twoWords(t, r)
		must(t, r.Finish("stop"))
		must(t, r.Event(`{"choices":[],"usage":`+broken+`}`))
		must(t, r.Done())
		must(t, r.End(200, true))
		if end := call.rest(); end.finished == nil {
			t.Fatalf("%s: %v", broken, end.failed)
		}
		e := usage.next(i + 1)
		switch {
		case e.GetClaimState() != eventsv1.ClaimState_CLAIM_STATE_ABSURD:
			t.Errorf("%s: usage: e.GetClaimState(): got %v, want %v", broken, e.GetClaimState(),
				eventsv1.ClaimState_CLAIM_STATE_ABSURD)
		case e.GetBillablePromptTokens() != 12:
			t.Errorf("%s: usage: e.GetBillablePromptTokens(): got %d, want 12", broken, e.GetBillablePromptTokens())
		case e.GetBillableCompletionTokens() != e.GetRecountedCompletionTokens():
			t.Errorf("%s: usage: e.GetBillableCompletionTokens(): got %d, want %d", broken, e.GetBillableCompletionTokens(),
				e.GetRecountedCompletionTokens())
		case e.GetBillableCompletionTokens() == 0:
			t.Errorf("%s: usage: e.GetBillableCompletionTokens(): got 0, want any but 0", broken)
		}
	}
	// Two final usages that differ are worth no more.
	call := w.call(order(m, a, true))
	r := received(t, a)
	twoWords(t, r)
	must(t, r.Finish("stop"))
	must(t, r.Usage(10, 2))
	must(t, r.Usage(10, 3))
	must(t, r.Done())
	must(t, r.End(200, true))
	call.rest()
	if e := usage.next(12); e.GetClaimState() != eventsv1.ClaimState_CLAIM_STATE_ABSURD {
		t.Errorf("usage: got %v, want %v", e.GetClaimState(), eventsv1.ClaimState_CLAIM_STATE_ABSURD)
	}
}

func TestHostile37_StreamThatNeverEndsRunsIntoALimit(t *testing.T) {
	t.Run("content for ever: the wall", func(t *testing.T) {
		w := setup(t)
		usage := w.listen()
		m := w.active()
		a := w.dial(m, fakeagent.Options{})
		open := order(m, a, true)
		open.TotalTimeoutMs = wallMs   // of which the first words take next to nothing
		open.MaxOutputTokens = 1 << 20 // else the bound ends it
		call := w.call(open)
		r := received(t, a)
		go func() {
			for r.Text("on and on ") == nil {
				select {
				case <-r.Cancelled():
					_ = r.End(0, false)
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
		}()
		if end := call.rest(); end.failed.GetCode() != "timeout" {
			t.Errorf(`end.failed.GetCode(): got %q, want "timeout"`, end.failed.GetCode())
		} else if end.failed.GetRetryable() {
			t.Errorf("end.failed.GetRetryable(): got true, want false, with %v", end.failed)
		}
		if e := usage.next(1); e.GetEnding() != eventsv1.Ending_ENDING_WALL_LIMIT {
			t.Errorf("usage: e.GetEnding(): got %v, want %v", e.GetEnding(), eventsv1.Ending_ENDING_WALL_LIMIT)
		} else if e.GetBillableCompletionTokens() < 5 {
			t.Errorf("usage: e.GetBillableCompletionTokens(): got %d, want at least 5", e.GetBillableCompletionTokens())
		}
	})
	t.Run("content for ever: the bound", func(t *testing.T) {
		w := setup(t)
		usage := w.listen()
		m := w.active()
		a := w.dial(m, fakeagent.Options{})
		open := order(m, a, true)
		open.MaxOutputTokens = 5
		call := w.call(open)
		r := received(t, a)
		go func() {
			for {
				select {
				case <-r.Cancelled():
					_ = r.End(0, false)
					return
				default:
					_ = r.Text("on and on ")
				}
			}
		}()
		if end := call.rest(); end.finished.GetBillableCompletionTokens() != 5 {
			t.Errorf("finished %v, failed %v, want an answer that is billed at its bound", end.finished, end.failed)
		}
		if e := usage.next(1); e.GetEnding() != eventsv1.Ending_ENDING_COMPLETED || e.GetBillableCompletionTokens() != 5 {
			t.Errorf("got usage %v, want 5 tokens of a finished answer", e)
		}
	})
	t.Run("empty deltas for ever after content", func(t *testing.T) {
		w := setup(t, func(c *hubConfig) { c.ContentTimeout = 3 * time.Second })
		usage := w.listen()
		m := w.active()
		a := w.dial(m, fakeagent.Options{})
		call := w.call(order(m, a, true))
		r := received(t, a)
		twoWords(t, r)
		call.content()
		go func() {
			for r.Role() == nil {
				select {
				case <-r.Cancelled():
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		}()
		end := call.rest()
		if end.failed.GetRetryable() {
			t.Errorf("end.failed.GetRetryable(): got true, want false, with %v", end.failed)
		} else if !strings.Contains(end.failed.GetMessage(), "stopped") {
			t.Errorf(`end.failed.GetMessage(): got %q, want "stopped" in it`, end.failed.GetMessage())
		}
		if e := usage.next(1); e.GetEnding() != eventsv1.Ending_ENDING_PROVIDER_LOST {
			t.Errorf("usage: e.GetEnding(): got %v, want %v", e.GetEnding(), eventsv1.Ending_ENDING_PROVIDER_LOST)
		} else if e.GetDeliveredBytes() != 11 {
			t.Errorf("usage: e.GetDeliveredBytes(): got %d, want 11", e.GetDeliveredBytes())
		}
	})
}
