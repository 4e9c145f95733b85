package providerapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"svc.internal/pkg/trustword"
	hubv1 "svc.internal/proto/svc/hub/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	verifierv1 "svc.internal/proto/svc/verifier/v1"
)

// account is a provider's account as its owner reads it in one call. What a hub knows is
// always there. A part that another service knows is null where that service does not
// answer, and named in Notes.
type account struct {
	ProviderID      string       `json:"provider_id"`
	AccountID       string       `json:"account_id"`
	Name            string       `json:"name"`
	Status          string       `json:"status"`
	Label           string       `json:"label"`
	Message         string       `json:"message"`
	Warning         string       `json:"warning"`
	NextSteps       []string     `json:"next_steps"`
	CanConnect      bool         `json:"can_connect"`
	Online          bool         `json:"online"`
	Suspensions     []suspension `json:"suspensions"`
	Uptime24h       float64      `json:"uptime_24h"`
	Uptime30d       float64      `json:"uptime_30d"`
	ProbationEndsAt *time.Time   `json:"probation_ends_at"`

	Collateral  collateral  `json:"collateral"`
	GPU         gpuRule     `json:"gpu"`
	Benchmark   benchmarked `json:"benchmark"`
	Beneficiary beneficiary `json:"beneficiary"`
	// OwnerAddress is only claimed unless OwnerProven.
	OwnerAddress string     `json:"owner_address"`
	OwnerProven  bool       `json:"owner_proven"`
	OwnerBoundAt *time.Time `json:"owner_bound_at"`
	Proposals    []proposal `json:"proposals"`

	Models   *[]ownModel `json:"models"`
	Earnings *earnings   `json:"earnings"`
	// OpenPayout is null, too, where no payout is open.
	OpenPayout *payout    `json:"open_payout"`
	Penalties  *[]penalty `json:"penalties"`
	// Notes say of each part that cannot be told why that is.
	Notes map[string]string `json:"notes"`
}

// collateral says whether collateral counts, as the hub knows it, and what there is, which is
// null where settlement does not answer.
type collateral struct {
	Confirmed bool             `json:"confirmed"`
	Detail    *collateralState `json:"detail"`
}

// gpuRule says whether a machine fulfils the GPU rule.
type gpuRule struct {
	Eligible  bool   `json:"eligible"`
	Waived    bool   `json:"waived"`
	Shortfall string `json:"shortfall"`
}

// benchmarked says whether some benchmark counts for the account.
type benchmarked struct {
	Passed    bool       `json:"passed"`
	ExpiresAt *time.Time `json:"expires_at"`
}

// beneficiary says where earnings go. Nothing is paid out before CoolingUntil.
type beneficiary struct {
	Address      string     `json:"address"`
	Since        *time.Time `json:"since"`
	SetAtSignUp  bool       `json:"set_at_signup"`
	CoolingUntil *time.Time `json:"cooling_until"`
}

// ownModel is a model of the provider. What a router knows is empty while no machine with
// the model is connected, and what the verifier knows until it has looked.
type ownModel struct {
	ModelID string `json:"model_id"`
	// Trust is high, normal or probation.
	Trust string `json:"trust"`
	// Lane is main, probe or shut.
	Lane               string     `json:"lane"`
	Standing           string     `json:"standing"`
	Benchmark          string     `json:"benchmark"`
	BenchmarkExpiresAt *time.Time `json:"benchmark_expires_at"`
	// The windows are in tokens; 0 is not known. DeclaredContextLength is the smallest that
	// the machines declare, ContextLength the one that counts.
	DeclaredContextLength int64  `json:"declared_context_length"`
	MeasuredContextLength int64  `json:"measured_context_length"`
	ContextLength         int64  `json:"context_length"`
	NextStep              string `json:"next_step"`
}

// Me answers /api/v1/provider/me: GET reads the account, PUT proposes or changes addresses.
func (a *API) Me(ctx context.Context, c Call) (Answer, error) {
	if c.Method == http.MethodPut {
		return a.UpdateMe(ctx, c)
	}
	resp, err := a.ownStatus(ctx, c)
	if err != nil {
		return Answer{}, err
	}
	out := accountOf(resp)
	out.NextSteps = append(out.NextSteps, a.deposits(ctx, resp.GetProvider())...)
	a.complete(ctx, out)
	return answer(http.StatusOK, out)
}

// accountOf is what a hub knows of an account.
func accountOf(resp *hubv1.GetOwnStatusResponse) *account {
	p, q, payee := resp.GetProvider(), resp.GetProvider().GetQualification(), resp.GetPayee()
	said := statusOf(resp, nil)
	out := &account{
		ProviderID: said.ProviderID, AccountID: payee.GetAccountId(), Name: said.Name, Status: said.Status,
		Label: said.Label, Message: said.Message, Warning: said.Warning, NextSteps: said.NextSteps,
		CanConnect: said.CanConnect, Online: said.Online, Suspensions: said.Suspensions,
		Uptime24h: said.Uptime24h, Uptime30d: said.Uptime30d, ProbationEndsAt: said.ProbationEndsAt,
		Collateral: collateral{Confirmed: q.GetCollateralConfirmed()},
		GPU:        gpuRule{q.GetGpuEligible(), q.GetGpuWaived(), q.GetGpuShortfall()},
		Benchmark:  benchmarked{q.GetBenchmarkPassed(), moment(q.GetBenchmarkExpiresAt())},
		Beneficiary: beneficiary{p.GetBeneficiaryAddress(), moment(payee.GetBeneficiarySince()),
			payee.GetBeneficiarySetAtSignup(), moment(payee.GetBeneficiaryCoolingUntil())},
		OwnerAddress: p.GetOwnerAddress(), OwnerProven: p.GetOwnerProven(), Proposals: proposalsOf(p),
		Notes: map[string]string{},
	}
	for _, w := range payee.GetOwnerWallets() {
		if w.GetAddress() == out.OwnerAddress {
			out.OwnerBoundAt = moment(w.GetBoundAt())
		}
	}
	return out
}

