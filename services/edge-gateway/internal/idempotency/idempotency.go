// Package idempotency runs a request once for its Idempotency-Key, and has it billed
// once, whichever gateways its repeats reach.
//
// billing-ledger keeps the claims. A request claims its key before it runs. While another
// request has the claim, the gateway asks again, with a pause that grows to longestPause,
// until that request has ended, the client has left or the request's time is over. A
// request that runs renews its claim each RenewInterval.
//
// A billed whole answer of at most MaxAnswer bytes is kept for 24 hours for later
// repeats, which get it with Idempotency-Replayed. It is sealed under the caller's own
// API key, so that nobody can read the store without that key. The repeat of a stream, of
// a larger answer, or of an answer beyond billing-ledger's quotas (64 MiB of kept answers
// an account, 16 GiB in all) fails with idempotency_answer_gone. The same key with
// another route or body fails with idempotency_key_reused. A request that cost nothing
// runs again.
//
// Limits: a key of 255 characters; an answer of MaxAnswer bytes; Config.Rate keys a
// second of one consumer key; Config.MaxWaiting requests that wait, of which a consumer
// key may have Config.MaxWaitingPerKey, and maxUploads with a file, because each keeps
// its body. The bodies of waiting requests have Config.WaitingBytes together, of which a
// consumer key may have a quarter.
package idempotency

import (
	"context"
	"io"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// The pause before the gateway asks again whether another request still runs.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 2 * time.Second
)

// Config has the times and bounds of claims.
type Config struct {
	// CallTimeout bounds one call to billing-ledger.
	CallTimeout time.Duration
	// RenewInterval is the pause between two renewals of a running request's claim.
	// Without a renewal billing-ledger gives the claim up after a minute.
	RenewInterval time.Duration
	// Total is how long a request may wait and run together.
	Total time.Duration
	// MaxWaiting is how many requests of this gateway may wait for others,
	// MaxWaitingPerKey how many of one consumer key.
	MaxWaiting, MaxWaitingPerKey int
	// WaitingBytes bounds the memory of the bodies of all requests that wait. One
	// consumer key may have a quarter of it.
	WaitingBytes int64
	// Rate is how many requests with an Idempotency-Key a consumer key may send in a
	// second, Burst how many at once. Rated is how many consumer keys are remembered for
	// that.
	Rate, Burst, Rated int
}

// Deps are the parts a Keeper works with.
type Deps struct {
	Claims billingv1.IdempotencyServiceClient
	Clock  clock.Clock
	Random io.Reader
	Log    *slog.Logger
}

// Keeper claims keys for all requests of a gateway.
type Keeper struct {
	cfg     Config
	deps    Deps
	waiting waiting
	rates   *rates
}

// New makes a keeper.
func New(cfg Config, deps Deps) *Keeper {
	return &Keeper{
		cfg: cfg, deps: deps,
		waiting: waiting{
			limit:     share{requests: cfg.MaxWaiting, uploads: cfg.MaxWaiting, bytes: cfg.WaitingBytes},
			maxPerKey: share{requests: cfg.MaxWaitingPerKey, uploads: maxUploads, bytes: cfg.WaitingBytes / 4},
			ofKey:     map[string]share{},
		},
		rates: newRates(cfg.Rate, cfg.Burst, cfg.Rated),
	}
}

// Ask is a request that carries an Idempotency-Key.
type Ask struct {
	// KeyID names the consumer key. APIKey is the text of that key, under which answers
	// are sealed.
	KeyID, APIKey string
	Token         Token
	Content       Digest
	RequestID     string
	// ReceivedAt is when the request's time began.
	ReceivedAt time.Time
	// Holds is the memory in bytes that the request's body has while it waits. Upload
	// says that this memory is that of uploads.
	Holds  int64
	Upload bool
}

