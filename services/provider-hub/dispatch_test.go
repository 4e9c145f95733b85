package providerhub_test

import (
	"fmt"
	"strings"
	"testing"

	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/fault"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

func TestStreamIsRelayedMeteredAndPublished(t *testing.T) {
	t.Parallel()
	w := setup(t)
	usage := w.listen()
	m := w.active()
	a := w.dial(m, fakeagent.Options{Handler: fakeagent.Answer("Hello", " wide", " world")})
	open := order(m, a, true)
	r := w.call(open).rest()
	switch {
	case r.failed != nil:
		t.Fatalf("r.failed: got %v, want nil", r.failed)
	case r.finished.GetBillablePromptTokens() != 10:
		t.Fatalf("r.finished.GetBillablePromptTokens(): got %d, want 10", r.finished.GetBillablePromptTokens())
	case r.finished.GetBillableCompletionTokens() != 3:
		t.Fatalf("r.finished.GetBillableCompletionTokens(): got %d, want 3", r.finished.GetBillableCompletionTokens())
	}
	if len(r.events) != 5 { // role, three pieces, finish; no usage
		t.Fatalf("len(r.events): got %d, want 5", len(r.events))
	}
	for i, e := range r.events {
		text := string(e.GetJson())
		switch {
		case !strings.Contains(text, `"model":"`+testModel+`"`):
			t.Errorf("event %d: text: got %q, want %q in it", i, text, `"model":"`+testModel+`"`)
		case strings.Contains(text, "usage"):
			t.Errorf(`event %d: text: got %q, want it without "usage"`, i, text)
		case e.GetFirstContent() != (i == 1):
			t.Errorf("event %d: first: got %t, want %t", i, e.GetFirstContent(), i == 1)
		case (e.GetProviderUs() > 0) != (i == 1):
			t.Errorf("event %d: the provider's time: got %d us, want one of the first content alone", i, e.GetProviderUs())
		}
	}
	if last := r.events[4].GetCompletionTokens(); last < 3 {
		t.Errorf("the running count after three words: got %d, want at least 3", last)
	}
	e := usage.next(1)
	if e.GetRequestId() != open.GetRequestId() {
		t.Errorf("usage event: e.GetRequestId(): got %q, want %q", e.GetRequestId(), open.GetRequestId())
	} else if e.GetEnding() != eventsv1.Ending_ENDING_COMPLETED {
		t.Errorf("usage event: e.GetEnding(): got %v, want %v", e.GetEnding(), eventsv1.Ending_ENDING_COMPLETED)
	} else if e.GetBillableCompletionTokens() != 3 {
		t.Errorf("usage event: e.GetBillableCompletionTokens(): got %d, want 3", e.GetBillableCompletionTokens())
	} else if e.GetBillablePromptTokens() != 10 {
		t.Errorf("usage event: e.GetBillablePromptTokens(): got %d, want 10", e.GetBillablePromptTokens())
	} else if want := a.Epoch(); e.GetEpoch() != want {
		t.Errorf("usage event: e.GetEpoch(): got %d, want %d", e.GetEpoch(), want)
	} else if e.GetRates().GetPayoutOutputPicoUsdPerToken() != 3 {
		t.Errorf("usage event: e.GetRates().GetPayoutOutputPicoUsdPerToken(): got %d, want 3",
			e.GetRates().GetPayoutOutputPicoUsdPerToken())
	} else if e.GetClaimState() != eventsv1.ClaimState_CLAIM_STATE_VALID {
		t.Errorf("usage event: e.GetClaimState(): got %v, want %v", e.GetClaimState(), eventsv1.ClaimState_CLAIM_STATE_VALID)
	} else if e.GetHubId() != testHub {
		t.Errorf("usage event: e.GetHubId(): got %q, want %q", e.GetHubId(), testHub)
	} else if e.GetDeliveredBytes() != 16 {
		t.Errorf("usage event: e.GetDeliveredBytes(): got %d, want 16", e.GetDeliveredBytes())
	}
	if usage.ids[0] != open.GetRequestId() {
		t.Errorf("message id: got %q, want %q", usage.ids[0], open.GetRequestId())
	}
}

func TestWholeAnswerIsOneEventAndKeepsItsUsage(t *testing.T) {
	t.Parallel()
	w := setup(t)
	usage := w.listen()
	m := w.active()
	a := w.dial(m, fakeagent.Options{Handler: fakeagent.Answer("Hello", " world")})
	r := w.call(order(m, a, false)).rest()
	switch {
	case len(r.events) != 1:
		t.Fatalf("%d events, finished %v, failed %v: len(r.events): got %d, want 1", len(r.events), r.finished, r.failed,
			len(r.events))
	case !r.events[0].GetFirstContent():
		t.Fatalf("%d events, finished %v, failed %v: r.events[0].GetFirstContent(): got false, want true", len(r.events),
			r.finished, r.failed)
	case r.finished == nil:
		t.Fatalf("%d events, finished %v, failed %v: r.finished: got nil, want a value", len(r.events), r.finished, r.failed)
	}
	want := `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"` + testModel + `","choices":[` +
		`{"index":0,"message":{"role":"assistant","content":"Hello world"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}`
	if got := r.texts()[0]; got != want {
		t.Errorf("answer\n%s\nwant\n%s", got, want)
	}
	if e := usage.next(1); e.GetBillableCompletionTokens() != 2 {
		t.Errorf("usage event: got %d, want 2", e.GetBillableCompletionTokens())
	}
}

func TestAgentGetsTheBodyAsItIsWhateverItsSize(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	for _, size := range []int{1, 16 << 10, 16<<10 + 1, 300 << 10, 9 << 20} {
		open := order(m, a, true)
		open.Body = []byte(`{"model":"` + testModel + `","x":"` + strings.Repeat("x", size) + `"}`)
		c := w.call(open)
		r := received(t, a)
		switch {
		case string(r.Body) != string(open.GetBody()):
			t.Errorf("size %d: r.Body: got %q, want %q", size, string(r.Body), string(open.GetBody()))
		case int(r.Open.GetBodyLength()) != len(open.GetBody()):
			t.Errorf("size %d: open: r.Open.GetBodyLength(): got %d, want %d", size, int(r.Open.GetBodyLength()),
				len(open.GetBody()))
		case r.Open.GetModelOffset() != 9:
			t.Errorf("size %d: open: r.Open.GetModelOffset(): got %d, want 9", size, r.Open.GetModelOffset())
		case r.Open.GetRequestId() != open.GetRequestId():
			t.Errorf("size %d: open: r.Open.GetRequestId(): got %q, want %q", size, r.Open.GetRequestId(), open.GetRequestId())
		case r.Open.GetTimeoutMs() != 120_000:
			t.Errorf("size %d: open: r.Open.GetTimeoutMs(): got %d, want 120_000", size, r.Open.GetTimeoutMs())
		}
		go fakeagent.Answer("ok")(r)
		if end := c.rest(); end.finished == nil {
			t.Fatalf("size %d: %v", size, end.failed)
		}
	}
}

func TestUsageIsRelayedOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{Handler: fakeagent.Answer("Hello")})
	open := order(m, a, true)
	open.IncludeUsage = true
	r := w.call(open).rest()
	if n := len(r.events); n != 4 {
		t.Errorf("len(r.events): got %d, want 4", n)
	} else if !strings.Contains(r.texts()[3], `"usage":{"prompt_tokens":10`) {
		t.Errorf("events: r.texts()[3]: got %q, want %q in it", r.texts()[3], `"usage":{"prompt_tokens":10`)
	}
}

