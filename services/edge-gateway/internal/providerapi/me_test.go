package providerapi

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	verifierv1 "svc.internal/proto/svc/verifier/v1"
)

var errAway = fault.New(fault.Unavailable, fault.ServiceUnavailable, "away")

// standings, earned and fined are the services that know parts of an account. Each fails
// with its error, if it has one.
type standings struct {
	verifierv1.VerifierSelfServiceClient
	err  error
	list []*verifierv1.OwnStanding
}

func (s standings) GetStanding(
	context.Context, *verifierv1.GetStandingRequest, ...grpc.CallOption,
) (*verifierv1.GetStandingResponse, error) {
	return &verifierv1.GetStandingResponse{List: s.list}, s.err
}

type earned struct {
	settlementv1.EarningServiceClient
	err error
}

func (e earned) GetEarnings(
	context.Context, *settlementv1.GetEarningsRequest, ...grpc.CallOption,
) (*settlementv1.GetEarningsResponse, error) {
	return &settlementv1.GetEarningsResponse{PayableNanoUsd: 1_000_000_000}, e.err
}

type fined struct {
	settlementv1.PenaltyServiceClient
	err error
}

func (f fined) ListPenalties(
	context.Context, *settlementv1.ListPenaltiesRequest, ...grpc.CallOption,
) (*settlementv1.ListPenaltiesResponse, error) {
	return &settlementv1.ListPenaltiesResponse{List: []*settlementv1.Penalty{{PenaltyId: "f1"}}}, f.err
}

type secured struct {
	settlementv1.CollateralServiceClient
	err error
}

func (s secured) GetCollateral(
	context.Context, *settlementv1.GetCollateralRequest, ...grpc.CallOption,
) (*settlementv1.GetCollateralResponse, error) {
	return &settlementv1.GetCollateralResponse{Collateral: &settlementv1.ProviderCollateral{SettlementChainId: 254,
		Card: &settlementv1.CardCollateral{FreeNanoUsd: 5_000_000_000, MissingNanoUsd: 15_000_000_000}}}, s.err
}

type paying struct {
	settlementv1.PayoutServiceClient
	err   error
	state settlementv1.PayoutState
}

func (p paying) ListPayouts(
	context.Context, *settlementv1.ListPayoutsRequest, ...grpc.CallOption,
) (*settlementv1.ListPayoutsResponse, error) {
	return &settlementv1.ListPayoutsResponse{List: []*settlementv1.Payout{{PayoutId: "o1", State: p.state}}}, p.err
}

// knowing is an API whose other services fail with the errors.
func knowing(t *testing.T, verifier, earnings, payouts, penalties, collateral error) *bundle {
	t.Helper()
	b := setup(t)
	b.peers.Verification = standings{err: verifier, list: []*verifierv1.OwnStanding{{ModelId: "m1", Lane: "main",
		Standing: "none", Benchmark: "proven", CapTokens: 300}}}
	b.peers.Earnings, b.peers.Penalties = earned{err: earnings}, fined{err: penalties}
	b.peers.Collateral = secured{err: collateral}
	b.peers.Payouts = paying{err: payouts, state: settlementv1.PayoutState_PAYOUT_STATE_SUBMITTED}
	return b
}

// readMe reads the account by the key.
func readMe(t *testing.T, b *bundle) account {
	t.Helper()
	got, err := b.Me(t.Context(), with(b.key, ""))
	if err != nil {
		t.Fatal(err)
	}
	var said account
	b.decode(t, got, &said)
	return said
}

func TestAServiceThatIsAwayLeavesOutItsPartAlone(t *testing.T) {
	for name, errs := range map[string][5]error{
		"models": {errAway}, "earnings": {1: errAway}, "open_payout": {2: errAway}, "penalties": {3: errAway},
		"collateral": {4: errAway},
	} {
		b := knowing(t, errs[0], errs[1], errs[2], errs[3], errs[4])
		said := readMe(t, b)
		there := map[string]bool{"models": said.Models != nil, "earnings": said.Earnings != nil,
			"open_payout": said.OpenPayout != nil, "penalties": said.Penalties != nil,
			"collateral": said.Collateral.Detail != nil}
		for part, is := range there {
			if is == (part == name) {
				t.Errorf("without %s: %s is there: got %t, want %t", name, part, is, !is)
			}
		}
		if got := slices.Collect(maps.Keys(said.Notes)); !slices.Equal(got, []string{name}) {
			t.Errorf("without %s: notes: got those of %v, want one of it", name, got)
		}
		if said.ProviderID != "p1" {
			t.Errorf("without %s: provider: got %q, want p1", name, said.ProviderID)
		}
	}
}

func TestAnAccountSaysWhatStandsBehindIt(t *testing.T) {
	said := readMe(t, knowing(t, nil, nil, nil, nil, nil)).Collateral.Detail
	if said == nil {
		t.Fatal("detail: got none, want that of settlement")
	}
	if got, want := said.Card.Free, "5.00"; got != want {
		t.Errorf("free by card: got %s, want %s", got, want)
	}
	if got, want := said.Card.Missing, "15.00"; got != want {
		t.Errorf("missing by card: got %s, want %s", got, want)
	}
	if got, want := said.SettlementChainID, int64(254); got != want {
		t.Errorf("settlement chain: got %d, want %d", got, want)
	}
}

