package dispatch

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

// deafAgent is a session that cannot be cancelled: it says a piece, and at last
// how it ended, if it ever does.
type deafAgent struct {
	asked session.Request
	piece string
	end   *session.End
	lost  error
	ready chan struct{}

	cancelled, closed bool
}

func (s *deafAgent) Open(r session.Request) (Stream, error) {
	s.asked = r
	s.ready = make(chan struct{}, 1)
	s.ready <- struct{}{}
	return s, nil
}

func (s *deafAgent) Ready() <-chan struct{} { return s.ready }
func (s *deafAgent) Release(int, []byte)    {}
func (s *deafAgent) EngineModel() string    { return "" }
func (s *deafAgent) Probe()                 {}
func (s *deafAgent) Cancel()                { s.cancelled = true }
func (s *deafAgent) Close(bool)             { s.closed = true }

func (s *deafAgent) Take() ([]byte, *session.End, error) {
	piece := s.piece
	s.piece = ""
	return []byte(piece), s.end, s.lost
}

// put serves an order on it.
func (s *deafAgent) put(
	t *testing.T, longest time.Duration, stream bool, caller func(*listener) Caller,
) (*listener, *Usage, Report) {
	t.Helper()
	return s.serve(t, longest, orderOf(meter.Chat, stream, false), caller)
}

// putOrder serves an order of a stream that change makes another.
func (s *deafAgent) putOrder(t *testing.T, change func(*Order)) (*listener, *Usage, Report) {
	t.Helper()
	o := orderOf(meter.Chat, true, false)
	change(o)
	return s.serve(t, 0, o, plainCaller)
}

func (s *deafAgent) serve(
	t *testing.T, longest time.Duration, o *Order, caller func(*listener) Caller,
) (*listener, *Usage, Report) {
	t.Helper()
	journal := &ledger{}
	var report Report
	d := New(Config{}, Env{
		Find:    func(*Order) (Session, bool) { return s, true },
		Longest: func(Session) time.Duration { return longest },
		After:   func(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) },
	}, journal, func(r Report) { report = r }, clock.System, slog.New(slog.DiscardHandler))
	d.Open()
	l := &listener{commits: make(chan struct{})}
	if err := d.Serve(t.Context(), o, caller(l)); err != nil {
		t.Fatal(err)
	}
	return l, journal.usage, report
}

func plainCaller(l *listener) Caller { return l }

const hello = `data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}` + "\n\n"

func TestAnOrderLastsNoLongerThanItsAgentsKeepTo(t *testing.T) {
	for longest, want := range map[time.Duration]time.Duration{0: 600 * time.Second, 300 * time.Second: 300 * time.Second,
		time.Hour: 600 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := &deafAgent{}
			began := time.Now()
			l, _, _ := s.put(t, longest, false, plainCaller)
			switch took := time.Since(began); {
			case took != want:
				t.Errorf("at most %v: took: got %v, want %v", longest, took, want)
			case s.asked.Timeout != want:
				t.Errorf("at most %v: asked: got %v, want %v", longest, s.asked.Timeout, want)
			case l.failed == nil:
				t.Errorf("at most %v: l.failed: got nil, want a value", longest)
			case l.failed.Code != CodeTimeout:
				t.Errorf("at most %v: l.failed.Code: got %q, want %q", longest, l.failed.Code, CodeTimeout)
			}
		})
	}
}

func TestWhatTheHubCannotHoldIsNotItsProvidersFault(t *testing.T) {
	for name, c := range map[string]struct {
		piece     string
		lost      error
		retryable bool
		ending    meter.Ending
		outcome   Outcome
	}{
		"no room for the answer":  {"", session.ErrNoRoom, true, 0, Cancelled},
		"no room in the midst":    {hello, session.ErrNoRoom, false, meter.PlatformLost, Cancelled},
		"a connection that broke": {hello, session.ErrLost, false, meter.ProviderLost, Failed},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &deafAgent{piece: c.piece, lost: c.lost}
			l, usage, report := s.put(t, 0, true, plainCaller)
			switch {
			case l.failed == nil:
				t.Errorf("%s: failed: got nil, want a value", name)
			case l.failed.Retryable != c.retryable:
				t.Errorf("%s: failed: l.failed.Retryable: got %t, want %t", name, l.failed.Retryable, c.retryable)
			case report.Outcome != c.outcome:
				t.Errorf("%s: report.Outcome: got %v, want %v", name, report.Outcome, c.outcome)
			}
			if (usage != nil) != (c.ending != 0) {
				t.Errorf("%s: usage: usage != nil: got %t, want %t", name, usage != nil, c.ending != 0)
			} else if usage != nil && usage.Served.Ending != c.ending {
				t.Errorf("%s: usage: usage.Served.Ending: got %v, want %v", name, usage.Served.Ending, c.ending)
			}
		})
	}
}

