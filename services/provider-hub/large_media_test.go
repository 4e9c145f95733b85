package providerhub_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/journal"
)

func TestLargeImagesPassAndTooLargeOnesDoNot(t *testing.T) {
	t.Parallel()
	m := newMedia(t)
	for name, c := range map[string]struct {
		bytes, overhead int
		stream, passes  bool
	}{
		"an event below 24 MiB":  {23 << 20, 0, true, true},
		"an event above 24 MiB":  {24 << 20, 0, true, false},
		"an answer below 26 MiB": {25 << 20, 0, false, true},
		"an answer above 26 MiB": {26 << 20, 0, false, false},
	} {
		image := strings.Repeat("A", c.bytes)
		answer := `{"data":[{"b64_json":"` + image + `"}]}`
		if c.stream {
			answer = `data: {"type":"image_generation.completed","b64_json":"` + image + "\"}\n\n"
		}
		e := m.serve(mediaOrder(m.member, m.agent, images, c.stream), pieces(true, answer))
		if passes := e.finished.GetBillableCompletionTokens() == 1; passes != c.passes {
			t.Errorf("%s: passes: got %t, want %t", name, passes, c.passes)
		} else if passes && len(e.events[0].GetJson()) < c.bytes {
			t.Errorf("%s: len(e.events[0].GetJson()): got %d, want at least %d, where passes", name, len(e.events[0].GetJson()),
				c.bytes)
		}
	}
}

// Only images make answers of 12 MiB and more.
func TestWholeAnswersWithoutImagesAreBelow12MiB(t *testing.T) {
	t.Parallel()
	const most = 12<<20 - 64<<10
	m := newMedia(t)
	chat := order(m.member, m.agent, false)
	chat.MaxOutputTokens = 1 << 30
	for name, c := range map[string]struct {
		open        *hubv1.DispatchOpen
		begin, rest string
	}{
		"chat": {chat, `{"model":"` + testModel + `","choices":[{"message":{"content":"`,
			`"},"finish_reason":"stop"}]}`},
		"embeddings": {mediaOrder(m.member, m.agent, embeddings, false), `{"model":"` + testModel + `","x":"`,
			`","data":[{"embedding":[1]},{"embedding":[2]}]}`},
		"transcription": {mediaOrder(m.member, m.agent, transcriptions, false), `{"text":"`, `"}`},
	} {
		for over := range 2 {
			answer := c.begin + strings.Repeat("a", most+over-len(c.begin)-len(c.rest)) + c.rest
			c.open.RequestId = order(m.member, m.agent, false).GetRequestId()
			e := m.serve(c.open, pieces(true, answer))
			if passes := e.finished != nil && len(e.events[0].GetJson()) == most; passes != (over == 0) {
				t.Errorf("%s of %d bytes: passes: got %t, want %t", name, len(answer), passes, over == 0)
			} else if over == 1 && !strings.Contains(e.failed.GetMessage(), "too large") {
				t.Errorf(`%s of %d bytes: e.failed.GetMessage(): got %q, want "too large" in it, where over == 1`, name,
					len(answer), e.failed.GetMessage())
			}
		}
	}
}

// A hub that dies in the middle of a stream bills the images that it had relayed,
// and nothing of a transcription that nobody saw the end of.
func TestCrashBillsTheImagesThatWereRelayedAndNoAudio(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		endpoint hubv1.Endpoint
		pieces   []string
		images   int64
	}{
		"the first image":       {images, []string{completed}, 1},
		"behind a partial one":  {images, []string{partial, completed, partial}, 1},
		"half a transcription":  {transcriptions, []string{delta, delta}, 0},
		"a partial image alone": {images, []string{partial}, 0},
	} {
		m := newMedia(t)
		open := mediaOrder(m.member, m.agent, c.endpoint, true)
		call := m.call(open)
		r := received(t, m.agent)
		for _, p := range c.pieces {
			must(t, r.Data([]byte(p)))
		}
		events := len(call.content())
		for ; events < len(c.pieces); events++ {
			call.event()
		}
		var dir string
		m.eventually("what was relayed is in the journal", func() error {
			dir = m.copyJournal()
			return noted(t, m.copyOf(dir), c.images)
		})
		call.cancel()
		wait(t, "the cancel", r.Cancelled())
		must(t, r.End(0, false))
		w := setup(t, func(cfg *hubConfig) { cfg.JournalDir = dir })
		if u := w.listen().next(1); u.GetRequestId() != open.GetRequestId() {
			t.Errorf("%s: usage: u.GetRequestId(): got %q, want %q", name, u.GetRequestId(), open.GetRequestId())
		} else if u.GetBillablePromptTokens() != 0 {
			t.Errorf("%s: usage: u.GetBillablePromptTokens(): got %d, want 0", name, u.GetBillablePromptTokens())
		} else if u.GetBillableCompletionTokens() != c.images {
			t.Errorf("%s: usage: u.GetBillableCompletionTokens(): got %d, want %d", name, u.GetBillableCompletionTokens(),
				c.images)
		} else if u.GetEnding() != eventsv1.Ending_ENDING_PLATFORM_LOST {
			t.Errorf("%s: usage: u.GetEnding(): got %v, want %v", name, u.GetEnding(), eventsv1.Ending_ENDING_PLATFORM_LOST)
		} else if want := unitOf(open); u.GetRates().GetUnit() != want {
			t.Errorf("%s: usage: u.GetRates().GetUnit(): got %v, want %v", name, u.GetRates().GetUnit(), want)
		}
	}
}

// noted reports whether a journal holds an attempt that is committed, with that
// much progress.
func noted(t *testing.T, dir string, count int64) error {
	t.Helper()
	j, rec, err := journal.Open(journal.Config{Dir: dir, Clock: frozen{}})
	must(t, err)
	defer func() { must(t, j.Close()) }()
	for u, err := range rec.Dispatches() {
		must(t, err)
		if u.Committed && int64(u.Progress.Tokens) == count {
			return nil
		}
	}
	return errors.New("not yet")
}

// TestStalledImageStreamHoldsNoMoreThanItsCredit has a consumer who reads
// nothing: the hub holds the event that it has, and what the agent's credit lets
// through behind it.
func TestStalledImageStreamHoldsNoMoreThanItsCredit(t *testing.T) {
	t.Parallel()
	m := newMedia(t)
	open := mediaOrder(m.member, m.agent, images, true)
	open.Choices = 10
	call := m.call(open)
	r := received(t, m.agent)
	event := `data: {"type":"image_generation.partial_image","b64_json":"` + strings.Repeat("A", 1<<20) + "\"}\n\n"
	sent := make(chan struct{}, 64)
	go func() {
		for range cap(sent) {
			if r.Data([]byte(event)) != nil {
				return
			}
			sent <- struct{}{}
		}
	}()
	taken := 0
	for quiet := false; !quiet; {
		select {
		case <-sent:
			taken++
		case <-time.After(300 * time.Millisecond):
			quiet = true
		}
	}
	// One waits for the caller, one for its next event, and the channel of the
	// call holds a few.
	if taken > 5 {
		t.Errorf("events of 1 MiB were taken from an agent whose consumer reads none: got %d, want at most 5", taken)
	}
	call.content()
	for range 10 {
		call.event() // it goes on where it stood
	}
	call.cancel()
	wait(t, "the cancel", r.Cancelled())
}
