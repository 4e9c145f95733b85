package admission

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// pair are billing-ledger and a router, which answer as a test says.
type pair struct {
	billingv1.AdmissionServiceClient
	routerv1.RouterServiceClient
	admit func(context.Context) (*billingv1.AdmitResponse, error)
	sel   func(context.Context, *routerv1.SelectRequest) (*routerv1.SelectResponse, error)
}

func (p *pair) Admit(
	ctx context.Context, _ *billingv1.AdmitRequest, _ ...grpc.CallOption,
) (*billingv1.AdmitResponse, error) {
	return p.admit(ctx)
}

func (p *pair) Select(
	ctx context.Context, req *routerv1.SelectRequest, _ ...grpc.CallOption,
) (*routerv1.SelectResponse, error) {
	return p.sel(ctx, req)
}

func admits(context.Context) (*billingv1.AdmitResponse, error) {
	return &billingv1.AdmitResponse{Priority: true}, nil
}

func refusesCredit(context.Context) (*billingv1.AdmitResponse, error) {
	return nil, fault.New(fault.Exhausted, fault.InsufficientCredits, "no credit is left")
}

func finds(context.Context, *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
	return &routerv1.SelectResponse{Candidates: []*routerv1.Candidate{{ProviderId: "p"}}}, nil
}

// neverAnswers is a router that waits for as long as its caller lets it.
func neverAnswers(ctx context.Context, _ *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (p *pair) admitter(inProcess bool, released *[]string) *Admitter {
	return New(p, p, func(_ context.Context, a *eventsv1.Attempt) { *released = append(*released, a.GetProviderId()) },
		Config{AdmitTimeout: time.Minute, SelectTimeout: 5 * time.Second, SelectGrace: 250 * time.Millisecond,
			RouterInProcess: inProcess})
}

func TestARemoteRouterIsAskedWhileBillingLedgerDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{})
		p := &pair{
			admit: func(ctx context.Context) (*billingv1.AdmitResponse, error) {
				<-asked
				return admits(ctx)
			},
			sel: func(ctx context.Context, req *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
				close(asked)
				return finds(ctx, req)
			},
		}
		grant, err := p.admitter(false, nil).Admit(t.Context(), &Request{})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(grant.Candidates); got != 1 {
			t.Errorf("got %d candidates, want 1", got)
		}
	})
}

// A slot that is booked while billing-ledger decides would keep others out of it. The order of the two calls
// is kept without a lock, so the race detector sees it if they run beside each other.
func TestARouterInTheProcessIsAskedOnceBillingLedgerHasDecided(t *testing.T) {
	var calls []string
	priority := false
	p := &pair{
		admit: func(ctx context.Context) (*billingv1.AdmitResponse, error) {
			calls = append(calls, "admit")
			return admits(ctx)
		},
		sel: func(ctx context.Context, req *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
			calls, priority = append(calls, "select"), req.GetPriority()
			return finds(ctx, req)
		},
	}
	grant, err := p.admitter(true, nil).Admit(t.Context(), &Request{})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"admit", "select"}; !slices.Equal(calls, want) {
		t.Errorf("got the calls %v, want %v", calls, want)
	}
	if !priority {
		t.Error("the priority that admission gave: got false, want true")
	}
	if got := len(grant.Candidates); got != 1 {
		t.Errorf("got %d candidates, want 1", got)
	}
}

func TestTheForemostRefusalIsGivenWhicheverIsAskedFirst(t *testing.T) {
	for name, inProcess := range map[string]bool{"at once": false, "in turn": true} {
		p := &pair{
			admit: refusesCredit,
			sel: func(context.Context, *routerv1.SelectRequest) (*routerv1.SelectResponse, error) {
				return nil, fault.New(fault.Invalid, fault.ContextLengthExceeded, "too long")
			},
		}
		_, err := p.admitter(inProcess, nil).Admit(t.Context(), &Request{PromptParam: "messages"})
		if !fault.Is(err, fault.ContextLengthExceeded) {
			t.Errorf("%s: got the error %v, want %s", name, err, fault.ContextLengthExceeded)
		}
	}
}

func TestTheSlotOfARefusedRequestIsGivenBackWhicheverIsAskedFirst(t *testing.T) {
	for name, inProcess := range map[string]bool{"at once": false, "in turn": true} {
		var released []string
		p := &pair{admit: refusesCredit, sel: finds}
		_, err := p.admitter(inProcess, &released).Admit(t.Context(), &Request{})
		if !fault.Is(err, fault.InsufficientCredits) {
			t.Errorf("%s: got the error %v, want %s", name, err, fault.InsufficientCredits)
		}
		if want := []string{"p"}; !slices.Equal(released, want) {
			t.Errorf("%s: got the slots of %v released, want %v", name, released, want)
		}
	}
}

// A client whose request is refused must not wait for a slot that it will not use.
func TestARefusedRequestWaitsForTheRouterNoLongerThanTheGrace(t *testing.T) {
	for name, inProcess := range map[string]bool{"at once": false, "in turn": true} {
		synctest.Test(t, func(t *testing.T) {
			p := &pair{admit: refusesCredit, sel: neverAnswers}
			began := time.Now()
			_, err := p.admitter(inProcess, nil).Admit(t.Context(), &Request{})
			if !fault.Is(err, fault.InsufficientCredits) {
				t.Errorf("%s: got the error %v, want %s", name, err, fault.InsufficientCredits)
			}
			if took, want := time.Since(began), 250*time.Millisecond; took != want {
				t.Errorf("%s: got an answer after %v, want %v", name, took, want)
			}
		})
	}
}
