package idempotency_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"

	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/idempotency"
	"svc.internal/services/billing-ledger/internal/limit"
)

// stuck is a store in which nobody's claim but that of one request comes to an
// end.
type stuck struct {
	holder ids.RequestID
	let    chan struct{}
}

func (s stuck) ReadKey(_ context.Context, ask idempotency.Ask) (idempotency.Answer, error) {
	if ask.Request == s.holder {
		return idempotency.Answer{Standing: idempotency.Granted, Request: s.holder}, nil
	}
	return idempotency.Answer{Standing: idempotency.Granted}, nil
}

func (s stuck) ClaimKey(_ context.Context, ask idempotency.Ask) (idempotency.Answer, error) {
	if ask.Request != s.holder {
		<-s.let
	}
	return idempotency.Answer{Standing: idempotency.Granted, Request: ask.Request}, nil
}

func (stuck) FinishKey(context.Context, idempotency.End, idempotency.Quota) (idempotency.Outcome, error) {
	return idempotency.NoEnd, nil
}

func TestAClaimIsRenewedAndEndedWhileNewOnesOfItsKeyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := stuck{holder: mine, let: make(chan struct{})}
		claims := &idempotency.Claims{
			Store:   store,
			Reads:   limit.NewFairSemaphore[ids.KeyID](1, 1, 9),
			New:     limit.NewFairSemaphore[ids.KeyID](2, 2, 9),
			Running: limit.NewFairSemaphore[ids.KeyID](1, 1, 9),
		}
		key := ids.KeyID{1}
		for range 9 {
			go func() {
				if _, err := claims.Claim(t.Context(), idempotency.Ask{Key: key, Request: theirs}); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		if a, err := claims.Claim(t.Context(), idempotency.Ask{Key: key, Request: mine}); err != nil {
			t.Errorf("got the error %v, want none", err)
		} else if a.Request != mine {
			t.Errorf("the holder renews: a.Request: got %v, want %v", a.Request, mine)
		}
		if err := claims.Finish(t.Context(), idempotency.End{Key: key, Request: mine,
			State: idempotency.NotKept}); err != nil {
			t.Error(err)
		}
		close(store.let)
		synctest.Wait()
	})
}

// full is a store without room for an answer.
type full struct{ stuck }

func (full) FinishKey(_ context.Context, e idempotency.End, quota idempotency.Quota) (idempotency.Outcome, error) {
	switch {
	case e.State == idempotency.Forget:
		return idempotency.NoEnd, nil
	case quota.OfAccount < int64(len(e.Sealed)):
		return idempotency.AccountFull, nil
	}
	return idempotency.Kept, nil
}

func TestWhatBecomesOfAnAnswerIsTold(t *testing.T) {
	var told []idempotency.Outcome
	claims := &idempotency.Claims{
		Store: full{}, Running: limit.NewFairSemaphore[ids.KeyID](1, 1, 9), Quota: idempotency.Quota{OfAccount: 2, InAll: 9},
		Observe: func(o idempotency.Outcome) { told = append(told, o) },
	}
	for _, e := range []idempotency.End{
		{State: idempotency.Answered, Sealed: []byte("ab")}, {State: idempotency.Forget}, {State: idempotency.Answered,
			Sealed: []byte("abc")},
	} {
		if err := claims.Finish(t.Context(), e); err != nil {
			t.Error(err)
		}
	}
	if want := []idempotency.Outcome{idempotency.Kept, idempotency.AccountFull}; !slices.Equal(told, want) {
		t.Errorf("got %v told, want %v", told, want)
	}
}
