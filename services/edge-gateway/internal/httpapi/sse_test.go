package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fault"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/inference"
	"svc.internal/services/edge-gateway/internal/rewrite"
)

// sinkTo is a handler and an exchange whose answer a recorder takes.
func sinkTo() (*Handler, *exchange, *httptest.ResponseRecorder) {
	w := httptest.NewRecorder()
	h := &Handler{cfg: Config{AnswerTimeout: time.Minute}}
	return h, &exchange{id: "req-1", w: w, control: http.NewResponseController(w)}, w
}

// provider is who serves.
func provider(id string) inference.Served {
	return inference.Served{Candidate: &routerv1.Candidate{ProviderId: id}, Attempts: 1}
}

func event(json string) rewrite.Event { return rewrite.Event{JSON: []byte(json)} }

func brokenOff() error { return fault.New(fault.Unavailable, apierror.UpstreamError, "It broke off.") }

func brokenOffAnswer() apierror.Answer { return apierror.Of(brokenOff()) }

func clientGone() error { return fault.New(fault.Canceled, fault.ClientClosed, "The client is gone.") }

// brokenOffEvent is how a stream tells brokenOff.
const brokenOffEvent = `data: {"error":{"message":"It broke off.","type":"server_error","param":null,` +
	`"code":"upstream_error"},"request_id":"req-2"}` + "\n\n"

func wantBody(t *testing.T, w *httptest.ResponseRecorder, want string) {
	t.Helper()
	if got := w.Body.String(); got != want {
		t.Errorf("the client reads: got %q, want %q", got, want)
	}
}

func TestEventNamesAreWrittenWhenTheyAreNames(t *testing.T) {
	long := strings.Repeat("x", 64)
	for name, want := range map[string]string{
		"image_generation.completed": "event: image_generation.completed\ndata: {}\n\n",
		"":                           "data: {}\n\n",
		"a\nb":                       "data: {}\n\n",
		"a b":                        "data: {}\n\n",
		"é":                          "data: {}\n\n",
		long:                         "event: " + long + "\ndata: {}\n\n",
		long + "x":                   "data: {}\n\n",
	} {
		if got := string(appendEvent(nil, rewrite.Event{Name: name, JSON: []byte("{}")})); got != want {
			t.Errorf("an event called %q is framed: got %q, want %q", name, got, want)
		}
	}
}

func TestAnEventIsOneLine(t *testing.T) {
	const want = "data: {  \"a\": 1 }\n\n"
	if got := string(appendEvent(nil, event("{\r\n\"a\": 1\n}"))); got != want {
		t.Errorf("an event is framed: got %q, want %q", got, want)
	}
}

func TestOnlyAStreamOfACompletionEndsWithDone(t *testing.T) {
	for kind, want := range map[rewrite.Kind]string{
		rewrite.Chat:       "data: {}\n\ndata: [DONE]\n\n",
		rewrite.Completion: "data: {}\n\ndata: [DONE]\n\n",
		rewrite.Images:     "data: {}\n\n",
		rewrite.Transcript: "data: {}\n\n",
	} {
		h, x, w := sinkTo()
		s := h.newSSESink(x, kind)
		s.Commit(provider("p"))
		s.Event(event("{}"))
		if err := s.Whole(inference.Whole{}); err != nil {
			t.Fatal(err)
		}
		wantBody(t, w, want)
	}
}

