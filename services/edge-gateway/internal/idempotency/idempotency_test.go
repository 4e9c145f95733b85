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
		if !ok || claim != nil || answer != nil || f.Kind != tc.kind || f.Reason != tc.reason ||
			!strings.Contains(f.Message, tc.text) {
			t.Errorf("%s: %v, %v, %v", tc.state, claim, answer, err)
		}
	}
	if claim, answer, err := keeper(&ledger{say: states(granted)}).Take(t.Context(), someAsk()); claim == nil ||
		answer != nil || err != nil {
		t.Errorf("granted: %v, %v, %v", claim, answer, err)
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
	if l.finished[0].GetEnd() != billingv1.KeyEnd_KEY_END_ANSWERED || bytes.Contains(sealed, []byte("words")) ||
		bytes.Contains(sealed, []byte("application")) {
		t.Fatalf("what is kept can be read: %q", sealed)
	}
	l.say = func(int) (*billingv1.ClaimKeyResponse, error) {
		return &billingv1.ClaimKeyResponse{State: answered, RequestId: "mine", Answer: &billingv1.KeptAnswer{Sealed: sealed}},
			nil
	}
	again := ask
	again.RequestID = "second"
	_, answer, err := k.Take(t.Context(), again)
	if err != nil || answer.Status != 200 || !bytes.Equal(answer.Body, said.Body) || answer.RequestID != "mine" ||
		answer.Header.Get("X-Request-Id") != "mine" {
		t.Fatalf("the answer is %+v, %v", answer, err)
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
			t.Errorf("%s opens it: %v, %v", name, answer, err)
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
		if got := l.finished[0]; got.GetEnd() != tc.want || len(got.GetAnswer().GetSealed()) > maxSealed {
			t.Errorf("%d bytes behind %d: %s with %d", tc.body, tc.header, got.GetEnd(), len(got.GetAnswer().GetSealed()))
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
			t.Fatalf("asked %d times", len(l.asked))
		}
		before := time.Duration(0)
		for i := range l.asked[1:] {
			pause := l.asked[i+1].Sub(l.asked[i])
			if pause < before || pause > longestPause || i == 0 && pause != firstPause {
				t.Errorf("pause %d is %s after %s", i, pause, before)
			}
			before = pause
		}
		if before != longestPause {
			t.Errorf("the last pause is %s", before)
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
		if f, _ := fault.As(err); f == nil || f.Kind != fault.Timeout || time.Since(began) != 50*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		ctx, leave := context.WithTimeout(t.Context(), 3*time.Second)
		defer leave()
		began = time.Now()
		_, _, err = keeper(&ledger{say: states(running)}).Take(ctx, someAsk())
		if f, _ := fault.As(err); f == nil || f.Kind != fault.Canceled || time.Since(began) != 3*time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
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
					t.Errorf("%s finds no room", key)
				}
			})
			synctest.Wait()
		}
		refused := func(key string) {
			t.Helper()
			ask := someAsk()
			ask.KeyID = key
			if _, _, err := k.Take(ctx, ask); !fault.Is(err, fault.ConcurrencyLimitExceeded) {
				t.Errorf("one more of %s: %v", key, err)
			}
		}
		wait("a")
		wait("a")
		refused("a")
		wait("b")
		refused("b")
		leave()
		all.Wait()
		if k.waiting.all != (share{}) || len(k.waiting.ofKey) != 0 {
			t.Errorf("%v still wait, by %v", k.waiting.all, k.waiting.ofKey)
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
		if f, _ := fault.As(err); claim != nil || answer != nil || err == nil || f != nil && f.Kind != tc.kind {
			t.Errorf("%s: %v, %v, %v", name, claim, answer, err)
		}
		// It may be that the claim was made all the same.
		if len(l.finished) != 1 || l.finished[0].GetEnd() != billingv1.KeyEnd_KEY_END_FORGOTTEN {
			t.Errorf("%s: the claim is ended by %v", name, l.finished)
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
		if held.Err() != nil || len(l.claims) != 5 {
			t.Errorf("after a minute: %v, asked %d times", context.Cause(held), len(l.claims))
		}
		for _, c := range l.claims {
			if c.GetRequestId() != "mine" {
				t.Errorf("%s renews", c.GetRequestId())
			}
		}
		<-time.After(time.Minute)
		if len(l.claims) != 5 {
			t.Error("renewed after its end")
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
			t.Errorf("the cause is %v", context.Cause(held))
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
			t.Errorf("after %d failures the end was sent %d times", fails, len(l.finished))
		}
	}
}
