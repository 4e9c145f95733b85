package idempotency

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

const (
	granted  = billingv1.KeyClaim_KEY_CLAIM_GRANTED
	running  = billingv1.KeyClaim_KEY_CLAIM_RUNNING
	answered = billingv1.KeyClaim_KEY_CLAIM_ANSWERED
	goneAway = billingv1.KeyClaim_KEY_CLAIM_GONE
	reused   = billingv1.KeyClaim_KEY_CLAIM_REUSED
)

// ledger answers claims as a test says and notes when it was asked.
type ledger struct {
	billingv1.IdempotencyServiceClient
	mu       sync.Mutex
	say      func(n int) (*billingv1.ClaimKeyResponse, error)
	asked    []time.Time
	claims   []*billingv1.ClaimKeyRequest
	finished []*billingv1.FinishKeyRequest
	finish   func(n int) error
}

func (l *ledger) ClaimKey(
	ctx context.Context, req *billingv1.ClaimKeyRequest, _ ...grpc.CallOption,
) (*billingv1.ClaimKeyResponse, error) {
	l.mu.Lock()
	l.asked, l.claims = append(l.asked, time.Now()), append(l.claims, req)
	n := len(l.asked)
	l.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, fault.Wrap(err, fault.Canceled, fault.ClientClosed, "x")
	}
	return l.say(n)
}

func (l *ledger) FinishKey(
	_ context.Context, req *billingv1.FinishKeyRequest, _ ...grpc.CallOption,
) (*billingv1.FinishKeyResponse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.finished = append(l.finished, req)
	if l.finish != nil {
		return &billingv1.FinishKeyResponse{}, l.finish(len(l.finished))
	}
	return &billingv1.FinishKeyResponse{}, nil
}

// states says each in turn, the last one for ever.
func states(all ...billingv1.KeyClaim) func(int) (*billingv1.ClaimKeyResponse, error) {
	return func(n int) (*billingv1.ClaimKeyResponse, error) {
		return &billingv1.ClaimKeyResponse{State: all[min(n, len(all))-1], RequestId: "first"}, nil
	}
}

func keeper(l *ledger) *Keeper {
	return New(Config{
		CallTimeout: time.Second, RenewInterval: 15 * time.Second, Total: time.Minute, MaxWaiting: 3, MaxWaitingPerKey: 2,
		WaitingBytes: 1000, Rate: 50, Burst: 100, Rated: 3,
	}, Deps{Claims: l, Clock: clock.System, Random: rand.Reader, Log: slog.New(slog.DiscardHandler)})
}

func someAsk() Ask {
	return Ask{KeyID: "key-1", APIKey: "sk-secret", Token: "token", Content: Content("/v1/x", "application/json",
		[]byte("{}")), RequestID: "mine", ReceivedAt: time.Now()}
}

func TestEachStandingHasItsAnswer(t *testing.T) {
	for _, tc := range []struct {
		state  billingv1.KeyClaim
		kind   fault.Kind
		reason fault.Reason
		text   string
	}{
		{goneAway, fault.Precondition, apierror.IdempotencyAnswerGone, "/api/v1/requests/first"},
		{reused, fault.Precondition, fault.IdempotencyKeyReused, "first"},
		{answered, fault.Precondition, apierror.IdempotencyAnswerGone, "/api/v1/requests/first"}, // what does not open
		{billingv1.KeyClaim_KEY_CLAIM_UNSPECIFIED, fault.Unavailable, fault.ServiceUnavailable, ""},
	} {
		claim, answer, err := keeper(&ledger{say: states(tc.state)}).Take(t.Context(), someAsk())
		f, ok := fault.As(err)
		switch {
		case !ok:
			t.Errorf("%s: got the error %v, want a fault", tc.state, err)
		case claim != nil:
			t.Errorf("%s: claim: got %+v, want nil", tc.state, claim)
		case answer != nil:
			t.Errorf("%s: answer: got %+v, want nil", tc.state, answer)
		case f.Kind != tc.kind:
			t.Errorf("%s: f.Kind: got %d, want %d", tc.state, f.Kind, tc.kind)
		case f.Reason != tc.reason:
			t.Errorf("%s: f.Reason: got %q, want %q", tc.state, f.Reason, tc.reason)
		case !strings.Contains(f.Message, tc.text):
			t.Errorf("%s: f.Message: got %q, want %q in it", tc.state, f.Message, tc.text)
		}
	}
	switch claim, answer, err := keeper(&ledger{say: states(granted)}).Take(t.Context(), someAsk()); {
	case claim == nil:
		t.Error("granted: claim: got nil, want a value")
	case answer != nil:
		t.Errorf("granted: answer: got %+v, want nil", answer)
	case err != nil:
		t.Errorf("granted: got the error %v, want none", err)
	}
}

