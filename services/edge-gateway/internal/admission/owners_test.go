package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
)

// ledgers are the replicas of billing-ledger. Calls lists who was asked, by address; "any" is a call
// that any replica may answer.
type ledgers struct {
	// owner is the address that answers carry.
	owner string
	// failing is the error of the replica at an address.
	failing map[string]error
	// away reports whether no replica is connected by its address.
	away  bool
	calls []string
}

// ledger is a replica at an address.
type ledger struct {
	billingv1.AdmissionServiceClient
	of      *ledgers
	address string
}

func (l ledger) Admit(
	ctx context.Context, _ *billingv1.AdmitRequest, _ ...grpc.CallOption,
) (*billingv1.AdmitResponse, error) {
	l.of.calls = append(l.of.calls, l.address)
	if err := l.of.failing[l.address]; errors.Is(err, context.DeadlineExceeded) {
		<-ctx.Done()
		return nil, fault.FromError(status.FromContextError(ctx.Err()).Err())
	} else if err != nil {
		return nil, err
	}
	return &billingv1.AdmitResponse{OwnerAddress: l.of.owner}, nil
}

func (l *ledgers) admitter() *Admitter {
	return New(ledger{of: l, address: "any"}, nil, nil, Config{
		AdmitTimeout: 10 * ownerTime,
		Ledger: func(address string) (billingv1.AdmissionServiceClient, bool) {
			return ledger{of: l, address: address}, !l.away
		},
	})
}

// admitted has requests of one key admitted in turn.
func (l *ledgers) admitted(t *testing.T, a *Admitter, times int) {
	t.Helper()
	for range times {
		if _, err := a.Hold(t.Context(), &Request{KeyID: "key"}); err != nil {
			t.Fatal(err)
		}
	}
}

func (l *ledgers) want(t *testing.T, calls ...string) {
	t.Helper()
	if !slices.Equal(l.calls, calls) {
		t.Errorf("asked: got %v, want %v", l.calls, calls)
	}
}

func TestTheReplicaThatDecidedIsAskedNext(t *testing.T) {
	l := &ledgers{owner: "a:1"}
	a := l.admitter()
	l.admitted(t, a, 2)
	l.owner = "b:1"
	l.admitted(t, a, 2)
	l.want(t, "any", "a:1", "a:1", "b:1")
}

func TestAnyReplicaIsAskedOnceNoneDecidesAlone(t *testing.T) {
	l := &ledgers{owner: "a:1"}
	a := l.admitter()
	l.admitted(t, a, 1)
	l.owner = ""
	l.admitted(t, a, 2)
	l.want(t, "any", "a:1", "any")
}

func TestAnyReplicaIsAskedWhileTheOwnerIsNotConnected(t *testing.T) {
	l := &ledgers{owner: "a:1", away: true}
	l.admitted(t, l.admitter(), 3)
	l.want(t, "any", "any", "any")
}

func TestAnOwnerThatDoesNotDecideIsForgottenAndAnyOtherDecides(t *testing.T) {
	for name, err := range map[string]error{
		"unreachable": fault.New(fault.Unavailable, fault.ServiceUnavailable, "connection refused"),
		"silent":      context.DeadlineExceeded,
		"stopping":    fault.New(fault.Unavailable, fault.AdmissionUnavailable, "admission is not running"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &ledgers{owner: "a:1"}
				a := l.admitter()
				l.admitted(t, a, 1)
				l.owner, l.failing = "", map[string]error{"a:1": err}
				l.admitted(t, a, 2)
				l.want(t, "any", "a:1", "any", "any")
			})
		})
	}
}

func TestARefusalOfTheOwnerStands(t *testing.T) {
	refusal := fault.New(fault.Precondition, fault.InsufficientCredits, "no credit is left")
	l := &ledgers{owner: "a:1"}
	a := l.admitter()
	l.admitted(t, a, 1)
	l.failing = map[string]error{"a:1": refusal}
	if _, err := a.Hold(t.Context(), &Request{KeyID: "key"}); err == nil {
		t.Errorf("error: got none, want %v", refusal)
	}
	l.want(t, "any", "a:1")
}

func TestKnownOwnersAreBounded(t *testing.T) {
	var o owners
	for n := range maxOwners + 1 {
		o.learn(fmt.Sprint("key-", n), "a:1")
	}
	if got := o.byKey.Len(); got > maxOwners {
		t.Errorf("keys: got %d, want at most %d", got, maxOwners)
	}
	if got := o.find(fmt.Sprint("key-", maxOwners)); got != "a:1" {
		t.Errorf("the owner of the last key: got %q, want a:1", got)
	}
}