func TestAnAccountSaysWhatTheHubKnows(t *testing.T) {
	b := knowing(t, nil, nil, nil, nil, nil)
	at := timestamppb.New(b.clock.Now())
	b.hub.status = func(*hubv1.GetOwnStatusRequest) (*hubv1.GetOwnStatusResponse, error) {
		return &hubv1.GetOwnStatusResponse{
			Provider: &hubv1.Provider{
				ProviderId: "p1", Status: hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED, BeneficiaryAddress: "0xb",
				OwnerAddress: "0xo", OwnerProven: true, ProbationEndsAt: at,
				Qualification: &hubv1.Qualification{CollateralConfirmed: true, BenchmarkPassed: true, BenchmarkExpiresAt: at},
				Suspensions: []*hubv1.Suspension{{Cause: hubv1.SuspensionCause_SUSPENSION_CAUSE_REFUND, Since: at,
					Meaning: "Your collateral is being refunded."}},
			},
			Payee: &hubv1.Payee{AccountId: "a1", BeneficiarySince: at, BeneficiaryCoolingUntil: at,
				OwnerWallets: []*hubv1.OwnerWallet{{Address: "0xo", BoundAt: at}}},
		}, nil
	}
	said := readMe(t, b)
	now := b.clock.Now()
	same := func(what string, got *time.Time) {
		t.Helper()
		if got == nil {
			t.Fatalf("%s: got none, want %v", what, now)
		}
		if !got.Equal(now) {
			t.Errorf("%s: got %v, want %v", what, got, now)
		}
	}
	same("beneficiary since", said.Beneficiary.Since)
	same("cooling until", said.Beneficiary.CoolingUntil)
	same("bound at", said.OwnerBoundAt)
	same("benchmark ends", said.Benchmark.ExpiresAt)
	want := []suspension{{Cause: "refund", Since: said.Beneficiary.Since, Meaning: "Your collateral is being refunded."}}
	if got := said.Suspensions; !slices.EqualFunc(got, want, sameSuspension) {
		t.Errorf("suspensions: got %+v, want %+v", got, want)
	}
	switch {
	case said.AccountID != "a1":
		t.Errorf("account: got %q, want a1", said.AccountID)
	case said.Beneficiary.Address != "0xb":
		t.Errorf("beneficiary: got %q, want 0xb", said.Beneficiary.Address)
	case !said.Collateral.Confirmed:
		t.Error("collateral: got none, want one that counts")
	case said.Earnings.Payable != "1.00":
		t.Errorf("payable: got %q, want 1.00", said.Earnings.Payable)
	}
	// Agents read the causes with the status, too.
	got, err := b.Status(t.Context(), with(b.key, ""))
	if err != nil {
		t.Fatal(err)
	}
	var told status
	b.decode(t, got, &told)
	if got := told.Suspensions; !slices.EqualFunc(got, want, sameSuspension) {
		t.Errorf("status: suspensions: got %+v, want %+v", got, want)
	}
}

// sameSuspension compares what two times point to.
func sameSuspension(a, b suspension) bool {
	at := a.Since.Equal(*b.Since)
	a.Since, b.Since = nil, nil
	return at && a == b
}

func TestAModelSaysItsTrustAndItsWindows(t *testing.T) {
	b := knowing(t, nil, nil, nil, nil, nil)
	routed := &routerv1.ExplainProviderResponse{Models: []*routerv1.ModelHealth{
		{ModelId: "m1", Lane: "main", Trust: "high", ReportedContextLength: 1000, ContextLength: 300,
			MeasuredContextLength: 300},
		{ModelId: "m2", Lane: "shut", Trust: "normal", ReportedContextLength: 0},
	}}
	said := readMe(t, b)
	verified := ownModel{ModelID: "m1", Lane: "main", Standing: "none", Benchmark: "proven", MeasuredContextLength: 300}
	if got := *said.Models; !slices.Equal(got, []ownModel{verified}) {
		t.Errorf("without a router: got %+v, want %+v", got, verified)
	}
	b.router.explain = func(context.Context) (*routerv1.ExplainProviderResponse, error) { return routed, nil }
	said = readMe(t, b)
	verified.Trust, verified.DeclaredContextLength, verified.ContextLength = "high", 1000, 300
	want := []ownModel{verified, {ModelID: "m2", Lane: "shut", Trust: "normal"}}
	if got := *said.Models; !slices.Equal(got, want) {
		t.Errorf("models: got %+v, want %+v", got, want)
	}
	good := b.hub.status
	b.hub.status = func(req *hubv1.GetOwnStatusRequest) (*hubv1.GetOwnStatusResponse, error) {
		resp, err := good(req)
		resp.Provider.ProbationEndsAt = timestamppb.New(b.clock.Now())
		return resp, err
	}
	if got := (*readMe(t, b).Models)[0].Trust; got != "probation" {
		t.Errorf("in its probation: trust: got %q, want probation", got)
	}
}

func TestAHubThatIsAwayIsAnErrorOfTheAccount(t *testing.T) {
	b := knowing(t, nil, nil, nil, nil, nil)
	b.hub.status = failing(errAway)
	if _, err := b.Me(t.Context(), with(b.key, "")); !fault.Is(err, fault.ServiceUnavailable) {
		t.Errorf("got the error %v, want the reason %v", err, fault.ServiceUnavailable)
	}
}

func TestAPayoutThatHasEndedIsNotOpen(t *testing.T) {
	b := knowing(t, nil, nil, nil, nil, nil)
	for number, name := range settlementv1.PayoutState_name {
		state := settlementv1.PayoutState(number)
		b.peers.Payouts = paying{state: state}
		ended := state == settlementv1.PayoutState_PAYOUT_STATE_CONFIRMED ||
			state == settlementv1.PayoutState_PAYOUT_STATE_FAILED || state == settlementv1.PayoutState_PAYOUT_STATE_CANCELLED
		said := readMe(t, b)
		if open := said.OpenPayout != nil; open == ended {
			t.Errorf("%s: open: got %t, want %t", name, open, !ended)
		}
		if len(said.Notes) != 0 {
			t.Errorf("%s: notes: got %v, want none", name, said.Notes)
		}
	}
}