func TestEngineErrorsOfAgentsThatSendNoBodyKeepTheirText(t *testing.T) {
	for _, c := range []struct {
		end     session.End
		want    Failure
		outcome Outcome
	}{
		{session.End{Status: 400, Error: "context too long"}, Failure{Code: CodeRefused, EngineStatus: 400,
			Message: "context too long"}, Refused},
		{session.End{Status: 404, Error: "not deployed"}, Failure{Code: CodeUpstream, Retryable: true, EngineStatus: 404,
			Message: "not deployed"}, Failed},
		{session.End{Status: 429, Error: "engine is full"}, Failure{Code: CodeUpstream, Retryable: true, EngineStatus: 429,
			Message: "engine is full", Busy: true}, Busy},
		{session.End{Error: "connection refused"}, Failure{Code: CodeUpstream, Retryable: true,
			Message: "connection refused"}, Failed},
	} {
		for _, stream := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				s := &deafAgent{end: &c.end}
				switch l, _, report := s.put(t, 0, stream, plainCaller); {
				case l.failed == nil:
					t.Errorf("%+v streamed %v: failed: got nil, want a value", c.end, stream)
				case *l.failed != c.want:
					t.Errorf("%+v streamed %v: failed: *l.failed: got %+v, want %+v", c.end, stream, *l.failed, c.want)
				case report.Outcome != c.outcome:
					t.Errorf("%+v streamed %v: report.Outcome: got %v, want %v", c.end, stream, report.Outcome, c.outcome)
				}
			})
		}
	}
}

// leaver hangs up at the first content.
type leaver struct {
	*listener
	gone chan struct{}
}

func (l leaver) Gone() <-chan struct{} { return l.gone }

func (l leaver) Event(e Event) error {
	err := l.listener.Event(e)
	if e.FirstContent {
		close(l.gone)
	}
	return err
}

func TestAConsumerWhoLeavesWaitsForNoAgentThatCannotBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &deafAgent{piece: hello}
		began := time.Now()
		_, usage, _ := s.put(t, 300*time.Second, true, func(l *listener) Caller { return leaver{l, make(chan struct{})} })
		switch took := time.Since(began); {
		case took > 2*time.Second:
			t.Errorf("ended after: got %v, want at most %v", took, 2*time.Second)
		case !s.cancelled:
			t.Error("s.cancelled: got false, want true")
		case !s.closed:
			t.Error("s.closed: got false, want true")
		}
		switch {
		case usage == nil:
			t.Error("usage: got nil, want a value")
		case usage.Served.Ending != meter.ClientGone:
			t.Errorf("usage.Served.Ending: got %v, want %v", usage.Served.Ending, meter.ClientGone)
		case usage.Served.DeliveredBytes != int64(len("Hello")):
			t.Errorf("usage.Served.DeliveredBytes: got %d, want %d", usage.Served.DeliveredBytes, int64(len("Hello")))
		}
	})
}

// picky takes no order.
type picky struct{ why error }

func (s picky) Open(session.Request) (Stream, error) { return nil, s.why }

func TestABodyThatNoAgentCanBeSentIsItsConsumersFault(t *testing.T) {
	for _, c := range []struct {
		why    error
		reason fault.Reason
	}{
		{session.ErrNotSendable, ""}, {session.ErrBusy, fault.ProviderBusy}, {session.ErrGone, fault.SessionGone},
		{session.ErrNotOffered, fault.SessionGone},
		{session.ErrTooLarge, fault.SessionGone},
	} {
		var report Report
		d := New(Config{}, Env{
			Find:  func(*Order) (Session, bool) { return picky{c.why}, true },
			After: func(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) },
		}, &ledger{}, func(r Report) { report = r }, clock.System, slog.New(slog.DiscardHandler))
		d.Open()
		l := &listener{commits: make(chan struct{})}
		err := d.Serve(t.Context(), orderOf(meter.Chat, true, false), l)
		if c.reason != "" && !fault.Is(err, c.reason) {
			t.Errorf(`%v: got the error %v, want the reason %v, where c.reason != ""`, c.why, err, c.reason)
		} else if c.reason != "" && l.failed != nil {
			t.Errorf(`%v: l.failed: got %+v, want nil, where c.reason != ""`, c.why, l.failed)
		}
		switch f := l.failed; {
		case c.reason == "" && err != nil:
			t.Errorf(`%v: got the error %v, want none, where c.reason == ""`, c.why, err)
		case c.reason == "" && f == nil:
			t.Errorf(`%v: l.failed: got nil, want a value, where c.reason == ""`, c.why)
		case c.reason == "" && f.Code != CodeRefused:
			t.Errorf(`%v: f.Code: got %q, want %q, where c.reason == ""`, c.why, f.Code, CodeRefused)
		case c.reason == "" && f.Retryable:
			t.Errorf(`%v: f.Retryable: got true, want false, where c.reason == ""`, c.why)
		case c.reason == "" && f.EngineStatus != 400:
			t.Errorf(`%v: f.EngineStatus: got %d, want 400, where c.reason == ""`, c.why, f.EngineStatus)
		}
		if report.Outcome != Cancelled {
			t.Errorf("%v: reported: got %v, want %v", c.why, report.Outcome, Cancelled)
		}
	}
}

func TestStreamWithoutItsEndMarkIsTruncated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finish := strings.Replace(hello, "}}]}", `},"finish_reason":"stop"}]}`, 1)
		for piece, served := range map[string]bool{finish: false, hello + "data: [DONE]\n\n": false,
			finish + "data: [DONE]\n\n": true} {
			s := &deafAgent{piece: piece, end: &session.End{Status: 200, Complete: strings.Contains(piece, "DONE")}}
			if l, _, _ := s.put(t, 0, true, plainCaller); l.finished != served {
				t.Errorf("%q: finished: got %t, want %t", piece, l.finished, served)
			}
		}
	})
}
