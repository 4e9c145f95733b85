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
			if took := time.Since(began); took != want || s.asked.Timeout != want || l.failed == nil ||
				l.failed.Code != CodeTimeout {
				t.Errorf("at most %v: asked for %v, failed %+v after %v", longest, s.asked.Timeout, l.failed, took)
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
			if l.failed == nil || l.failed.Retryable != c.retryable || report.Outcome != c.outcome {
				t.Errorf("%s: failed %+v, reported %v", name, l.failed, report.Outcome)
			}
			if (usage != nil) != (c.ending != 0) || usage != nil && usage.Served.Ending != c.ending {
				t.Errorf("%s: usage %+v", name, usage)
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
				if l, _, report := s.put(t, 0, stream, plainCaller); l.failed == nil || *l.failed != c.want ||
					report.Outcome != c.outcome {
					t.Errorf("%+v streamed %v: failed %+v, reported %v", c.end, stream, l.failed, report.Outcome)
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
		if took := time.Since(began); took > 2*time.Second || !s.cancelled || !s.closed {
			t.Errorf("ended after %v, closed %v", took, s.closed)
		}
		if usage == nil || usage.Served.Ending != meter.ClientGone || usage.Served.DeliveredBytes != int64(len("Hello")) {
			t.Errorf("usage %+v", usage)
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
		if c.reason != "" && (!fault.Is(err, c.reason) || l.failed != nil) {
			t.Errorf("%v: %v, told %+v", c.why, err, l.failed)
		}
		if f := l.failed; c.reason == "" && (err != nil || f == nil || f.Code != CodeRefused || f.Retryable ||
			f.EngineStatus != 400) {
			t.Errorf("%v: %v, told %+v", c.why, err, f)
		}
		if report.Outcome != Cancelled {
			t.Errorf("%v: reported %v", c.why, report.Outcome)
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
				t.Errorf("%q: finished %v, failed %+v", piece, l.finished, l.failed)
			}
		}
	})
}
