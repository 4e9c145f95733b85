package rpc

import (
	"context"
	"strings"
	"unicode"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/actor"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/serve"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/registry"
)

// idempotencyHeader carries an idempotency key beside a message that has no field for
// one.
const idempotencyHeader = "idempotency-key"

// maxModel bounds the id of a model, in bytes.
const maxModel = 256

// Warmups asks all hubs to have a model loaded. A zero provider means all providers.
type Warmups interface {
	Ask(ctx context.Context, model string, providerID ids.ProviderID) error
}

// Admin answers hub.v1.ProviderAdminService.
type Admin struct {
	hubv1.UnimplementedProviderAdminServiceServer
	accounts *provider.Directory
	registry *registry.Registry
	warmups  Warmups
}

// NewAdmin serves accounts, and applies changes to the sessions of reg.
func NewAdmin(accounts *provider.Directory, reg *registry.Registry, warmups Warmups) *Admin {
	return &Admin{accounts: accounts, registry: reg, warmups: warmups}
}

// CreateProvider opens a provider account in status pending.
func (a *Admin) CreateProvider(
	ctx context.Context, m *hubv1.CreateProviderRequest,
) (*hubv1.CreateProviderResponse, error) {
	key := m.GetIdempotencyKey()
	if values := metadata.ValueFromIncomingContext(ctx, idempotencyHeader); key == "" && len(values) > 0 {
		key = values[0]
	}
	account, err := a.accounts.Create(byOperator(ctx), m.GetName(), m.GetRegion(), key)
	if err != nil {
		return nil, err
	}
	p, err := described(ctx, a.accounts, a.registry, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.CreateProviderResponse{Provider: p}, nil
}

// ListProviders is one page, oldest first.
func (a *Admin) ListProviders(
	ctx context.Context, m *hubv1.ListProvidersRequest,
) (*hubv1.ListProvidersResponse, error) {
	page, err := a.accounts.List(ctx, int(m.GetPage()), int(m.GetPageSize()))
	if err != nil {
		return nil, err
	}
	list, err := describedAll(ctx, a.accounts, a.registry, page.List)
	if err != nil {
		return nil, err
	}
	return &hubv1.ListProvidersResponse{
		List: list, Total: int32(page.Total), Page: int32(page.Number), PageSize: int32(page.Length),
	}, nil
}

// byOperator records what is done in ctx under the operator's name.
func byOperator(ctx context.Context) context.Context {
	name := serve.Operator(ctx)
	return actor.WithOperator(provider.WithOperator(ctx, name), name)
}

// SetProviderStatus moves a provider to a status in an operator's name.
func (a *Admin) SetProviderStatus(
	ctx context.Context, m *hubv1.SetProviderStatusRequest,
) (*hubv1.SetProviderStatusResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	account, err := a.accounts.SetStatus(byOperator(ctx), id, statusFromProto(m.GetStatus()), m.GetReason())
	if err != nil {
		return nil, err
	}
	p, err := felt(ctx, a.accounts, a.registry, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.SetProviderStatusResponse{Provider: p}, nil
}

// GetProviderDetail reads one provider with its nodes and its uptime.
func (a *Admin) GetProviderDetail(
	ctx context.Context, m *hubv1.GetProviderDetailRequest,
) (*hubv1.GetProviderDetailResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	detail, err := a.accounts.Detail(ctx, id)
	if err != nil {
		return nil, err
	}
	return &hubv1.GetProviderDetailResponse{
		Provider: accountToProto(detail.Account, detail.Online || a.registry.Online(id), a.accounts),
		Nodes:    nodesToProto(detail.Nodes), AnsweredAs: answeredToProto(detail.AnsweredAs),
	}, nil
}

// ConfirmQualification records an operator's confirmation. It refuses one of a benchmark,
// which is the verifier's to report.
func (a *Admin) ConfirmQualification(
	ctx context.Context, m *hubv1.ConfirmQualificationRequest,
) (*hubv1.ConfirmQualificationResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	if m.Benchmark != nil {
		return nil, fault.New(fault.Invalid, fault.InvalidValue,
			"a benchmark is passed or failed by the verifier alone").On("benchmark")
	}
	given := provider.Confirmation{Collateral: m.Collateral, GPUWaived: m.GpuWaived}
	account, err := a.accounts.Confirm(byOperator(ctx), id, given, m.GetReason())
	if err != nil {
		return nil, err
	}
	p, err := felt(ctx, a.accounts, a.registry, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.ConfirmQualificationResponse{Provider: p}, nil
}

// UnbindProvider takes from a provider its wallet, the address of its earnings, or its
// proposals.
func (a *Admin) UnbindProvider(
	ctx context.Context, m *hubv1.UnbindProviderRequest,
) (*hubv1.UnbindProviderResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	what := provider.Unbinding{Wallet: m.GetWallet(), Beneficiary: m.GetBeneficiary(), Proposals: m.GetProposals()}
	account, err := a.accounts.Unbind(byOperator(ctx), id, what, m.GetReason())
	if err != nil {
		return nil, err
	}
	if account.OwnerProvenAt.IsZero() {
		a.registry.WalletUnbound(id)
	}
	p, err := described(ctx, a.accounts, a.registry, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.UnbindProviderResponse{Provider: p}, nil
}

// SetReference makes a provider a reference of the platform, or an ordinary provider
// again.
func (a *Admin) SetReference(ctx context.Context, m *hubv1.SetReferenceRequest) (*hubv1.SetReferenceResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	account, err := a.accounts.SetReference(byOperator(ctx), id, m.GetReference(), m.GetReason())
	if err != nil {
		return nil, err
	}
	p, err := felt(ctx, a.accounts, a.registry, account)
	if err != nil {
		return nil, err
	}
	return &hubv1.SetReferenceResponse{Provider: p}, nil
}

// ListStatusChanges is one page of a provider's history, newest first.
func (a *Admin) ListStatusChanges(
	ctx context.Context, m *hubv1.ListStatusChangesRequest,
) (*hubv1.ListStatusChangesResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	page, err := a.accounts.History(ctx, id, int(m.GetPage()), int(m.GetPageSize()))
	if err != nil {
		return nil, err
	}
	list := make([]*hubv1.StatusChange, 0, len(page.List))
	for _, e := range page.List {
		list = append(list, &hubv1.StatusChange{
			ChangedAt: timestamppb.New(e.At), What: e.What, From: statusToProto(e.From), To: statusToProto(e.To),
			By: string(e.By), Reason: e.Said(), Cause: causes[e.Cause],
		})
	}
	return &hubv1.ListStatusChangesResponse{
		List: list, Total: int32(page.Total), Page: int32(page.Number), PageSize: int32(page.Length),
	}, nil
}

// WarmUp asks all hubs to have a model loaded.
func (a *Admin) WarmUp(ctx context.Context, m *hubv1.WarmUpRequest) (*hubv1.WarmUpResponse, error) {
	model := m.GetModelId()
	if model == "" || len(model) > maxModel ||
		strings.ContainsFunc(model, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return nil, fault.New(fault.Invalid, fault.InvalidValue, "model_id must be 1 to %d printable characters",
			maxModel).On("model_id")
	}
	var id ids.ProviderID
	if text := m.GetProviderId(); text != "" {
		var err error
		if id, err = ids.ParseProvider(text); err != nil {
			return nil, fault.New(fault.Invalid, fault.InvalidValue, "provider_id is no provider's id").On("provider_id")
		}
	}
	if err := a.accounts.RecordWarmUp(byOperator(ctx), model, id); err != nil {
		return nil, err
	}
	if err := a.warmups.Ask(ctx, model, id); err != nil {
		return nil, err
	}
	return &hubv1.WarmUpResponse{}, nil
}

// IssueProviderKey makes a key and shows it once.
func (a *Admin) IssueProviderKey(
	ctx context.Context, m *hubv1.IssueProviderKeyRequest,
) (*hubv1.IssueProviderKeyResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	key, text, err := a.accounts.IssueKey(byOperator(ctx), id, m.GetName())
	if err != nil {
		return nil, err
	}
	return &hubv1.IssueProviderKeyResponse{KeyId: key.ID.String(), ApiKey: text, KeyPrefix: key.Shown}, nil
}

// RevokeProviderKey ends a key for ever and closes its connections.
func (a *Admin) RevokeProviderKey(
	ctx context.Context, m *hubv1.RevokeProviderKeyRequest,
) (*hubv1.RevokeProviderKeyResponse, error) {
	id, err := ids.ParseKey(m.GetKeyId())
	if err != nil {
		return nil, fault.New(fault.NotFound, fault.KeyNotFound, "no such provider key").On("key_id")
	}
	if err := a.accounts.RevokeKey(byOperator(ctx), id); err != nil {
		return nil, err
	}
	a.registry.KeyRevoked(id)
	return &hubv1.RevokeProviderKeyResponse{}, nil
}
