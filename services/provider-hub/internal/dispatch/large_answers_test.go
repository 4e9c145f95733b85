package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

// imageOf is the beginning of an answer with an image of so many bytes, and the
// rest of it.
func imageOf(stream bool, bytes int) (begins, rest string) {
	image := strings.Repeat("A", bytes)
	if stream {
		return `data: {"type":"image_generation.completed","b64_json":"` + image, "\"}\n\n"
	}
	return `{"data":[{"b64_json":"` + image, `"}]}`
}

func TestLargeAnswersShareOneBound(t *testing.T) {
	for name, stream := range map[string]bool{"whole": false, "streamed": true} {
		for _, c := range []struct {
			others int64 // what another provider's hold
			served bool
		}{{0, true}, {28 << 20, true}, {30 << 20, false}} {
			begins, rest := imageOf(stream, 3<<20)
			s := newSteered()
			f := newFloor(Config{MaxLarge: 32 << 20}, s)
			f.dispatcher.large.add(ids.ProviderID{9}, c.others, 0)
			s.sends(begins, rest)
			s.ends()
			l := f.serve(t.Context(), orderOf(meter.Images, stream, false))
			switch {
			case l.finished != c.served:
				t.Errorf("%s beside %d bytes: finished: got %t, want %t", name, c.others, l.finished, c.served)
			case !c.served && !l.failed.Retryable:
				t.Errorf("%s beside %d bytes: l.failed.Retryable: got false, want true, where !c.served", name, c.others)
			case !c.served && !strings.Contains(l.failed.Message, "this hub holds too many large"):
				t.Errorf(`%s beside %d bytes: l.failed.Message: got %q, want "this hub holds too many large" in it, where `+
					`!c.served`, name, c.others, l.failed.Message)
			}
			if sum := f.dispatcher.large.sum; sum != c.others {
				t.Errorf("%s: bytes held: sum: got %d, want %d", name, sum, c.others)
			} else if len(f.dispatcher.large.arriving) != 0 {
				t.Errorf("%s: bytes held: len(f.dispatcher.large.arriving): got %d, want 0", name, len(f.dispatcher.large.arriving))
			}
		}
	}
}

// A provider whose large answers stall takes no room from another's, is refused
// more, and does not keep it longer than a stream may pause.
func TestAProviderThatStallsHoldsNoMoreThanItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stalls, sound := ids.ProviderID{1}, ids.ProviderID{2}
		begins, rest := imageOf(false, 3<<20)
		first, second, third := newSteered(), newSteered(), newSteered()
		f := newFloor(Config{MaxLarge: 32 << 20, ContentTimeout: time.Minute}, first)
		order := func(p ids.ProviderID) *Order {
			o := orderOf(meter.Images, false, false)
			o.Provider = p
			return o
		}
		heard := make(chan *listener, 1)
		go func() { heard <- f.serve(t.Context(), order(stalls)) }()
		first.sends(begins)
		synctest.Wait()

		f.session = second
		second.sends(begins)
		l := f.serve(t.Context(), order(stalls))
		switch {
		case l.failed == nil:
			t.Error("the second of a provider: failed: got nil, want a value")
		case !l.failed.Retryable:
			t.Error("the second of a provider: failed: l.failed.Retryable: got false, want true")
		case f.last().Outcome != Failed:
			t.Errorf("the second of a provider: f.last().Outcome: got %v, want %v", f.last().Outcome, Failed)
		case !strings.Contains(l.failed.Message, "this provider"):
			t.Errorf(`the second of a provider: failed: l.failed.Message: got %q, want "this provider" in it`, l.failed.Message)
		}

		f.session = third
		third.sends(begins, rest)
		third.ends()
		if l := f.serve(t.Context(), order(sound)); !l.finished {
			t.Error("another provider's: l.finished: got false, want true")
		} else if f.last().Outcome != Served {
			t.Errorf("another provider's: f.last().Outcome: got %v, want %v", f.last().Outcome, Served)
		}

		began := time.Now()
		l = <-heard
		switch wait := time.Since(began); {
		case wait > time.Minute+time.Second:
			t.Errorf("the one that stalls: wait: got %v, want at most %v", wait, time.Minute+time.Second)
		case l.failed == nil:
			t.Error("the one that stalls: failed: got nil, want a value")
		case !l.failed.Retryable:
			t.Error("the one that stalls: failed: l.failed.Retryable: got false, want true")
		case f.last().Outcome != Failed:
			t.Errorf("the one that stalls: f.last().Outcome: got %v, want %v", f.last().Outcome, Failed)
		}
		if f.dispatcher.large.sum != 0 {
			t.Errorf("bytes still held: f.dispatcher.large.sum: got %d, want 0", f.dispatcher.large.sum)
		} else if len(f.dispatcher.large.arriving) != 0 {
			t.Errorf("bytes still held: len(f.dispatcher.large.arriving): got %d, want 0", len(f.dispatcher.large.arriving))
		}
	})
}