func TestUncommittedAnswerLeavesNothingToBill(t *testing.T) {
	t.Parallel()
	w := setup(t)
	usage := w.listen()
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	c := w.call(order(m, a, true))
	r := received(t, a)
	must(t, r.Text("Hello"))
	c.event()
	c.cancel() // without a commit
	wait(t, "the cancel", r.Cancelled())
	must(t, r.End(0, false))
	// A second, committed request shows that the first was passed over.
	c = w.call(order(m, a, true))
	go fakeagent.Answer("x")(received(t, a))
	if end := c.rest(); end.finished == nil {
		t.Fatal(end.failed)
	}
	if e := usage.next(1); usage.count() != 1 {
		t.Errorf("%d usage events, first %v: usage.count(): got %d, want 1", usage.count(), e, usage.count())
	} else if e.GetEnding() != eventsv1.Ending_ENDING_COMPLETED {
		t.Errorf("%d usage events, first %v: e.GetEnding(): got %v, want %v", usage.count(), e, e.GetEnding(),
			eventsv1.Ending_ENDING_COMPLETED)
	}
}

func TestRefusedOpens(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{Capacity: 1})
	for name, c := range map[string]struct {
		change func(*hubv1.DispatchOpen)
		want   fault.Reason
	}{
		"another epoch":    {func(o *hubv1.DispatchOpen) { o.Epoch++ }, fault.SessionGone},
		"another node":     {func(o *hubv1.DispatchOpen) { o.NodeId = "other-node" }, fault.SessionGone},
		"another model":    {func(o *hubv1.DispatchOpen) { o.ModelId = "acme/other" }, fault.SessionGone},
		"no request id":    {func(o *hubv1.DispatchOpen) { o.RequestId = "x" }, fault.InvalidRequest},
		"no attempt":       {func(o *hubv1.DispatchOpen) { o.Attempt = 0 }, fault.InvalidRequest},
		"no body":          {func(o *hubv1.DispatchOpen) { o.Body = nil }, fault.InvalidRequest},
		"model beyond it":  {func(o *hubv1.DispatchOpen) { o.ModelOffset = 1 << 31 }, fault.InvalidRequest},
		"no max output":    {func(o *hubv1.DispatchOpen) { o.MaxOutputTokens = 0 }, fault.InvalidRequest},
		"no choices":       {func(o *hubv1.DispatchOpen) { o.Choices = 0 }, fault.InvalidRequest},
		"negative timeout": {func(o *hubv1.DispatchOpen) { o.TotalTimeoutMs = -5 }, fault.InvalidRequest},
	} {
		open := order(m, a, true)
		c.change(open)
		if err := w.call(open).err(); !fault.Is(err, c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
	first := w.call(order(m, a, true))
	r := received(t, a)
	if err := w.call(order(m, a, true)).err(); !fault.Is(err, fault.ProviderBusy) {
		t.Errorf("beyond the capacity: got the error %v, want the reason %v", err, fault.ProviderBusy)
	}
	go fakeagent.Answer("x")(r)
	first.rest()
	w.eventually("the slot is free", func() error {
		second := w.call(order(m, a, true))
		go func() { fakeagent.Answer("x")(<-a.Requests()) }()
		m, err := second.stream.Recv()
		if err == nil && m.GetEvent() == nil {
			t.Errorf("got %v", m)
		}
		return err
	})
}

func TestSameAttemptTwiceIsRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	open := order(m, a, true)
	c := w.call(open)
	r := received(t, a)
	if err := w.call(open).err(); !fault.Is(err, fault.InvalidRequest) {
		t.Errorf("second dispatch: got the error %v, want the reason %v", err, fault.InvalidRequest)
	}
	go fakeagent.Answer("x")(r)
	c.rest()
}

