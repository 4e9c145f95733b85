package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/account"
	"svc.internal/services/billing-ledger/internal/earning"
	"svc.internal/services/billing-ledger/internal/key"
	"svc.internal/services/billing-ledger/internal/limit"
	"svc.internal/services/billing-ledger/internal/plan"
)

// idempotencyHeader is the metadata key that the gateway makes of the HTTP header.
const idempotencyHeader = "idempotency-key"

// Accounts answers operators.
type Accounts struct {
	billingv1.UnimplementedAccountAdminServiceServer
	Accounts *account.Accounts
	Keys     *key.Keys
	Plans    *plan.Plans
	Earnings earning.HeldStore
	// NewEntry makes the ids of entries.
	NewEntry func() (ids.EntryID, error)
}

// byOperator puts the operator's name into the context, so that the audit entry has it.
func byOperator(ctx context.Context) context.Context {
	return actor.WithOperator(ctx, serve.Operator(ctx))
}

// CreateAccount opens an account.
func (s *Accounts) CreateAccount(
	ctx context.Context, req *billingv1.CreateAccountRequest,
) (*billingv1.CreateAccountResponse, error) {
	a, err := s.Accounts.Create(byOperator(ctx), req.GetName(), idempotencyKey(ctx, req.GetIdempotencyKey()))
	if err != nil {
		return nil, err
	}
	shown, err := s.show(ctx, a)
	if err != nil {
		return nil, err
	}
	return &billingv1.CreateAccountResponse{Account: shown}, nil
}

// GetAccount reads an account. A malformed id is not found either.
func (s *Accounts) GetAccount(
	ctx context.Context, req *billingv1.GetAccountRequest,
) (*billingv1.GetAccountResponse, error) {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, account.NotFound()
	}
	a, err := s.Accounts.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	shown, err := s.show(ctx, a)
	if err != nil {
		return nil, err
	}
	return &billingv1.GetAccountResponse{Account: shown}, nil
}

// GrantCredit credits an account.
func (s *Accounts) GrantCredit(
	ctx context.Context, req *billingv1.GrantCreditRequest,
) (*billingv1.GrantCreditResponse, error) {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, account.NotFound()
	}
	amount, err := money.ParseUSD(req.GetAmountUsd())
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.InvalidValue,
			"amount_usd must be a decimal with at most nine decimals").On("amount_usd")
	}
	entry, a, err := s.Accounts.Grant(byOperator(ctx), id, amount, idempotencyKey(ctx, req.GetIdempotencyKey()),
		req.GetMemo())
	if err != nil {
		return nil, err
	}
	shown, err := s.show(ctx, a)
	if err != nil {
		return nil, err
	}
	return &billingv1.GrantCreditResponse{EntryId: entry.String(), Account: shown}, nil
}

// SetAccountLimits replaces an account's limits.
func (s *Accounts) SetAccountLimits(
	ctx context.Context, req *billingv1.SetAccountLimitsRequest,
) (*billingv1.SetAccountLimitsResponse, error) {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, account.NotFound()
	}
	caps, err := capsOf(req.GetLimits().GetDayCapUsd(), req.GetLimits().GetMonthCapUsd())
	if err != nil {
		return nil, err
	}
	a, err := s.Accounts.SetLimits(byOperator(ctx), id, limit.Limits{
		RequestsPerMinute:  req.GetLimits().GetRequestsPerMinute(),
		ConcurrentRequests: req.GetLimits().GetConcurrentRequests(), Caps: caps,
	})
	if err != nil {
		return nil, err
	}
	shown, err := s.show(ctx, a)
	if err != nil {
		return nil, err
	}
	return &billingv1.SetAccountLimitsResponse{Account: shown}, nil
}

// SetAccountPlan puts an account on a plan.
func (s *Accounts) SetAccountPlan(
	ctx context.Context, req *billingv1.SetAccountPlanRequest,
) (*billingv1.SetAccountPlanResponse, error) {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, account.NotFound()
	}
	var until time.Time
	if ts := req.GetUntil(); ts != nil {
		// The zero time would mean no end at all.
		if until = ts.AsTime(); !ts.IsValid() || until.IsZero() {
			return nil, malformed("until")
		}
	}
	if err := s.Plans.Set(byOperator(ctx), id, req.GetPlan(), until); err != nil {
		return nil, err
	}
	a, err := s.Accounts.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	shown, err := s.show(ctx, a)
	if err != nil {
		return nil, err
	}
	return &billingv1.SetAccountPlanResponse{Account: shown}, nil
}

