package idempotency

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

func TestAClaimIsAskedForAgainOnceItIsOld(t *testing.T) {
	outage := fault.New(fault.Unavailable, fault.ServiceUnavailable, "x")
	for name, tc := range map[string]struct {
		age   time.Duration
		state billingv1.KeyClaim
		err   error
		asked int
		sure  bool
	}{
		"fresh":              {reliedOnFor, running, nil, 1, true},
		"old":                {reliedOnFor + 1, granted, nil, 2, true},
		"taken over":         {reliedOnFor + 1, running, nil, 2, false},
		"ended by another":   {reliedOnFor + 1, answered, nil, 2, false},
		"the store is away":  {reliedOnFor + 1, 0, outage, 2, false},
		"the store is slow":  {reliedOnFor + 1, 0, fault.New(fault.Timeout, fault.DeadlineExceeded, "x"), 2, false},
		"the store is wrong": {reliedOnFor + 1, 0, errors.New("x"), 2, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &ledger{say: func(n int) (*billingv1.ClaimKeyResponse, error) {
				if n == 1 {
					<-time.After(tc.age) // it stands still after the grant
					return &billingv1.ClaimKeyResponse{State: granted}, nil
				}
				return &billingv1.ClaimKeyResponse{State: tc.state}, tc.err
			}}
			claim, _, err := keeper(l).Take(t.Context(), someAsk())
			if err != nil {
				t.Fatal(err)
			}
			err = claim.EnsureHeld(t.Context())
			switch f, _ := fault.As(err); {
			case (err == nil) != tc.sure:
				t.Errorf("%s: err == nil: got %t, want %t", name, err == nil, tc.sure)
			case err != nil && f == nil:
				t.Errorf("%s: f: got no error, want one", name)
			case err != nil && f.Kind != fault.Unavailable:
				t.Errorf("%s: f.Kind: got %d, want %d", name, f.Kind, fault.Unavailable)
			case err != nil && f.RetryAfter == 0:
				t.Errorf("%s: f.RetryAfter: got 0, want any but 0", name)
			}
			if len(l.asked) != tc.asked {
				t.Errorf("%s: asked: got %d, want %d", name, len(l.asked), tc.asked)
			}
		})
	}
}

func TestARenewedClaimIsSureAndALostOneIsNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{say: states(granted, granted, granted, granted, running)}
		claim, _, err := keeper(l).Take(t.Context(), someAsk())
		if err != nil {
			t.Fatal(err)
		}
		held, release := claim.Hold(t.Context())
		defer release()
		<-time.After(50 * time.Second)
		err = claim.EnsureHeld(t.Context())
		l.mu.Lock()
		asked := len(l.asked)
		l.mu.Unlock()
		if err != nil {
			t.Errorf("renewed three times: got the error %v, want none", err)
		} else if asked != 4 {
			t.Errorf("renewed three times: asked: got %d, want 4", asked)
		}
		<-held.Done()
		if err := claim.EnsureHeld(t.Context()); !errors.Is(err, errLost) {
			t.Errorf("after it was lost: got the error %v, want %v", err, errLost)
		}
	})
}
