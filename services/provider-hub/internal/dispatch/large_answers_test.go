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
			if l.finished != c.served || !c.served &&
				(!l.failed.Retryable || !strings.Contains(l.failed.Message, "this hub holds too many large")) {
				t.Errorf("%s beside %d bytes: finished %v, failed %+v", name, c.others, l.finished, l.failed)
			}
			if sum := f.dispatcher.large.sum; sum != c.others || len(f.dispatcher.large.arriving) != 0 {
				t.Errorf("%s: %d bytes are held", name, sum)
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
		if l.failed == nil || !l.failed.Retryable || f.last().Outcome != Failed ||
			!strings.Contains(l.failed.Message, "this provider") {
			t.Errorf("the second of a provider: failed %+v, reported %v", l.failed, f.last().Outcome)
		}

		f.session = third
		third.sends(begins, rest)
		third.ends()
		if l := f.serve(t.Context(), order(sound)); !l.finished || f.last().Outcome != Served {
			t.Errorf("another provider's: failed %+v, reported %v", l.failed, f.last().Outcome)
		}

		began := time.Now()
		l = <-heard
		if wait := time.Since(began); wait > time.Minute+time.Second || l.failed == nil || !l.failed.Retryable ||
			f.last().Outcome != Failed {
			t.Errorf("the one that stalls: failed %+v after %v, reported %v", l.failed, wait, f.last().Outcome)
		}
		if f.dispatcher.large.sum != 0 || len(f.dispatcher.large.arriving) != 0 {
			t.Errorf("%d bytes are still held", f.dispatcher.large.sum)
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
		if err := d.Serve(t.Context(), orderOf(meter.Chat, false, false), l); err != nil || !l.finished ||
			!strings.Contains(string(l.events[0].JSON), "Hello") {
			t.Errorf("%s: %v, %+v", name, err, l)
		}
		var back []int
		for _, piece := range s.back {
			back = append(back, len(piece))
		}
		if !slices.Equal(back, c.back) {
			t.Errorf("%s: pieces of %v come back", name, back)
		}
	}
	n := newAnswer(orderOf(meter.Chat, false, false), "")
	if free, ok := n.gather(body, len(body)); !ok || free != nil || &n.whole[0] != &body[0] {
		t.Error("the only piece is copied")
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
		if sum < 3<<20 || sum > 3<<20+1<<10 || arriving != 0 || after != 0 {
			t.Errorf("%s: %d bytes count while it is sent, %d as the provider's, %d when it was", name, sum, arriving, after)
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
			if l.finished != c.ends || !c.ends && !strings.Contains(l.failed.Message, "stopped") {
				t.Errorf("%s: finished %v, failed %+v", name, l.finished, l.failed)
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
	if l := f.serve(t.Context(), o); !l.finished || o.Body != nil || string(s.asked.Body) != "{}" {
		t.Errorf("finished %v, the order keeps %q, the session had %q", l.finished, o.Body, s.asked.Body)
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
		if (s.asked.Proof != nil) != chat || (f.vanished == 1) != chat || f.vanished+f.voids != 1 {
			t.Errorf("%v: proof %q, %d vanished, %d void", kind, s.asked.Proof, f.vanished, f.voids)
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
		if len(l.events) != 1 || f.last().Outcome != Cancelled || f.voids != 1 {
			t.Errorf("%d events, reported %v, %d void", len(l.events), f.last().Outcome, f.voids)
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