// SetAccountState freezes an account or opens it.
func (s *Accounts) SetAccountState(
	ctx context.Context, req *billingv1.SetAccountStateRequest,
) (*billingv1.SetAccountStateResponse, error) {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, account.NotFound()
	}
	a, err := s.Accounts.SetState(byOperator(ctx), id, account.State(req.GetState()), req.GetMemo())
	if err != nil {
		return nil, err
	}
	shown, err := s.show(ctx, a)
	if err != nil {
		return nil, err
	}
	return &billingv1.SetAccountStateResponse{Account: shown}, nil
}

// IssueKey makes a key and shows it this once.
func (s *Accounts) IssueKey(ctx context.Context, req *billingv1.IssueKeyRequest) (*billingv1.IssueKeyResponse, error) {
	id, err := ids.ParseAccount(req.GetAccountId())
	if err != nil {
		return nil, account.NotFound()
	}
	expires, err := moment(req.GetExpiresAt(), "expires_at")
	if err != nil {
		return nil, err
	}
	k, text, err := s.Keys.Issue(byOperator(ctx), key.IssueRequest{Account: id, Name: req.GetName(),
		Models: req.GetAllowedModelIds(), ExpiresAt: expires})
	if err != nil {
		return nil, err
	}
	return &billingv1.IssueKeyResponse{KeyId: k.ID.String(), ApiKey: text, KeyPrefix: k.Prefix}, nil
}

// RevokeKey ends a key for ever.
func (s *Accounts) RevokeKey(
	ctx context.Context, req *billingv1.RevokeKeyRequest,
) (*billingv1.RevokeKeyResponse, error) {
	id, err := ids.ParseKey(req.GetKeyId())
	if err != nil {
		return nil, key.NotFound()
	}
	if err := s.Keys.Revoke(byOperator(ctx), id); err != nil {
		return nil, err
	}
	return &billingv1.RevokeKeyResponse{}, nil
}

// idempotencyKey returns the key in the message or, without one, in the header.
func idempotencyKey(ctx context.Context, fromBody string) string {
	if fromBody != "" {
		return fromBody
	}
	if values := metadata.ValueFromIncomingContext(ctx, idempotencyHeader); len(values) > 0 {
		return values[0]
	}
	return ""
}

// show returns an account with its plan.
func (s *Accounts) show(ctx context.Context, a account.Account) (*billingv1.Account, error) {
	subscription, err := s.Plans.Of(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	return &billingv1.Account{
		AccountId: a.ID.String(), Name: a.Name, State: string(a.State),
		Limits: &billingv1.Limits{
			RequestsPerMinute: a.Limits.RequestsPerMinute, ConcurrentRequests: a.Limits.ConcurrentRequests,
			DayCapUsd: amountOf(a.Limits.Day), MonthCapUsd: amountOf(a.Limits.Month),
		},
		BalanceUsd: a.Balance.Float(), BalanceUsdStr: a.Balance.String(),
		HeldUsd: a.Held.Float(), HeldUsdStr: a.Held.String(),
		CreatedAt: timestamppb.New(a.CreatedAt), Plan: planToProto(subscription),
	}, nil
}

func planToProto(s *plan.Subscription) *billingv1.AccountPlan {
	if s == nil {
		return nil
	}
	m := &billingv1.AccountPlan{Plan: s.Plan, From: timestamppb.New(s.From), Until: timestamp(s.Until)}
	for _, c := range s.Counters {
		used, bound := float64(c.Used), float64(c.Cap)
		if c.Kind == plan.ListPrice {
			used, bound = money.NanoUSD(c.Used).Float(), money.NanoUSD(c.Cap).Float()
		}
		m.Counters = append(m.Counters, &billingv1.PlanCounter{
			Kind: string(c.Kind), Period: c.Period, Used: used, Cap: bound, Enabled: c.Enabled,
			WindowEnd: timestamp(c.WindowEnd),
		})
	}
	return m
}