// Take claims the key of a request. It returns the claim, or else the answer that the
// request was given before. Its faults are in the public table:
// idempotency_key_reused, idempotency_answer_gone, timeout, concurrency_limit_exceeded
// when too many requests wait, rate_limit_exceeded when the consumer key has used too
// many keys or sends them too fast, and service_unavailable.
func (k *Keeper) Take(ctx context.Context, ask Ask) (*KeyClaim, *Answer, error) {
	if wait := k.rates.take(ask.KeyID, k.deps.Clock.Now()); wait > 0 {
		return nil, nil, fault.New(fault.Exhausted, fault.RateLimitExceeded,
			"Too many requests with an Idempotency-Key.").After(wait)
	}
	waits := false
	for pause := firstPause; ; pause = min(pause*3/2, longestPause) {
		asked := k.deps.Clock.Now()
		resp, err := k.claim(ctx, ask)
		if err != nil {
			k.abandon(ctx, ask)
			return nil, nil, err
		}
		switch resp.GetState() {
		case billingv1.KeyClaim_KEY_CLAIM_GRANTED:
			return &KeyClaim{keeper: k, ask: ask, granted: asked}, nil, nil
		case billingv1.KeyClaim_KEY_CLAIM_ANSWERED:
			answer, err := k.open(ctx, ask, resp)
			return nil, answer, err
		case billingv1.KeyClaim_KEY_CLAIM_GONE:
			return nil, nil, answerGone(resp.GetRequestId())
		case billingv1.KeyClaim_KEY_CLAIM_REUSED:
			return nil, nil, fault.New(fault.Precondition, fault.IdempotencyKeyReused,
				"This Idempotency-Key was used for another request, %s.", resp.GetRequestId()).On(Header)
		case billingv1.KeyClaim_KEY_CLAIM_RUNNING:
		case billingv1.KeyClaim_KEY_CLAIM_UNSPECIFIED:
			return nil, nil, fault.New(fault.Unavailable, fault.ServiceUnavailable,
				"A part of the service gives no answer that is understood.")
		}
		if !waits {
			if !k.waiting.enter(&ask) {
				return nil, nil, fault.New(fault.Exhausted, fault.ConcurrencyLimitExceeded,
					"Too many requests wait for others with the same Idempotency-Key.").After(longestPause)
			}
			defer k.waiting.leave(&ask)
			waits = true
		}
		if err := k.pause(ctx, ask, pause); err != nil {
			return nil, nil, err
		}
	}
}

func answerGone(requestID string) error {
	return fault.New(fault.Precondition, apierror.IdempotencyAnswerGone,
		"This request was answered before, and its answer is not kept: streams, answers above 1 MiB and those beyond the "+
			"64 MiB of an account are not. "+
			"Its receipt is GET /api/v1/requests/%s.", requestID).On(Header)
}

// open returns the kept answer. An answer that cannot be opened counts as not kept.
func (k *Keeper) open(ctx context.Context, ask Ask, resp *billingv1.ClaimKeyResponse) (*Answer, error) {
	answer, err := open(ask, resp.GetRequestId(), resp.GetAnswer().GetSealed())
	if err != nil {
		k.deps.Log.ErrorContext(ctx, "a kept answer does not open", "request_id", resp.GetRequestId(), "error", err)
		return nil, answerGone(resp.GetRequestId())
	}
	answer.RequestID = resp.GetRequestId()
	return answer, nil
}

// pause waits for d, unless the client leaves or the request's time ends before.
func (k *Keeper) pause(ctx context.Context, ask Ask, d time.Duration) error {
	left := k.cfg.Total - k.deps.Clock.Now().Sub(ask.ReceivedAt)
	if left <= 0 {
		return fault.New(fault.Timeout, fault.DeadlineExceeded,
			"Another request with this Idempotency-Key still runs.")
	}
	timer := time.NewTimer(min(d, left))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return fault.Wrap(ctx.Err(), fault.Canceled, fault.ClientClosed, "the client has left")
	case <-timer.C:
		return nil
	}
}

// claim asks billing-ledger once.
func (k *Keeper) claim(ctx context.Context, ask Ask) (*billingv1.ClaimKeyResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, k.cfg.CallTimeout)
	defer cancel()
	resp, err := k.deps.Claims.ClaimKey(ctx, &billingv1.ClaimKeyRequest{
		KeyId: ask.KeyID, TokenSha256: ask.Token.digest(), RequestSha256: ask.Content[:], RequestId: ask.RequestID,
	})
	return resp, apierror.OfPeer(err)
}

// abandonTimeout bounds the call that gives up a claim of unknown outcome.
const abandonTimeout = time.Second

// abandon gives up a claim whose grant may have been lost on the way, so that the next
// request need not wait until the claim lapses. Its failure is not reported, because the
// claim lapses then.
func (k *Keeper) abandon(ctx context.Context, ask Ask) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(abandonTimeout, k.cfg.CallTimeout))
	defer cancel()
	if err := k.finish(ctx, ask, billingv1.KeyEnd_KEY_END_FORGOTTEN, nil); err != nil {
		k.deps.Log.DebugContext(ctx, "a claim that may exist is left to lapse", "request_id", ask.RequestID, "error", err)
	}
}

func (k *Keeper) finish(ctx context.Context, ask Ask, end billingv1.KeyEnd, sealed []byte) error {
	req := &billingv1.FinishKeyRequest{KeyId: ask.KeyID, TokenSha256: ask.Token.digest(), RequestId: ask.RequestID,
		End: end}
	if sealed != nil {
		req.Answer = &billingv1.KeptAnswer{Sealed: sealed}
	}
	_, err := k.deps.Claims.FinishKey(ctx, req)
	return err
}
