package limit

import (
	"context"
	"errors"
	"testing"
	"testing/quick"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

func TestWhatIsLeftOfARate(t *testing.T) {
	const seventh = 8_571_429 * time.Microsecond // of a minute, rounded up
	for _, tc := range []struct {
		limit int32
		ahead time.Duration
		want  Rate
	}{
		{Unlimited, time.Hour, Rate{}},
		{7, 0, Rate{Limit: 7, Remaining: 7}},
		{7, -time.Second, Rate{Limit: 7, Remaining: 7}},
		{7, time.Microsecond, Rate{Limit: 7, Remaining: 6, Reset: time.Microsecond}},
		{7, seventh, Rate{Limit: 7, Remaining: 6, Reset: seventh}},
		{7, seventh + time.Microsecond, Rate{Limit: 7, Remaining: 5, Reset: seventh + time.Microsecond}},
		{7, 6 * seventh, Rate{Limit: 7, Remaining: 1, Reset: 6 * seventh}},
		{7, 7 * seventh, Rate{Limit: 7, Reset: 7 * seventh, Retry: seventh}},
		{7, 2 * time.Minute, Rate{Limit: 7, Reset: 2 * time.Minute, Retry: 2*time.Minute - 6*seventh}},
		{1 << 30, time.Minute, Rate{Limit: 1 << 30, Remaining: 1<<30 - 60_000_000, Reset: time.Minute}},
	} {
		if got := Left(tc.limit, tc.ahead); got != tc.want {
			t.Errorf("%d a minute, %v ahead: got %+v, want %+v", tc.limit, tc.ahead, got, tc.want)
		}
	}
}

// Whoever waits for Retry finds one free, and not a microsecond before.
func TestRetryIsWhenOneIsFree(t *testing.T) {
	if err := quick.Check(func(limit uint16, micros uint32) bool {
		n, ahead := int32(limit)+1, time.Duration(micros)*time.Microsecond
		r := Left(n, ahead)
		switch {
		case r.Remaining < 0 || r.Remaining > n || r.Reset != ahead:
			return false
		case r.Retry == 0:
			return r.Remaining > 0
		}
		return r.Remaining == 0 && Left(n, ahead-r.Retry).Remaining == 1 &&
			Left(n, ahead-r.Retry+time.Microsecond).Remaining == 0
	}, &quick.Config{MaxCount: 10_000}); err != nil {
		t.Error(err)
	}
}

// kept answers with what a test says.
type kept struct {
	left  Rate
	err   error
	class Class
}

func (k *kept) ReadRate(_ context.Context, _ ids.KeyID, class Class) (Rate, error) {
	k.class = class
	return k.left, k.err
}

func TestEachCategoryIsReadInItsClass(t *testing.T) {
	store := &kept{left: Rate{Limit: 3, Remaining: 2, Reset: time.Second}}
	rates := Rates{Store: store, Calls: NewSemaphore(1)}
	for category, class := range map[string]Class{
		"llm": LLM, "multimodal": Multimodal, "embedding": Embedding, "image": Image, "audio": Audio,
	} {
		switch got, err := rates.Read(t.Context(), ids.KeyID{}, category); {
		case err != nil:
			t.Errorf("%s: got the error %v, want none", category, err)
		case got != store.left:
			t.Errorf("%s: rates.Read(…): got %+v, want %+v", category, got, store.left)
		case store.class != class:
			t.Errorf("%s: store.class: got %d, want %d", category, store.class, class)
		}
	}
	for _, category := range []string{"", "LLM", "zero_priced"} {
		if _, err := rates.Read(t.Context(), ids.KeyID{}, category); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("%q: got the error %v, want the reason %v", category, err, fault.InvalidValue)
		}
	}
	store.err = ErrNoKey
	if _, err := rates.Read(t.Context(), ids.KeyID{}, "llm"); !fault.Is(err, fault.InvalidAPIKey) {
		t.Errorf("an unknown key: got the error %v, want the reason %v", err, fault.InvalidAPIKey)
	}
	store.err = errors.New("broken")
	if _, err := rates.Read(t.Context(), ids.KeyID{}, "llm"); !errors.Is(err, store.err) {
		t.Errorf("a broken store: got the error %v, want %v", err, store.err)
	}
}

// Reads wait for each other, and admission for none of them.
func TestAReadWithoutAPlaceIsRefused(t *testing.T) {
	calls := NewSemaphore(1)
	rates := Rates{Store: &kept{}, Calls: calls}
	err := calls.Do(t.Context(), func() error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := rates.Read(ctx, ids.KeyID{}, "llm")
		return err
	})
	if !fault.Is(err, fault.ServiceUnavailable) {
		t.Errorf("refused: got the error %v, want the reason %v", err, fault.ServiceUnavailable)
	}
}