func TestAKeptAnswerIsGivenToWhoeverHasTheKeyAndTheToken(t *testing.T) {
	l := &ledger{say: states(granted)}
	k := keeper(l)
	ask := someAsk()
	claim, _, err := k.Take(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	said := &Answer{Status: 200, Header: http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"mine"}},
		Body: []byte(`{"secret":"words"}`)}
	claim.Finish(t.Context(), Kept, said)
	sealed := l.finished[0].GetAnswer().GetSealed()
	switch {
	case l.finished[0].GetEnd() != billingv1.KeyEnd_KEY_END_ANSWERED:
		t.Fatalf("what is kept can be read: l.finished[0].GetEnd(): got %v, want %v", l.finished[0].GetEnd(),
			billingv1.KeyEnd_KEY_END_ANSWERED)
	case bytes.Contains(sealed, []byte("words")):
		t.Fatalf("what is kept can be read: sealed: got %q, want it without %q", sealed, []byte("words"))
	case bytes.Contains(sealed, []byte("application")):
		t.Fatalf("what is kept can be read: sealed: got %q, want it without %q", sealed, []byte("application"))
	}
	l.say = func(int) (*billingv1.ClaimKeyResponse, error) {
		return &billingv1.ClaimKeyResponse{State: answered, RequestId: "mine", Answer: &billingv1.KeptAnswer{Sealed: sealed}},
			nil
	}
	again := ask
	again.RequestID = "second"
	_, answer, err := k.Take(t.Context(), again)
	switch {
	case err != nil:
		t.Fatalf("got the error %v, want none", err)
	case answer.Status != 200:
		t.Fatalf("answer.Status: got %d, want 200", answer.Status)
	case !bytes.Equal(answer.Body, said.Body):
		t.Fatalf("answer.Body: got %q, want %q", answer.Body, said.Body)
	case answer.RequestID != "mine":
		t.Fatalf(`answer.RequestID: got %q, want "mine"`, answer.RequestID)
	case answer.Header.Get("X-Request-Id") != "mine":
		t.Fatalf(`answer.Header.Get("X-Request-Id"): got %q, want "mine"`, answer.Header.Get("X-Request-Id"))
	}
	for name, change := range map[string]func(*Ask){
		"another API key":  func(a *Ask) { a.APIKey = "sk-other" },
		"another key id":   func(a *Ask) { a.KeyID = "key-2" },
		"another token":    func(a *Ask) { a.Token = "other" },
		"another content":  func(a *Ask) { a.Content = Digest{1} },
		"a changed answer": func(*Ask) { sealed[len(sealed)-1]++ },
	} {
		foreign := again
		change(&foreign)
		if _, answer, err := k.Take(t.Context(), foreign); !fault.Is(err, apierror.IdempotencyAnswerGone) {
			t.Errorf("%s opens: got the error %v, want the reason %v (answer is %v)", name, err, apierror.IdempotencyAnswerGone,
				answer)
		}
	}
}

func TestAnAnswerAboveTheBoundIsNotKept(t *testing.T) {
	for _, tc := range []struct {
		body, header int
		want         billingv1.KeyEnd
	}{
		{MaxAnswer, 3800, billingv1.KeyEnd_KEY_END_ANSWERED},
		{MaxAnswer + 1, 0, billingv1.KeyEnd_KEY_END_NOT_KEPT},
		{MaxAnswer, 4096, billingv1.KeyEnd_KEY_END_NOT_KEPT},
	} {
		l := &ledger{say: states(granted)}
		claim, _, err := keeper(l).Take(t.Context(), someAsk())
		if err != nil {
			t.Fatal(err)
		}
		claim.Finish(t.Context(), Kept, &Answer{Status: 200, Header: http.Header{"X": {strings.Repeat("x", tc.header)}},
			Body: make([]byte, tc.body)})
		if got := l.finished[0]; got.GetEnd() != tc.want {
			t.Errorf("%d bytes behind %d: got.GetEnd(): got %v, want %v", tc.body, tc.header, got.GetEnd(), tc.want)
		} else if len(got.GetAnswer().GetSealed()) > maxSealed {
			t.Errorf("%d bytes behind %d: len(got.GetAnswer().GetSealed()): got %d, want at most %d", tc.body, tc.header,
				len(got.GetAnswer().GetSealed()), maxSealed)
		}
	}
}

func TestWhoWaitsAsksWithAGrowingPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{say: states(append(slicesOf(running, 20), granted)...)}
		if _, _, err := keeper(l).Take(t.Context(), someAsk()); err != nil {
			t.Fatal(err)
		}
		if len(l.asked) != 21 {
			t.Fatalf("asked: got %d, want 21", len(l.asked))
		}
		before := time.Duration(0)
		for i := range l.asked[1:] {
			pause := l.asked[i+1].Sub(l.asked[i])
			if pause < before || pause > longestPause {
				t.Errorf("pause %d: pause: got %v, want %v to %v", i, pause, before, longestPause)
			} else if i == 0 && pause != firstPause {
				t.Errorf("pause %d: pause: got %v, want %v, where i == 0", i, pause, firstPause)
			}
			before = pause
		}
		if before != longestPause {
			t.Errorf("the last pause: got %v, want %v", before, longestPause)
		}
	})
}

func slicesOf(s billingv1.KeyClaim, n int) []billingv1.KeyClaim {
	out := make([]billingv1.KeyClaim, n)
	for i := range out {
		out[i] = s
	}
	return out
}

func TestWaitingEndsWithTheRequestsTimeOrItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ask := someAsk()
		ask.ReceivedAt = began.Add(-10 * time.Second)
		_, _, err := keeper(&ledger{say: states(running)}).Take(t.Context(), ask)
		switch f, _ := fault.As(err); {
		case f == nil:
			t.Error("f: got no error, want one")
		case f.Kind != fault.Timeout:
			t.Errorf("f.Kind: got %d, want %d", f.Kind, fault.Timeout)
		case time.Since(began) != 50*time.Second:
			t.Errorf("time.Since(began): got %v, want %v", time.Since(began), 50*time.Second)
		}
		ctx, leave := context.WithTimeout(t.Context(), 3*time.Second)
		defer leave()
		began = time.Now()
		_, _, err = keeper(&ledger{say: states(running)}).Take(ctx, someAsk())
		switch f, _ := fault.As(err); {
		case f == nil:
			t.Error("f: got no error, want one")
		case f.Kind != fault.Canceled:
			t.Errorf("f.Kind: got %d, want %d", f.Kind, fault.Canceled)
		case time.Since(began) != 3*time.Second:
			t.Errorf("time.Since(began): got %v, want %v", time.Since(began), 3*time.Second)
		}
	})
}

func TestWaitingIsBoundedForAKeyAndForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keeper(&ledger{say: states(running)})
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		wait := func(key string) {
			ask := someAsk()
			ask.KeyID = key
			all.Go(func() {
				if _, _, err := k.Take(ctx, ask); fault.Is(err, fault.ConcurrencyLimitExceeded) {
					t.Errorf("room for %s: got the error %v, want any but the reason %v", key, err, fault.ConcurrencyLimitExceeded)
				}
			})
			synctest.Wait()
		}
		refused := func(key string) {
			t.Helper()
			ask := someAsk()
			ask.KeyID = key
			if _, _, err := k.Take(ctx, ask); !fault.Is(err, fault.ConcurrencyLimitExceeded) {
				t.Errorf("one more of %s: got the error %v, want the reason %v", key, err, fault.ConcurrencyLimitExceeded)
			}
		}
		wait("a")
		wait("a")
		refused("a")
		wait("b")
		refused("b")
		leave()
		all.Wait()
		if k.waiting.all != (share{}) {
			t.Errorf("k.waiting.all: got %+v, want %+v", k.waiting.all, share{})
		} else if len(k.waiting.ofKey) != 0 {
			t.Errorf("len(k.waiting.ofKey): got %d, want 0, in %v", len(k.waiting.ofKey), k.waiting.ofKey)
		}
	})
}