// Events that arrive in one piece are marked, all but the last, so that the
// gateway writes them at once; nothing is held back for what is no event.
func TestEventsOfOnePieceSayThatMoreFollow(t *testing.T) {
	t.Parallel()
	const text = `{"choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`
	piece := func(words ...string) []byte {
		var data []byte
		for _, word := range words {
			data = fmt.Appendf(data, "data: "+text+"\n\n", word)
		}
		return data
	}
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	c := w.call(order(m, a, true))
	r := received(t, a)
	must(t, r.Data(piece("one", "two", "three")))
	must(t, r.Data(append(piece("four", "five"), `data: {"error":{"message":"out of memory"}}`+"\n\n"...)))
	var got []string
	for _, want := range []string{"one", "two", "three", "four", "five"} {
		e := c.event()
		if e.GetFirstContent() {
			c.commit()
		}
		if !strings.Contains(string(e.GetJson()), `"`+want+`"`) {
			t.Errorf("instead of %q: got %q, want %q in it, with %q", want, string(e.GetJson()), `"`+want+`"`, want)
		}
		if e.GetMore() {
			got = append(got, want)
		}
	}
	// Two frames may be taken as one piece, and then three is followed, too.
	if marked := strings.Join(got, " "); marked != "one two four" && marked != "one two three four" {
		t.Errorf("more follows after %q", marked)
	}
	if rest := c.rest(); rest.failed == nil {
		t.Error("rest.failed: got nil, want a value")
	} else if len(rest.events) != 0 {
		t.Errorf("len(rest.events): got %d, want 0, in %+v", len(rest.events), rest)
	}
}
