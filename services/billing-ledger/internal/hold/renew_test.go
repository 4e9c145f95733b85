package hold

import (
	"context"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// leases keeps what it is given.
type leases struct{ renewed []Renewal }

func (l *leases) Renew(_ context.Context, all []Renewal) (lapsed, unwritten []ids.RequestID, err error) {
	l.renewed = append(l.renewed, all...)
	return []ids.RequestID{all[0].Request}, nil, nil
}

func TestRenewalsAreBoundedAndStandOnce(t *testing.T) {
	l := &leases{}
	r := &Renewer{Store: l}
	if _, err := r.Renew(t.Context(), make([]Renewal, MaxRenewals+1)); !fault.Is(err, fault.InvalidValue) {
		t.Errorf("%d renewals: got the error %v, want the reason %v", MaxRenewals+1, err, fault.InvalidValue)
	}
	a, b, c := ids.RequestID{1}, ids.RequestID{2}, ids.RequestID{3}
	lapsed, err := r.Renew(t.Context(), []Renewal{
		{Request: a, RelayedTokens: 5},
		{Request: b, CommittedAttempt: 1, Provider: ids.ProviderID{1}, Hub: "h", RelayedTokens: 3, RelayedBytes: -1},
		{Request: c, CommittedAttempt: 1, RelayedTokens: 3},
		{Request: b, CommittedAttempt: 1, Provider: ids.ProviderID{1}, Hub: "h", RelayedTokens: 4, RelayedBytes: 9},
	})
	want := []Renewal{
		{Request: a}, {Request: b, CommittedAttempt: 1, Provider: ids.ProviderID{1}, Hub: "h", RelayedTokens: 4,
			RelayedBytes: 9}, {Request: c},
	}
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if len(l.renewed) != len(want) {
		t.Fatalf("len(l.renewed): got %d, want %d, in %+v", len(l.renewed), len(want), l.renewed)
	}
	if len(lapsed) != 1 {
		t.Errorf("%v came too late: len(lapsed): got %d, want 1", lapsed, len(lapsed))
	} else if lapsed[0] != a {
		t.Errorf("%v came too late: lapsed[0]: got %v, want %v", lapsed, lapsed[0], a)
	}
	for i, w := range want {
		if l.renewed[i] != w {
			t.Errorf("renewed: got %+v, want %+v", l.renewed[i], w)
		}
	}
}
