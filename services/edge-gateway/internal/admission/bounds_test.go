package admission

import (
	"math/rand/v2"
	"testing"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/openaiapi"
)

// Whatever is asked for, the bounds are positive, hold the estimate, and cover
// all choices: nothing wraps.
func TestBoundsNeverWrapAndAlwaysCover(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(values ...int64) int64 { return values[r.IntN(len(values))] }
	for range 20_000 {
		size := openaiapi.Size{
			PromptTokens: pick(0, 1, 100, 1<<20, 10<<20, 40<<20),
			MaxTokens:    pick(0, 1, 500, 1<<20, openaiapi.MaxTokens),
			Choices:      pick(1, 2, openaiapi.MaxChoices),
			Messages:     pick(1, openaiapi.MaxMessages),
		}
		m := &catalog.Model{ContextLength: pick(0, 1, 512, 1<<20, 1<<31-1), MaxOutputTokens: pick(1, 512, 1<<31-1)}
		b, err := BoundsOf(size, m)
		if size.MaxTokens > m.MaxOutputTokens {
			if !fault.Is(err, fault.InvalidValue) {
				t.Fatalf("got the error %v, want the reason %v", err, fault.InvalidValue)
			}
			continue
		}
		switch {
		case err != nil:
			t.Fatalf("got the error %v, want none", err)
		case b.MaxOutputTokens < 1 || b.MaxOutputTokens > m.MaxOutputTokens:
			t.Fatalf("b.MaxOutputTokens: got %d, want 1 to %d", b.MaxOutputTokens, m.MaxOutputTokens)
		case b.HoldPromptTokens <= size.PromptTokens:
			t.Fatalf("b.HoldPromptTokens: got %d, want more than %d", b.HoldPromptTokens, size.PromptTokens)
		case b.HoldCompletionTokens != b.MaxOutputTokens*size.Choices:
			t.Fatalf("b.HoldCompletionTokens: got %d, want %d", b.HoldCompletionTokens, b.MaxOutputTokens*size.Choices)
		case size.MaxTokens > 0 && b.MaxOutputTokens > size.MaxTokens:
			t.Fatalf("b.MaxOutputTokens: got %d, want at most %d, where size.MaxTokens > 0", b.MaxOutputTokens, size.MaxTokens)
		}
	}
}

func TestTheHoldHasItsMargin(t *testing.T) {
	m := &catalog.Model{ContextLength: 500, MaxOutputTokens: 1000}
	b, err := BoundsOf(openaiapi.Size{PromptTokens: 101, Choices: 1, Messages: 3}, m)
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case b.HoldPromptTokens != 117+16+24:
		t.Errorf("b.HoldPromptTokens: got %d, want 117+16+24", b.HoldPromptTokens)
	case b.MaxOutputTokens != 500-157:
		t.Errorf("b.MaxOutputTokens: got %d, want 500-157", b.MaxOutputTokens)
	}
	// Who names a bound is held to the estimate alone, as eligibility is.
	b, err = BoundsOf(openaiapi.Size{PromptTokens: 101, Choices: 1, Messages: 3, MaxTokens: 400}, m)
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case b.HoldPromptTokens != 117+16+24:
		t.Errorf("with a bound of its own: b.HoldPromptTokens: got %d, want 117+16+24", b.HoldPromptTokens)
	case b.MaxOutputTokens != 399:
		t.Errorf("with a bound of its own: b.MaxOutputTokens: got %d, want 399", b.MaxOutputTokens)
	}
}

// What engines make of a prompt at most is held, but not beyond the window.
func TestTheHoldCoversTheBoundWithinTheWindow(t *testing.T) {
	m := &catalog.Model{ContextLength: 5000, MaxOutputTokens: 1000}
	for _, c := range []struct{ tokens, bound, want int64 }{{100, 300, 300}, {100, 1 << 40, 5000}, {6000, 1 << 40, 6900}} {
		b, err := BoundsOf(openaiapi.Size{PromptTokens: c.tokens, PromptBound: c.bound, Choices: 1, Messages: 2}, m)
		if want := c.want + holdPerRequest + 2*holdPerMessage; err != nil || b.HoldPromptTokens != want {
			t.Errorf("%+v: got %d, %v; want %d", c, b.HoldPromptTokens, err, want)
		}
	}
	m.Endpoint = hubv1.Endpoint_ENDPOINT_EMBEDDINGS
	several := openaiapi.Size{PromptTokens: 100, PromptBound: 12_000, Inputs: 3}
	if b, err := BoundsOf(several, m); err != nil || b.HoldPromptTokens != 12_000+holdPerRequest+3*holdPerMessage {
		t.Errorf("got %+v, %v; want 12000 and the margins: each input has a window", b, err)
	}
}

// Images are priced by the image, so the tokens of their prompt cost nothing.
func TestThePromptOfImagesCostsNothing(t *testing.T) {
	m := &catalog.Model{Endpoint: hubv1.Endpoint_ENDPOINT_IMAGES}
	got, err := BoundsOf(openaiapi.Size{PromptTokens: 100, PromptBound: 200, LargestTokens: 100, Choices: 3}, m)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Bounds{MaxOutputTokens: 1, HoldCompletionTokens: 3}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
