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
	if r.failed != nil || r.finished.GetBillablePromptTokens() != 10 || r.finished.GetBillableCompletionTokens() != 3 {
		t.Fatalf("finished %v, failed %v", r.finished, r.failed)
	}
	if len(r.events) != 5 { // role, three pieces, finish; no usage
		t.Fatalf("%d events: %q", len(r.events), r.texts())
	}
	for i, e := range r.events {
		text := string(e.GetJson())
		if !strings.Contains(text, `"model":"`+testModel+`"`) || strings.Contains(text, "usage") ||
			e.GetFirstContent() != (i == 1) {
			t.Errorf("event %d: first=%v %s", i, e.GetFirstContent(), text)
		}
	}
	if last := r.events[4].GetCompletionTokens(); last < 3 {
		t.Errorf("running count %d after three words", last)
	}
	e := usage.next(1)
	if e.GetRequestId() != open.GetRequestId() || e.GetEnding() != eventsv1.Ending_ENDING_COMPLETED ||
		e.GetBillableCompletionTokens() != 3 ||
		e.GetBillablePromptTokens() != 10 || e.GetEpoch() != a.Epoch() ||
		e.GetRates().GetPayoutOutputPicoUsdPerToken() != 3 ||
		e.GetClaimState() != eventsv1.ClaimState_CLAIM_STATE_VALID || e.GetHubId() != testHub || e.GetDeliveredBytes() != 16 {
		t.Errorf("usage event %v", e)
	}
	if usage.ids[0] != open.GetRequestId() {
		t.Errorf("message id %q", usage.ids[0])
	}
}

func TestWholeAnswerIsOneEventAndKeepsItsUsage(t *testing.T) {
	t.Parallel()
	w := setup(t)
	usage := w.listen()
	m := w.active()
	a := w.dial(m, fakeagent.Options{Handler: fakeagent.Answer("Hello", " world")})
	r := w.call(order(m, a, false)).rest()
	if len(r.events) != 1 || !r.events[0].GetFirstContent() || r.finished == nil {
		t.Fatalf("%d events, finished %v, failed %v", len(r.events), r.finished, r.failed)
	}
	want := `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"` + testModel + `","choices":[` +
		`{"index":0,"message":{"role":"assistant","content":"Hello world"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}`
	if got := r.texts()[0]; got != want {
		t.Errorf("answer\n%s\nwant\n%s", got, want)
	}
	if e := usage.next(1); e.GetBillableCompletionTokens() != 2 {
		t.Errorf("usage event %v", e)
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
		r := <-a.Requests()
		if string(r.Body) != string(open.GetBody()) || int(r.Open.GetBodyLength()) != len(open.GetBody()) ||
			r.Open.GetModelOffset() != 9 || r.Open.GetRequestId() != open.GetRequestId() || r.Open.GetTimeoutMs() != 120_000 {
			t.Errorf("size %d: open %v, body of %d", size, r.Open, len(r.Body))
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
	if n := len(r.events); n != 4 || !strings.Contains(r.texts()[3], `"usage":{"prompt_tokens":10`) {
		t.Errorf("events %q", r.texts())
	}
}

func TestUncommittedAnswerLeavesNothingToBill(t *testing.T) {
	t.Parallel()
	w := setup(t)
	usage := w.listen()
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	c := w.call(order(m, a, true))
	r := <-a.Requests()
	must(t, r.Text("Hello"))
	c.event()
	c.cancel() // without a commit
	wait(t, "the cancel", r.Cancelled())
	must(t, r.End(0, false))
	// A second, committed request shows that the first was passed over.
	c = w.call(order(m, a, true))
	go fakeagent.Answer("x")(<-a.Requests())
	if end := c.rest(); end.finished == nil {
		t.Fatal(end.failed)
	}
	if e := usage.next(1); usage.count() != 1 || e.GetEnding() != eventsv1.Ending_ENDING_COMPLETED {
		t.Errorf("%d usage events, first %v", usage.count(), e)
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
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	first := w.call(order(m, a, true))
	r := <-a.Requests()
	if err := w.call(order(m, a, true)).err(); !fault.Is(err, fault.ProviderBusy) {
		t.Errorf("beyond the capacity: %v", err)
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
	r := <-a.Requests()
	if err := w.call(open).err(); !fault.Is(err, fault.InvalidRequest) {
		t.Errorf("second dispatch: %v", err)
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
	r := <-a.Requests()
	must(t, r.Data(piece("one", "two", "three")))
	must(t, r.Data(append(piece("four", "five"), `data: {"error":{"message":"out of memory"}}`+"\n\n"...)))
	var got []string
	for _, want := range []string{"one", "two", "three", "four", "five"} {
		e := c.event()
		if e.GetFirstContent() {
			c.commit()
		}
		if !strings.Contains(string(e.GetJson()), `"`+want+`"`) {
			t.Errorf("%s instead of %q", e.GetJson(), want)
		}
		if e.GetMore() {
			got = append(got, want)
		}
	}
	// Two frames may be taken as one piece, and then three is followed, too.
	if marked := strings.Join(got, " "); marked != "one two four" && marked != "one two three four" {
		t.Errorf("more follows after %q", marked)
	}
	if rest := c.rest(); rest.failed == nil || len(rest.events) != 0 {
		t.Errorf("the rest is %+v", rest)
	}
}
