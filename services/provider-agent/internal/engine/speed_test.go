package engine

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
)

// ticking is a clock that goes on 100 ms with each look.
func ticking() func() time.Time {
	at := time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)
	return func() time.Time {
		at = at.Add(100 * time.Millisecond)
		return at
	}
}

func TestTheSpeedOfAnEngineIsMeasuredByItsStream(t *testing.T) {
	fake := fakeengine.New(t)
	fake.Script("m", fakeengine.Behaviour{Tokens: fakeengine.Words(11)})
	pool := New(Config{}, []Target{{ModelID: "id", URL: fake.URL + "/v1", LocalModel: "m", Capacity: 1}},
		slog.New(slog.DiscardHandler))
	got, err := pool.Measure(t.Context(), "id", 64, ticking())
	if err != nil {
		t.Fatal(err)
	}
	if got.FirstToken != 100*time.Millisecond {
		t.Errorf("first token: got %v, want 100 ms", got.FirstToken)
	}
	if got.Tokens != 11 {
		t.Errorf("tokens: got %d, want 11", got.Tokens)
	}
	if got.PerSecond != 10 {
		t.Errorf("tokens a second: got %v, want 10", got.PerSecond)
	}
	if _, err := pool.Measure(t.Context(), "other", 64, ticking()); err == nil {
		t.Error("a model that is not served: got no error, want one")
	}
}

func TestAStreamThatIsNoneHasNoSpeed(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "no content": "data: {\"choices\":[]}\n\ndata: [DONE]\n", "no JSON": "data: <html>\n",
		"a line without end": "data: " + strings.Repeat("x", maxLine+1),
	} {
		if got, err := readSpeed(strings.NewReader(text), time.Time{}, ticking()); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}