// complete adds the parts that other services know, all asked at once.
func (a *API) complete(ctx context.Context, out *account) {
	var group sync.WaitGroup
	var mu sync.Mutex
	for name, part := range map[string]func(context.Context) (fill func(), err error){
		"collateral":  func(ctx context.Context) (func(), error) { return a.ownCollateral(ctx, out) },
		"models":      func(ctx context.Context) (func(), error) { return a.ownModels(ctx, out) },
		"earnings":    func(ctx context.Context) (func(), error) { return a.ownEarnings(ctx, out) },
		"open_payout": func(ctx context.Context) (func(), error) { return a.ownPayout(ctx, out) },
		"penalties":   func(ctx context.Context) (func(), error) { return a.ownPenalties(ctx, out) },
	} {
		group.Go(func() {
			called, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
			defer cancel()
			fill, err := part(called)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				out.Notes[name] = "It cannot be told now. Ask again in a while."
				return
			}
			fill()
		})
	}
	group.Wait()
}

// ownModels reads where the provider is with its models. A router that does not answer
// leaves out what it knows.
func (a *API) ownModels(ctx context.Context, out *account) (func(), error) {
	resp, err := a.peers.Verification.GetStanding(ctx, &verifierv1.GetStandingRequest{ProviderId: out.ProviderID})
	if err != nil {
		return nil, err
	}
	list := make([]ownModel, 0, len(resp.GetList()))
	place := map[string]int{}
	for _, s := range resp.GetList() {
		place[s.GetModelId()] = len(list)
		list = append(list, ownModel{
			ModelID: s.GetModelId(), Lane: s.GetLane(), Standing: s.GetStanding(), Benchmark: s.GetBenchmark(),
			BenchmarkExpiresAt: moment(s.GetBenchmarkExpiresAt()), MeasuredContextLength: int64(s.GetCapTokens()),
			NextStep: s.GetNextStep(),
		})
	}
	routed := a.explain(ctx, out.ProviderID)
	if routed == nil {
		routed = &traffic{}
	}
	for _, m := range routed.Models {
		i, known := place[m.ModelID]
		if !known {
			i = len(list)
			list = append(list, ownModel{ModelID: m.ModelID, Lane: m.Lane})
		}
		one := &list[i]
		one.Trust, one.ContextLength = m.trust, m.ContextLength
		one.DeclaredContextLength = m.declared
		if m.MeasuredContextLength > 0 {
			one.MeasuredContextLength = m.MeasuredContextLength
		}
		if out.ProbationEndsAt != nil {
			one.Trust = trustword.Probation
		}
	}
	return func() { out.Models = &list }, nil
}

// ownCollateral reads what stands behind the provider, by chain and by card.
func (a *API) ownCollateral(ctx context.Context, out *account) (func(), error) {
	resp, err := a.peers.Collateral.GetCollateral(ctx, &settlementv1.GetCollateralRequest{ProviderId: out.ProviderID})
	if err != nil {
		return nil, err
	}
	said := collateralOf(resp.GetCollateral())
	return func() { out.Collateral.Detail = &said }, nil
}

// ownPenalties reads the newest penalties.
func (a *API) ownPenalties(ctx context.Context, out *account) (func(), error) {
	resp, err := a.peers.Penalties.ListPenalties(ctx, &settlementv1.ListPenaltiesRequest{ProviderId: out.ProviderID,
		PageSize: shownPenalties})
	if err != nil {
		return nil, err
	}
	list := make([]penalty, 0, len(resp.GetList()))
	for _, p := range resp.GetList() {
		list = append(list, penaltyOf(p))
	}
	return func() { out.Penalties = &list }, nil
}

// shownPenalties is how many penalties are shown with the account; the others are at
// /api/v1/provider/penalties.
const shownPenalties = 20

// ownEarnings reads where earnings stand.
func (a *API) ownEarnings(ctx context.Context, out *account) (func(), error) {
	resp, err := a.peers.Earnings.GetEarnings(ctx, &settlementv1.GetEarningsRequest{ProviderId: out.ProviderID})
	if err != nil {
		return nil, err
	}
	said := earningsOf(resp)
	return func() { out.Earnings = &said }, nil
}

// ownPayout reads the payout that is open. A provider has one at most, and asks for no other
// meanwhile, so it is the newest.
func (a *API) ownPayout(ctx context.Context, out *account) (func(), error) {
	resp, err := a.peers.Payouts.ListPayouts(ctx, &settlementv1.ListPayoutsRequest{ProviderId: out.ProviderID, Page: 1,
		PageSize: 1})
	if err != nil {
		return nil, err
	}
	for _, p := range resp.GetList() {
		switch p.GetState() {
		case settlementv1.PayoutState_PAYOUT_STATE_CONFIRMED, settlementv1.PayoutState_PAYOUT_STATE_FAILED,
			settlementv1.PayoutState_PAYOUT_STATE_CANCELLED:
		default:
			open := payoutOf(p)
			return func() { out.OpenPayout = &open }, nil
		}
	}
	return func() {}, nil
}