func TestAStreamBeginsWithWhoServes(t *testing.T) {
	h, x, w := sinkTo()
	s := h.newSSESink(x, rewrite.Chat)
	if s.Begun() {
		t.Error("the answer has begun before its commit")
	}
	by := provider("p")
	by.FirstContent = 7 * time.Millisecond
	s.Commit(by)
	if !s.Begun() {
		t.Error("the answer has not begun with its commit")
	}
	for name, want := range map[string]string{
		"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no",
		"X-Svc-Provider-Id": "p", "X-Svc-Attempts": "1", "X-Svc-Latency-Ms": "7",
	} {
		if got := w.Result().Header.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

func TestAnErrorIsTheLastEventOfAStream(t *testing.T) {
	h, x, w := sinkTo()
	s := h.newSSESink(x, rewrite.Chat)
	s.Commit(provider("p"))
	s.Event(event("{}"))
	s.Fail(inference.Failure{Err: brokenOff(), RequestID: "req-2", Attempts: 2})
	wantBody(t, w, "data: {}\n\n"+brokenOffEvent)
	if got := x.Header().Get("X-Svc-Attempts"); got != "1" {
		t.Errorf("X-Svc-Attempts: got %q once headers are sent, want 1", got)
	}
}

func TestWhatNobodyPaysForIsNotSent(t *testing.T) {
	h, x, w := sinkTo()
	s := h.newSSESink(x, rewrite.Chat)
	s.Commit(provider("p"))
	s.Event(event("{}"))
	if left, err := s.KeepAlive(time.Second, false); left != 0 {
		t.Errorf("until the next keep-alive: got %v, want 0", left)
	} else if err != nil {
		t.Errorf("got the error %v, want none", err)
	}
	wantBody(t, w, "")
	s.Fail(inference.Failure{Err: brokenOff(), RequestID: "req-2", Unpaid: true})
	wantBody(t, w, brokenOffEvent)
}

func TestAnAnswerThatHasNotBegunIsLeftToTheCaller(t *testing.T) {
	refused := provider("p")
	for name, sink := range map[string]func(*Handler, *exchange) inference.Sink{
		"stream": func(h *Handler, x *exchange) inference.Sink { return h.newSSESink(x, rewrite.Chat) },
		"whole": func(h *Handler, x *exchange) inference.Sink {
			return &wholeSink{exchange: x, out: newPacedWriter(x, x.control, h.cfg.AnswerTimeout)}
		},
	} {
		h, x, w := sinkTo()
		s := sink(h, x)
		s.Fail(inference.Failure{Err: brokenOff(), Attempts: 3, Refused: &refused})
		if s.Begun() {
			t.Errorf("%s: the answer has begun", name)
		}
		wantBody(t, w, "")
		if got := x.Header().Get("X-Svc-Attempts"); got != "3" {
			t.Errorf("%s: X-Svc-Attempts: got %q, want 3", name, got)
		}
		if got := x.Header().Get("X-Svc-Provider-Id"); got != "p" {
			t.Errorf("%s: X-Svc-Provider-Id: got %q, want that of the provider that refused", name, got)
		}
	}
}

func TestAClientThatHasLeftIsSentNothing(t *testing.T) {
	h, x, w := sinkTo()
	s := h.newSSESink(x, rewrite.Chat)
	s.Commit(provider("p"))
	s.Event(event("{}"))
	s.Fail(inference.Failure{Err: clientGone()})
	wantBody(t, w, "")
}

func TestAKeepAliveTakesWhatWaitsAlong(t *testing.T) {
	h, x, w := sinkTo()
	s := h.newSSESink(x, rewrite.Chat)
	if left, err := s.KeepAlive(time.Hour, true); left != 0 {
		t.Errorf("the first keep-alive: got %v, want 0", left)
	} else if err != nil {
		t.Errorf("got the error %v, want none", err)
	}
	wantBody(t, w, ": keep-alive\n\n")
	s.Event(event("{}"))
	if left, err := s.KeepAlive(time.Hour, true); left <= 0 {
		t.Errorf("a keep-alive right behind a write: got %v, want more than 0", left)
	} else if err != nil {
		t.Errorf("got the error %v, want none", err)
	}
	wantBody(t, w, ": keep-alive\n\n")
	if _, err := s.KeepAlive(0, true); err != nil {
		t.Fatal(err)
	}
	wantBody(t, w, ": keep-alive\n\ndata: {}\n\n: keep-alive\n\n")
}

func TestTheFirstKeepAliveOfTheNextModelWaitsForNoWrite(t *testing.T) {
	h, x, w := sinkTo()
	x.request = httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
	s := h.newSSESink(x, rewrite.Chat)
	if _, err := s.KeepAlive(time.Hour, true); err != nil {
		t.Fatal(err)
	}
	s.Advance("req-2", &catalog.Model{ID: "m"})
	if left, err := s.KeepAlive(time.Hour, true); left != 0 {
		t.Errorf("the first keep-alive of a model: got %v, want 0", left)
	} else if err != nil {
		t.Errorf("got the error %v, want none", err)
	}
	wantBody(t, w, ": keep-alive\n\n: keep-alive\n\n")
}

// deadlines takes an answer, and notes the deadlines of its connection.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

func TestTheWriteDeadlineIsRenewedBetweenModels(t *testing.T) {
	for name, sink := range map[string]func(*Handler, *exchange) inference.Client{
		"stream": func(h *Handler, x *exchange) inference.Client { return h.newSSESink(x, rewrite.Chat) },
		"whole": func(h *Handler, x *exchange) inference.Client {
			return &wholeSink{exchange: x, out: newPacedWriter(x, x.control, h.cfg.AnswerTimeout)}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			h, x, w := sinkTo()
			x.request = httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
			d := &deadlines{ResponseRecorder: w}
			x.control = http.NewResponseController(d)
			s := sink(h, x)
			for range 2 {
				<-time.After(h.cfg.AnswerTimeout / 2)
				s.Advance("req-2", &catalog.Model{ID: "m"})
				want := time.Now().Add(h.cfg.AnswerTimeout)
				if len(d.set) == 0 || !d.set[len(d.set)-1].Equal(want) {
					t.Errorf("%s: got the write deadlines %v, want %v as the last", name, d.set, want)
				}
			}
		})
	}
}

// nowhere takes an answer and keeps nothing of it.
type nowhere http.Header

func (n nowhere) Header() http.Header       { return http.Header(n) }
func (nowhere) WriteHeader(int)             {}
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Flush()                      {}

func TestAnEventOfAStreamAllocatesNothing(t *testing.T) {
	h, x, _ := sinkTo()
	x.w = nowhere{}
	x.control = http.NewResponseController(x.w)
	s := h.newSSESink(x, rewrite.Chat)
	s.Commit(provider("p"))
	e := event(`{"choices":[{"delta":{"content":"Hello"}}]}`)
	if n := testing.AllocsPerRun(100, func() {
		s.Event(e)
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("an event allocates: got %g times, want 0", n)
	}
}