// What waits for a consumer counts, but not as its provider's.
// pieces gives an answer in pieces and notes which of them come back.
type pieces struct {
	deafAgent
	left [][]byte
	back [][]byte
}

func (s *pieces) Open(r session.Request) (Stream, error) {
	_, err := s.deafAgent.Open(r)
	return s, err
}

func (s *pieces) Take() (piece []byte, end *session.End, err error) {
	if len(s.left) > 0 {
		piece, s.left = s.left[0], s.left[1:]
	}
	if len(s.left) == 0 {
		end = &session.End{Status: 200, Complete: true}
	}
	s.ready <- struct{}{}
	return piece, end, nil
}

func (s *pieces) Release(_ int, piece []byte) { s.back = append(s.back, piece) }

func TestAWholeAnswerIsThereOnce(t *testing.T) {
	body := []byte(
		`{"id":"x","object":"chat.completion","model":"m",` +
			`"choices":[{"index":0,"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}]}`)
	for name, c := range map[string]struct {
		left [][]byte
		back []int
	}{
		"in one piece": {[][]byte{body}, []int{0}},
		"in three pieces": {[][]byte{slices.Clone(body[:40]), slices.Clone(body[40:70]), slices.Clone(body[70:])},
			[]int{0, 30, len(body) - 70}},
	} {
		s := &pieces{left: c.left}
		d := New(Config{}, Env{
			Find:  func(*Order) (Session, bool) { return s, true },
			After: func(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) },
		}, &ledger{}, func(Report) {}, clock.System, slog.New(slog.DiscardHandler))
		d.Open()
		l := &listener{commits: make(chan struct{})}
		switch err := d.Serve(t.Context(), orderOf(meter.Chat, false, false), l); {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", name, err)
		case !l.finished:
			t.Errorf("%s: l.finished: got false, want true", name)
		case !strings.Contains(string(l.events[0].JSON), "Hello"):
			t.Errorf(`%s: l.events[0].JSON: got %q, want "Hello" in it`, name, string(l.events[0].JSON))
		}
		var back []int
		for _, piece := range s.back {
			back = append(back, len(piece))
		}
		if !slices.Equal(back, c.back) {
			t.Errorf("%s: pieces: got %v, want %v", name, back, c.back)
		}
	}
	n := newAnswer(orderOf(meter.Chat, false, false), "")
	switch free, ok := n.gather(body, len(body)); {
	case !ok:
		t.Error("the only piece is copied: ok of n.gather(body, len(body)): got false, want true")
	case free != nil:
		t.Errorf("the only piece is copied: free: got %q, want nil", free)
	case &n.whole[0] != &body[0]:
		t.Errorf("the only piece is copied: &n.whole[0]: got %v, want %v", &n.whole[0], &body[0])
	}
}

