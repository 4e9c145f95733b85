package dispatch

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

// scripted is a session whose agent sends an answer in two pieces and ends.
type scripted struct {
	pieces [][]byte
	end    session.End
	ready  chan struct{}
	named  string
}

func (s *scripted) Open(session.Request) (Stream, error) { return s, nil }
func (s *scripted) Ready() <-chan struct{}               { return s.ready }
func (s *scripted) Release(int, []byte)                  {}
func (s *scripted) EngineModel() string                  { return s.named }
func (s *scripted) Probe()                               {}
func (s *scripted) Cancel()                              {}
func (s *scripted) Close(bool)                           {}

func (s *scripted) Take() ([]byte, *session.End, error) {
	if len(s.pieces) == 0 {
		return nil, &s.end, nil
	}
	piece := s.pieces[0]
	s.pieces = s.pieces[1:]
	return piece, nil, nil
}

// listener commits at the first content and keeps what it hears.
type listener struct {
	commits  chan struct{}
	events   []Event
	finished bool
	failed   *Failure
}

func (l *listener) Event(e Event) error {
	e.JSON = []byte(string(e.JSON))
	l.events = append(l.events, e)
	if e.FirstContent {
		close(l.commits)
	}
	return nil
}

func (l *listener) Finished(_, _ int64) error { l.finished = true; return nil }
func (l *listener) Failed(f Failure) error    { l.failed = &f; return nil }

func (l *listener) Committed() <-chan struct{} { return l.commits }
func (l *listener) Gone() <-chan struct{}      { return nil }

// ledger keeps the usage.
type ledger struct{ usage *Usage }

func (w *ledger) Dispatched(*Order, time.Time) error     { return nil }
func (w *ledger) Committed(*Order) error                 { return nil }
func (w *ledger) Progress(*Order, int64, int64) error    { return nil }
func (w *ledger) Void(*Order) error                      { return nil }
func (w *ledger) Vanished(context.Context, *Order) error { return nil }

func (w *ledger) Final(_ context.Context, u *Usage) (func(), error) {
	w.usage = u
	return func() {}, nil
}

// orderOf asks for two vectors, two images, or the text of a second of audio.
func orderOf(k meter.Kind, stream, text bool) *Order {
	return &Order{
		Request: ids.RequestID{1}, Attempt: 1, Kind: k, Node: "n", Model: "acme/m", Stream: stream, Text: text,
		Body:            []byte("{}"),
		EstimatedPrompt: 1000, MaxOutput: 1, Choices: 2, Inputs: 2, Rates: money.Rates{Unit: unitOf(k)},
	}
}

// answered serves an order by an answer that is cut somewhere.
func answered(t testing.TB, cfg Config, o *Order, answer []byte, cut int, complete bool) (*listener, *Usage) {
	t.Helper()
	s := &scripted{pieces: [][]byte{answer[:cut], answer[cut:]}, end: session.End{Status: 200, Complete: complete},
		ready: make(chan struct{})}
	close(s.ready)
	journal := &ledger{}
	d := New(cfg, Env{
		Find:  func(*Order) (Session, bool) { return s, true },
		After: func(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) },
	}, journal, func(Report) {}, clock.System, slog.New(slog.NewTextHandler(io.Discard, nil)))
	d.Open()
	l := &listener{commits: make(chan struct{})}
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	if err := d.Serve(ctx, o, l); err != nil {
		t.Fatalf("served: got the error %v, want none", err)
	} else if ctx.Err() != nil {
		t.Fatalf("ctx.Err(): got the error %v, want none", ctx.Err())
	}
	if l := &d.large; l.sum != 0 {
		t.Fatalf("%d bytes are still held, %v of providers: l.sum: got %d, want 0", l.sum, l.arriving, l.sum)
	} else if len(l.arriving) != 0 {
		t.Fatalf("%d bytes are still held, %v of providers: len(l.arriving): got %d, want 0", l.sum, l.arriving,
			len(l.arriving))
	}
	return l, journal.usage
}

