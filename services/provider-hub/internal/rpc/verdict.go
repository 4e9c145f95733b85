package rpc

import (
	"context"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/registry"
)

// Verdicts answers hub.v1.VerdictService.
type Verdicts struct {
	hubv1.UnimplementedVerdictServiceServer
	accounts *provider.Directory
	registry *registry.Registry
}

// NewVerdicts serves accounts, and applies verdicts to the sessions of reg.
func NewVerdicts(accounts *provider.Directory, reg *registry.Registry) *Verdicts {
	return &Verdicts{accounts: accounts, registry: reg}
}

// ReportBenchmark records whether a benchmark of a provider counts.
func (v *Verdicts) ReportBenchmark(
	ctx context.Context, m *hubv1.ReportBenchmarkRequest,
) (*hubv1.ReportBenchmarkResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	said := provider.BenchmarkReport{Passed: m.GetPassed(), Revision: m.GetRevision()}
	if said.PassedAt, err = passedAt(m); err != nil {
		return nil, err
	}
	account, err := v.accounts.ReportBenchmark(ctx, id, said, m.GetReason())
	if err != nil {
		return nil, err
	}
	p, err := felt(ctx, v.accounts, v.registry, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.ReportBenchmarkResponse{Provider: p}, nil
}

// passedAt is when the benchmark of a report was passed; zero where none is given.
func passedAt(m *hubv1.ReportBenchmarkRequest) (time.Time, error) {
	at := m.GetPassedAt()
	if at == nil || !m.GetPassed() {
		return time.Time{}, nil
	}
	if err := at.CheckValid(); err != nil {
		return time.Time{}, fault.New(fault.Invalid, fault.InvalidValue, "passed_at is no time").On("passed_at")
	}
	return at.AsTime(), nil
}

// Expel removes a provider from the network by a verdict.
func (v *Verdicts) Expel(ctx context.Context, m *hubv1.ExpelRequest) (*hubv1.ExpelResponse, error) {
	p, err := v.judged(ctx, m, v.accounts.Expel)
	if err != nil {
		return nil, err
	}
	return &hubv1.ExpelResponse{Provider: p}, nil
}

// Reinstate takes back an Expel whose verdict was reversed.
func (v *Verdicts) Reinstate(ctx context.Context, m *hubv1.ReinstateRequest) (*hubv1.ReinstateResponse, error) {
	p, err := v.judged(ctx, m, v.accounts.Reinstate)
	if err != nil {
		return nil, err
	}
	return &hubv1.ReinstateResponse{Provider: p}, nil
}

// ruling is an Expel or a Reinstate.
type ruling interface {
	GetProviderId() string
	GetVerdictId() string
	GetReason() string
}

// judged applies a ruling to an account and to the sessions here.
func (v *Verdicts) judged(ctx context.Context, m ruling,
	apply func(context.Context, ids.ProviderID, provider.VerdictID, string) (provider.Account, error),
) (*hubv1.Provider, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	verdict, err := provider.ParseVerdict(m.GetVerdictId())
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "verdict_id is no UUID").On("verdict_id")
	}
	account, err := apply(ctx, id, verdict, m.GetReason())
	if err != nil {
		return nil, err
	}
	return felt(ctx, v.accounts, v.registry, account)
}

// felt applies a changed account to the sessions here, and describes it.
func felt(
	ctx context.Context, accounts *provider.Directory, here *registry.Registry, account provider.Account,
) (*hubv1.Provider, error) {
	here.Apply(account.Standing())
	return described(ctx, accounts, here, account)
}