func TestWhatWaitsForItsCallerIsCounted(t *testing.T) {
	for name, stream := range map[string]bool{"whole": false, "streamed": true} {
		begins, rest := imageOf(stream, 3<<20)
		s := newSteered()
		f := newFloor(Config{}, s)
		s.sends(begins, rest)
		s.ends()
		var sum, arriving int64
		f.told = func(Event) {
			sum, arriving = f.dispatcher.large.sum, f.dispatcher.large.arriving[ids.ProviderID{}]
		}
		var after int64
		f.committed = func() { after = f.dispatcher.large.sum }
		if l := f.serve(t.Context(), orderOf(meter.Images, stream, false)); !l.finished {
			t.Errorf("%s: failed %+v", name, l.failed)
		}
		switch {
		case sum < 3<<20 || sum > 3<<20+1<<10:
			t.Errorf("%s: sum: got %d, want 3<<20 to 3<<20+1<<10", name, sum)
		case arriving != 0:
			t.Errorf("%s: arriving: got %d, want 0", name, arriving)
		case after != 0:
			t.Errorf("%s: after: got %d, want 0", name, after)
		}
	}
}

// Between two images an engine works, and says no more than that.
func TestAnImageStreamLivesAsLongAsDataArrives(t *testing.T) {
	for name, c := range map[string]struct {
		kind  meter.Kind
		alive string
		ends  bool
	}{
		"images":                        {meter.Images, ": working\n\n", true},
		"images, silent":                {meter.Images, "", false},
		"transcription without content": {meter.Transcriptions, ": working\n\n", false},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newSteered()
			f := newFloor(Config{ContentTimeout: time.Minute}, s)
			heard := make(chan *listener, 1)
			go func() { heard <- f.serve(t.Context(), orderOf(c.kind, true, false)) }()
			one := "data: {\"type\":\"image_generation.completed\",\"b64_json\":\"QQ==\"}\n\n"
			if c.kind == meter.Transcriptions {
				one = "data: {\"type\":\"transcript.text.delta\",\"delta\":\"x\"}\n\n"
			}
			s.sends(one)
			for range 10 {
				<-time.After(20 * time.Second) // of the bubble
				s.sends(c.alive)
			}
			s.sends(one)
			s.ends()
			l := <-heard
			if l.finished != c.ends {
				t.Errorf("%s: finished: got %t, want %t", name, l.finished, c.ends)
			} else if !c.ends && !strings.Contains(l.failed.Message, "stopped") {
				t.Errorf(`%s: l.failed.Message: got %q, want "stopped" in it, where !c.ends`, name, l.failed.Message)
			}
		})
	}
}

func TestAnOrderKeepsNoBodyThatIsOnItsWay(t *testing.T) {
	s := newSteered()
	f := newFloor(Config{}, s)
	s.sends(`{"text":"x"}`)
	s.ends()
	o := orderOf(meter.Transcriptions, false, false)
	switch l := f.serve(t.Context(), o); {
	case !l.finished:
		t.Error("l.finished: got false, want true")
	case o.Body != nil:
		t.Errorf("o.Body: got %q, want nil", o.Body)
	case string(s.asked.Body) != "{}":
		t.Errorf(`s.asked.Body: got %q, want "{}"`, string(s.asked.Body))
	}
}

func TestOnlyChatHasProofsAndVoidsThatAreTold(t *testing.T) {
	for k := range meter.Kinds() {
		kind := meter.Kind(k)
		s := newSteered()
		f := newFloor(Config{}, s)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f.serve(ctx, orderOf(kind, false, false))
		chat := kind == meter.Chat
		switch {
		case (s.asked.Proof != nil) != chat:
			t.Errorf("%v: proof: s.asked.Proof != nil: got %t, want %t", kind, s.asked.Proof != nil, chat)
		case (f.vanished == 1) != chat:
			t.Errorf("%v: f.vanished == 1: got %t, want %t, with %q", kind, f.vanished == 1, chat, s.asked.Proof)
		case f.vanished+f.voids != 1:
			t.Errorf("%v: f.vanished+f.voids: got %d, want 1, with %q", kind, f.vanished+f.voids, s.asked.Proof)
		}
	}
}