// FuzzAnswers has engines answer anything to any kind of request: nothing that
// cannot be read goes out, nothing is called finished that is not, and what is
// billed was both asked for and delivered.
func FuzzAnswers(f *testing.F) {
	for i, answer := range []string{
		`{"data":[{"embedding":[1,2]},{"embedding":"AACAPw=="}],"usage":{"prompt_tokens":9,"total_tokens":9}}`,
		`{"data":[{"url":"x"},{"b64_json":"QQ=="},{"url":"y"}]}`, `{"text":"good day"}`, "WEBVTT\n\n", "\xff",
		"event: image_generation.partial_image\ndata: {\"b64_json\":\"QQ==\"}\n\n" +
			"event: image_generation.completed\ndata: {\"b64_json\":\"QQ==\"}\n\n",
		"data: {\"type\":\"transcript.text.delta\",\"delta\":\"x\"}\r\n\r\n" +
			"data: {\"type\":\"transcript.text.done\",\"text\":\"x\"}\r\n\r\ndata: [DONE]\r\n\r\n",
		"event: error\ndata: {}\n\n", `{"error":{"message":"x","code":429}}`,
		"data: {\"error\":{\"type\":\"BadRequestError\"}}\n\n",
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n",
	} {
		for k := range meter.Kinds() {
			f.Add([]byte(answer), uint8(k), i%2 == 0, i%3 == 0, uint16(7*i), true)
		}
	}
	f.Fuzz(func(t *testing.T, answer []byte, kind uint8, stream, text bool, cut uint16, complete bool) {
		k := meter.Kind(kind) % meter.Kind(len(meter.Kinds()))
		stream = stream && k != meter.Embeddings
		text = text && !stream && k == meter.Transcriptions
		l, usage := answered(t, Config{CommitWait: time.Hour}, orderOf(k, stream, text), answer, int(cut)%(len(answer)+1),
			complete)
		for _, e := range l.events {
			switch {
			case text && !utf8.Valid(e.JSON):
				t.Fatalf("utf8.Valid(e.JSON): got false, want true, where text, with %q", e.JSON)
			case !text && !json.Valid(e.JSON):
				t.Fatalf("json.Valid(e.JSON): got false, want true, where !text, with %q", e.JSON)
			case strings.ContainsAny(e.Name, "\r\n"):
				t.Fatalf("strings.ContainsAny(…): got true, want false, with %q", e.Name)
			}
		}
		if l.finished == (l.failed != nil) {
			t.Fatalf("finished: got %t, want any but %t", l.finished, l.failed != nil)
		}
		if l.failed != nil && l.failed.Retryable && len(l.events) > 0 {
			t.Fatalf("len(l.events): got %d, want 0, where l.failed.Retryable", len(l.events))
		}
		if usage == nil {
			if len(l.events) > 0 {
				t.Fatalf("events not billed: got %d, want 0", len(l.events))
			}
			return
		}
		b := usage.Bill
		switch {
		case b.Prompt < 0:
			t.Fatalf("%v, finished %v: billed: b.Prompt: got %d, want at least 0", k, l.finished, b.Prompt)
		case b.Completion < 0:
			t.Fatalf("%v, finished %v: billed: b.Completion: got %d, want at least 0", k, l.finished, b.Completion)
		case b.Prompt > 4000:
			t.Fatalf("%v, finished %v: billed: b.Prompt: got %d, want at most 4000", k, l.finished, b.Prompt)
		case b.Completion > 2:
			t.Fatalf("%v, finished %v: billed: b.Completion: got %d, want at most 2", k, l.finished, b.Completion)
		case k != meter.Chat && !l.finished && b.Prompt > 0:
			t.Fatalf("%v, finished %v: billed: b.Prompt: got %d, want 0, where k != meter.Chat && !l.finished", k, l.finished,
				b.Prompt)
		case k == meter.Images && b.Prompt != 0:
			t.Fatalf("%v, finished %v: billed: b.Prompt: got %d, want 0, where k == meter.Images", k, l.finished, b.Prompt)
		case k == meter.Images && b.Completion > usage.Served.Recount:
			t.Fatalf("%v, finished %v: billed: b.Completion: got %d, want at most %d, where k == meter.Images", k, l.finished,
				b.Completion, usage.Served.Recount)
		case k == meter.Transcriptions && l.finished && b.Prompt != 1000:
			t.Fatalf("%v, finished %v: billed: b.Prompt: got %d, want 1000, where k == meter.Transcriptions && l.finished", k,
				l.finished, b.Prompt)
		}
	})
}
