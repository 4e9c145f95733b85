package peers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/hold"
	"svc.internal/services/billing-ledger/internal/slice"
)

// owner is another replica, as a client sees it.
type owner struct {
	billingv1.SliceServiceClient
	admit  func() error
	recall func() error
	// another reports whether another replica has taken the account, and otherProcess whether another
	// process runs at the address.
	another, otherProcess bool
	// recalledByRow counts the recalls through the database.
	recalledByRow int
}

func (o *owner) AdmitHere(
	context.Context, *billingv1.AdmitHereRequest, ...grpc.CallOption,
) (*billingv1.AdmitHereResponse, error) {
	if err := o.admit(); err != nil {
		return nil, err
	}
	if o.another {
		return &billingv1.AdmitHereResponse{}, nil
	}
	return &billingv1.AdmitHereResponse{Response: &billingv1.AdmitResponse{AccountId: "owner's"}}, nil
}

func (o *owner) Recall(
	context.Context, *billingv1.RecallRequest, ...grpc.CallOption,
) (*billingv1.RecallResponse, error) {
	return &billingv1.RecallResponse{OtherProcess: o.otherProcess}, o.recall()
}

var elsewhere = hold.SliceOpen{Owner: [16]byte{7}, Address: "10.0.0.2:9000"}

func owners(o *owner) *Owners {
	return &Owners{Own: [16]byte{1}, Clock: clock.System,
		Dial: func(string) (billingv1.SliceServiceClient, error) { return o, nil },
		RecallByRow: func(context.Context, hold.SliceOpen) error {
			o.recalledByRow++
			return nil
		}}
}

func yes() error { return nil }

func away() error { return fault.New(fault.Unavailable, fault.ServiceUnavailable, "away") }

// here decides as a replica that finds the slice open for so many times.
func here(found *int, times int) Decide {
	return func(context.Context) (*billingv1.AdmitResponse, error) {
		if *found++; *found <= times {
			return nil, fault.Wrap(elsewhere, fault.Unavailable, fault.AdmissionUnavailable, "not decided")
		}
		return &billingv1.AdmitResponse{AccountId: "here"}, nil
	}
}

func TestTheOwnerOfASliceDecidesAndIsRemembered(t *testing.T) {
	o := &owner{admit: yes}
	other, found := owners(o), 0
	for range 3 {
		resp, err := other.Admit(t.Context(), ids.KeyID{1}, &billingv1.AdmitRequest{}, here(&found, 1))
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.GetAccountId(); got != "owner's" {
			t.Errorf("decided by: got %s, want owner's", got)
		}
	}
	if found != 1 {
		t.Errorf("looks at the database: got %d, want 1", found)
	}
}

func TestARefusalOfTheOwnerStands(t *testing.T) {
	for _, refusal := range []error{
		fault.New(fault.Precondition, fault.InsufficientCredits, "short"),
		fault.New(fault.Unavailable, fault.AdmissionUnavailable, "too many requests wait"),
	} {
		o := &owner{admit: func() error { return refusal }}
		found := 0
		_, err := owners(o).Admit(t.Context(), ids.KeyID{1}, &billingv1.AdmitRequest{}, here(&found, 1))
		if !errors.Is(err, refusal) {
			t.Errorf("error: got %v, want %v", err, refusal)
		}
	}
}

func TestAnOwnerThatIsNoneAnyMoreIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owner{admit: yes, another: true}
		other, found := owners(o), 0
		resp, err := other.Admit(t.Context(), ids.KeyID{1}, &billingv1.AdmitRequest{}, here(&found, 1))
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.GetAccountId(); got != "here" {
			t.Errorf("decided by: got %s, want here", got)
		}
		if n := other.known.Len(); n != 0 {
			t.Errorf("known owners: got %d, want 0", n)
		}
	})
}

func TestADeadOwnerIsWaitedForUntilItsSliceIsStranded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owner{admit: away}
		found := 0
		resp, err := owners(o).Admit(t.Context(), ids.KeyID{1}, &billingv1.AdmitRequest{}, here(&found, 10))
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.GetAccountId(); got != "here" {
			t.Errorf("decided by: got %s, want here", got)
		}
		if o.recalledByRow != 1 {
			t.Errorf("recalls through the database, for an owner that lives: got %d, want 1", o.recalledByRow)
		}
	})
}

func TestAReplicaThatIsTooBusyAndOwnsNothingIsPassedOver(t *testing.T) {
	o := &owner{admit: yes}
	other, found := owners(o), 0
	ask := func(times int) (*billingv1.AdmitResponse, error) {
		return other.Admit(t.Context(), ids.KeyID{1}, &billingv1.AdmitRequest{}, here(&found, times))
	}
	if _, err := ask(1); err != nil { // now the owner is known
		t.Fatal(err)
	}
	o.admit = func() error { return fault.New(fault.Unavailable, fault.AdmissionUnavailable, "it is stopping") }
	resp, err := ask(1)
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.GetAccountId(); got != "here" {
		t.Errorf("decided by: got %s, want here", got)
	}
}

func TestTheWaitForAnOwnerIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &owner{admit: away}
		began, found := time.Now(), 0
		_, err := owners(o).Admit(t.Context(), ids.KeyID{1}, &billingv1.AdmitRequest{}, here(&found, 1_000_000))
		f, ok := fault.As(err)
		if !ok {
			t.Fatalf("error: got %v, want a fault", err)
		}
		if f.Kind != fault.Unavailable {
			t.Errorf("kind: got %v, want %v", f.Kind, fault.Unavailable)
		}
		if f.RetryAfter <= 0 {
			t.Errorf("time to try again: got %v, want one", f.RetryAfter)
		}
		if waited := time.Since(began); waited > slice.Lease+2*time.Second {
			t.Errorf("waited: got %v, want at most %v", waited, slice.Lease+2*time.Second)
		}
	})
}

func TestTheOwnersThatWereAskedLastStayKnown(t *testing.T) {
	o := owners(&owner{admit: yes})
	key := func(i int) ids.KeyID { return ids.KeyID{byte(i), byte(i >> 8), byte(i >> 16)} }
	for i := range maxKnown + 10 {
		o.learn(key(i), elsewhere)
		o.find(key(0))
	}
	if n := o.known.Len(); n != maxKnown {
		t.Errorf("known: got %d, want %d", n, maxKnown)
	}
	for i, want := range map[int]bool{0: true, 1: false, maxKnown + 9: true} {
		if _, got := o.find(key(i)); got != want {
			t.Errorf("owner %d is known: got %v, want %v", i, got, want)
		}
	}
}

func TestARecallEndsWhenTheOwnerAnswersOrCountsAsDead(t *testing.T) {
	for name, tc := range map[string]struct {
		recall func() error
		other  bool
		after  time.Duration
	}{
		"answers":                        {yes, false, 0},
		"away":                           {away, false, slice.Lease},
		"another process at its address": {yes, true, slice.Lease},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			if err := owners(&owner{recall: tc.recall, otherProcess: tc.other}).Recall(t.Context(), elsewhere); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := time.Since(began); got != tc.after {
				t.Errorf("%s: got %v, want %v", name, got, tc.after)
			}
		})
	}
}