func TestNothingRunsWithoutAnAnswerFromTheStore(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		kind fault.Kind
	}{
		"away":       {fault.New(fault.Unavailable, fault.ServiceUnavailable, "x"), fault.Unavailable},
		"slow":       {fault.New(fault.Timeout, fault.DeadlineExceeded, "x"), fault.Unavailable},
		"no room":    {fault.New(fault.Exhausted, fault.RateLimitExceeded, "x"), fault.Exhausted},
		"a new word": {errors.New("x"), 0},
	} {
		l := &ledger{say: func(int) (*billingv1.ClaimKeyResponse, error) { return nil, tc.err }}
		claim, answer, err := keeper(l).Take(t.Context(), someAsk())
		switch f, _ := fault.As(err); {
		case claim != nil:
			t.Errorf("%s: claim: got %+v, want nil", name, claim)
		case answer != nil:
			t.Errorf("%s: answer: got %+v, want nil", name, answer)
		case err == nil:
			t.Errorf("%s: got no error, want one", name)
		case f != nil && f.Kind != tc.kind:
			t.Errorf("%s: f.Kind: got %d, want %d", name, f.Kind, tc.kind)
		}
		// It may be that the claim was made all the same.
		if len(l.finished) != 1 {
			t.Errorf("%s: the claim is ended: len(l.finished): got %d, want 1, in %v", name, len(l.finished), l.finished)
		} else if l.finished[0].GetEnd() != billingv1.KeyEnd_KEY_END_FORGOTTEN {
			t.Errorf("%s: the claim is ended: l.finished[0].GetEnd(): got %v, want %v", name, l.finished[0].GetEnd(),
				billingv1.KeyEnd_KEY_END_FORGOTTEN)
		}
	}
}

func TestARunningRequestRenewsItsClaimUntilItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outage := fault.New(fault.Unavailable, fault.ServiceUnavailable, "x")
		l := &ledger{say: func(n int) (*billingv1.ClaimKeyResponse, error) {
			if n == 3 {
				return nil, outage
			}
			return &billingv1.ClaimKeyResponse{State: granted}, nil
		}}
		claim, _, err := keeper(l).Take(t.Context(), someAsk())
		if err != nil {
			t.Fatal(err)
		}
		held, release := claim.Hold(t.Context())
		<-time.After(61 * time.Second)
		release()
		release()
		if got := held.Err(); got != nil {
			t.Errorf("after a minute: held.Err(): got the error %v, want none", got)
		} else if len(l.claims) != 5 {
			t.Errorf("after a minute: len(l.claims): got %d, want 5", len(l.claims))
		}
		for _, c := range l.claims {
			if c.GetRequestId() != "mine" {
				t.Errorf(`renews: got %q, want "mine"`, c.GetRequestId())
			}
		}
		<-time.After(time.Minute)
		if len(l.claims) != 5 {
			t.Errorf("renewed after its end: got %d, want 5", len(l.claims))
		}
	})
}

func TestAClaimThatIsLostEndsItsRequestWithACause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claim, _, err := keeper(&ledger{say: states(granted, granted, running)}).Take(t.Context(), someAsk())
		if err != nil {
			t.Fatal(err)
		}
		held, release := claim.Hold(t.Context())
		defer release()
		<-held.Done()
		if !errors.Is(context.Cause(held), errLost) {
			t.Errorf("the cause: got the error %v, want %v", context.Cause(held), errLost)
		}
	})
}

func TestTheEndOfAClaimIsSentAgainAFewTimes(t *testing.T) {
	for fails, want := range map[int]int{0: 1, 1: 2, 2: 3, 9: 3} {
		l := &ledger{say: states(granted), finish: func(n int) error {
			if n <= fails {
				return errors.New("x")
			}
			return nil
		}}
		claim, _, err := keeper(l).Take(t.Context(), someAsk())
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithCancel(t.Context())
		leave() // its client has left
		claim.Finish(ctx, Forgotten, nil)
		if len(l.finished) != want {
			t.Errorf("after %d failures the end: got %d, want %d", fails, len(l.finished), want)
		}
	}
}
