package dispatch

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

// ahead is a session whose agent is ahead of its caller: behind the last piece
// the answer was given up.
type ahead struct {
	pieces []string
	ready  chan struct{}
}

func (s *ahead) Open(session.Request) (Stream, error) { return s, nil }
func (s *ahead) Ready() <-chan struct{}               { return s.ready }
func (s *ahead) Release(int, []byte)                  {}
func (s *ahead) EngineModel() string                  { return "" }
func (s *ahead) Probe()                               {}
func (s *ahead) Cancel()                              {}
func (s *ahead) Close(bool)                           {}

func (s *ahead) Take() ([]byte, *session.End, error) {
	piece := s.pieces[0]
	s.pieces = s.pieces[1:]
	if len(s.pieces) == 0 {
		return []byte(piece), nil, session.ErrBehind
	}
	return []byte(piece), nil, nil
}

// slow is a caller who takes each event after a while.
type slow struct {
	*listener
	takes []time.Duration
}

func (s *slow) Event(e Event) error {
	if len(s.takes) > 0 {
		time.Sleep(s.takes[0]) //nolint:forbidigo // of a synctest bubble
		s.takes = s.takes[1:]
	}
	return s.listener.Event(e)
}

func TestWhoeverWasSlowBearsAnAnswerThatWasGivenUp(t *testing.T) {
	const wait = 600 * time.Millisecond
	for name, c := range map[string]struct {
		pieces  []string
		takes   []time.Duration
		ending  meter.Ending
		outcome Outcome
		prompt  bool
	}{
		"a caller who takes nothing for long": {[]string{hello, hello}, []time.Duration{5 * time.Second},
			meter.ClientGone, Cancelled, true},
		"a caller who takes every event late": {[]string{hello + hello + hello, hello},
			[]time.Duration{wait, wait, wait}, meter.ClientGone, Cancelled, true},
		"a provider who floods before anybody took": {[]string{hello}, nil, meter.ProviderLost, Failed, false},
		"a provider faster than a caller who takes": {[]string{hello + hello, hello}, []time.Duration{time.Millisecond,
			time.Millisecond}, meter.ProviderLost, Failed, false},
		"a caller who was slow before, not now": {[]string{hello, hello, hello}, []time.Duration{5 * time.Second},
			meter.ProviderLost, Failed, false},
		"a caller who is slow only with the rest": {[]string{hello, hello}, []time.Duration{0, 5 * time.Second},
			meter.ProviderLost, Failed, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &ahead{pieces: c.pieces, ready: make(chan struct{}, 8)}
			for range c.pieces {
				s.ready <- struct{}{}
			}
			journal := &ledger{}
			var report Report
			d := New(Config{}, Env{
				Find:  func(*Order) (Session, bool) { return s, true },
				After: func(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) },
			}, journal, func(r Report) { report = r }, clock.System, slog.New(slog.DiscardHandler))
			d.Open()
			l := &listener{commits: make(chan struct{})}
			if err := d.Serve(t.Context(), orderOf(meter.Chat, true, false), &slow{l, c.takes}); err != nil {
				t.Fatal(err)
			}
			switch {
			case journal.usage == nil:
				t.Fatalf("%s: usage: got nil, want a value", name)
			case journal.usage.Served.Ending != c.ending:
				t.Fatalf("%s: usage: journal.usage.Served.Ending: got %v, want %v", name, journal.usage.Served.Ending, c.ending)
			case report.Outcome != c.outcome:
				t.Fatalf("%s: report.Outcome: got %v, want %v", name, report.Outcome, c.outcome)
			case l.failed == nil:
				t.Fatalf("%s: l.failed: got nil, want a value", name)
			}
			if charged := journal.usage.Bill.Prompt > 0; charged != c.prompt {
				t.Errorf("%s: the prompt is charged: got %t, want %t", name, charged, c.prompt)
			}
		})
	}
}