func TestAnAnswerThatNobodyCommitsToIsNotCalledServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSteered()
		f := newFloor(Config{}, s)
		f.deaf = true
		s.sends(`{"text":"x"}`)
		s.ends()
		l := f.serve(t.Context(), orderOf(meter.Transcriptions, false, false))
		switch {
		case len(l.events) != 1:
			t.Errorf("%d events, reported %v, %d void: len(l.events): got %d, want 1", len(l.events), f.last().Outcome, f.voids,
				len(l.events))
		case f.last().Outcome != Cancelled:
			t.Errorf("%d events, reported %v, %d void: f.last().Outcome: got %v, want %v", len(l.events), f.last().Outcome,
				f.voids, f.last().Outcome, Cancelled)
		case f.voids != 1:
			t.Errorf("%d events, reported %v, %d void: f.voids: got %d, want 1", len(l.events), f.last().Outcome, f.voids,
				f.voids)
		}
	})
}

// floor is a dispatcher with a session that a test steers, and what it was told.
type floor struct {
	dispatcher *Dispatcher
	session    *steered
	mu         sync.Mutex
	reports    []Report
	voids      int
	vanished   int
	deaf       bool        // callers do not commit
	told       func(Event) // while a caller hears an event
	committed  func()
}

func newFloor(cfg Config, s *steered) *floor {
	f := &floor{session: s}
	f.dispatcher = New(cfg, Env{
		Find:  func(*Order) (Session, bool) { return f.session, true },
		After: func(d time.Duration, do func()) Timer { return time.AfterFunc(d, do) },
		Prove: func(*Order) []byte { return []byte("proof") },
	}, f, f.report, clock.System, slog.New(slog.DiscardHandler))
	f.dispatcher.Open()
	return f
}

func (f *floor) report(r Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports = append(f.reports, r)
}

func (f *floor) last() Report {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reports[len(f.reports)-1]
}

func (f *floor) serve(ctx context.Context, o *Order) *listener {
	l := &listener{commits: make(chan struct{})}
	if err := f.dispatcher.Serve(ctx, o, watched{l, f}); err != nil {
		l.failed = &Failure{Message: err.Error()}
	}
	return l
}

// watched is a caller of a floor.
type watched struct {
	*listener
	floor *floor
}

func (w watched) Event(e Event) error {
	if w.floor.told != nil {
		w.floor.told(e)
	}
	if w.floor.deaf {
		e.FirstContent = false // which it would commit at
	}
	return w.listener.Event(e)
}

func (f *floor) Dispatched(*Order, time.Time) error  { return nil }
func (f *floor) Progress(*Order, int64, int64) error { return nil }
func (f *floor) Void(*Order) error                   { f.voids++; return nil }

func (f *floor) Vanished(context.Context, *Order) error { f.vanished++; return nil }

func (f *floor) Final(context.Context, *Usage) (func(), error) { return func() {}, nil }

func (f *floor) Committed(*Order) error {
	if f.committed != nil {
		f.committed()
	}
	return nil
}

// steered is a session whose agent says what a test wants, when it wants.
type steered struct {
	asked session.Request
	said  chan string // closed at the end
	ready chan struct{}
}

func newSteered() *steered {
	return &steered{said: make(chan string, 64), ready: make(chan struct{}, 64)}
}

func (s *steered) sends(pieces ...string) {
	for _, p := range pieces {
		s.said <- p
		s.ready <- struct{}{}
	}
}

func (s *steered) ends() {
	close(s.said)
	s.ready <- struct{}{}
}

func (s *steered) Open(r session.Request) (Stream, error) { s.asked = r; return s, nil }
func (s *steered) Ready() <-chan struct{}                 { return s.ready }
func (s *steered) Release(int, []byte)                    {}
func (s *steered) EngineModel() string                    { return "" }
func (s *steered) Probe()                                 {}
func (s *steered) Cancel()                                {}
func (s *steered) Close(bool)                             {}

func (s *steered) Take() ([]byte, *session.End, error) {
	select {
	case piece, ok := <-s.said:
		if !ok {
			return nil, &session.End{Status: 200, Complete: true}, nil
		}
		return []byte(piece), nil, nil
	default:
		return nil, nil, errors.New("nothing was said")
	}
}
