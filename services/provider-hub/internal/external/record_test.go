package external

import (
	"context"
	"testing"
	"time"

	"svc.internal/services/provider-hub/internal/session"
)

func TestACallSaysOfItsEndpointWhatTheEndpointDid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what   string
		end    session.End
		cause  error
		stream bool
		silent time.Duration
		want   outcome
	}{
		{"an answer", session.End{Status: 200, Complete: true}, nil, true, 0, answered},
		{"an answer that is cut off", session.End{Status: 200}, nil, true, 0, failed},
		{"no answer", session.End{}, nil, true, 0, failed},
		{"its own failure", session.End{Status: 500, Complete: true}, nil, true, 0, failed},
		{"a redirect", session.End{Status: 302, Complete: true}, nil, true, 0, failed},
		{"its owner's key", session.End{Status: 401, Complete: true}, nil, true, 0, failed},
		{"nothing at that path", session.End{Status: 404, Complete: true}, nil, true, 0, failed},
		{"a refusal of the content", session.End{Status: 400, Complete: true}, nil, true, 0, saysNothing},
		{"too many requests", session.End{Status: 429, Complete: true}, nil, true, 0, saysNothing},
		{"a consumer who leaves", session.End{}, context.Canceled, true, time.Second, saysNothing},
		{"silence", session.End{}, context.Canceled, true, time.Minute, failed},
		{"a consumer who leaves a whole answer", session.End{}, context.Canceled, false, time.Minute, saysNothing},
	} {
		if got := outcomeOf(&c.end, c.cause, c.stream, c.silent); got != c.want {
			t.Errorf("%s: got %d, want %d", c.what, got, c.want)
		}
	}
}

func TestAnEndpointWhoseCallsFailRestsLongerEachTimeUntilOneIsAnswered(t *testing.T) {
	t.Parallel()
	var r record
	now := time.Unix(1_800_000_000, 0)
	fails := func(times int) (left int) {
		for range times {
			if r.note(failed, now) && r.judge(failed, now) {
				left++
			}
		}
		return left
	}
	if got := fails(failedCalls - 1); got != 0 {
		t.Errorf("after %d failures: got %d rests, want none", failedCalls-1, got)
	}
	r.note(saysNothing, now)
	for i, want := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute,
		16 * time.Minute, 16 * time.Minute} {
		if got := fails(1); got != 1 {
			t.Fatalf("rest %d: got %d, want one", i, got)
		}
		if got := fails(3); got != 0 { // calls that were under way
			t.Errorf("rest %d: got %d further ones, want none", i, got)
		}
		if got := r.until.Sub(now); got != want {
			t.Errorf("rest %d: got %v, want %v", i, got, want)
		}
		now = r.until
	}
	r.note(answered, now)
	if got := fails(failedCalls); got != 1 {
		t.Errorf("after an answer: got %d rests, want one", got)
	}
	if got := r.until.Sub(now); got != firstRest {
		t.Errorf("after an answer: got a rest of %v, want %v", got, firstRest)
	}
}

// Consumers choose what is in a call, so their failures alone say too little.
func TestAnEndpointThatAnswersTheHubKeepsItsSessionWhateverConsumersSend(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	for _, o := range []outcome{answered, saysNothing} {
		var r record
		for i := range 100 * failedCalls {
			asks := r.note(failed, now)
			if want := (i+1)%failedCalls == 0; asks != want {
				t.Fatalf("failure %d: the hub asks: got %v, want %v", i, asks, want)
			}
			if asks && r.judge(o, now) {
				t.Fatalf("failure %d: got a rest, want none", i)
			}
		}
	}
}

func TestAHubAsksOneThingAtATimeAndACallThatIsAnsweredMeanwhileOverrulesIt(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	var r record
	asked := 0
	for range 100 * failedCalls {
		if r.note(failed, now) {
			asked++
		}
	}
	if asked != 1 {
		t.Errorf("while the hub asks: got %d further times, want none", asked-1)
	}
	r.note(answered, now)
	if r.judge(failed, now) {
		t.Error("after an answer: got a rest, want none")
	}
}
