package rpc

import (
	"context"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/registry"
)

// idempotencyHeader carries an idempotency key beside a message that names
// none.
const idempotencyHeader = "idempotency-key"

// Directory answers hub.v1.ProviderDirectoryService.
type Directory struct {
	hubv1.UnimplementedProviderDirectoryServiceServer
	accounts *provider.Directory
}

// NewDirectory reads from accounts.
func NewDirectory(accounts *provider.Directory) *Directory { return &Directory{accounts: accounts} }

// GetProvider reads one provider.
func (d *Directory) GetProvider(ctx context.Context, m *hubv1.GetProviderRequest) (*hubv1.GetProviderResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	a, err := d.accounts.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	return &hubv1.GetProviderResponse{Provider: accountToProto(a)}, nil
}

// Admin answers hub.v1.ProviderAdminService.
type Admin struct {
	hubv1.UnimplementedProviderAdminServiceServer
	accounts *provider.Directory
	registry *registry.Registry
}

// NewAdmin works on accounts and lets the sessions of reg feel it.
func NewAdmin(accounts *provider.Directory, reg *registry.Registry) *Admin {
	return &Admin{accounts: accounts, registry: reg}
}

// CreateProvider opens a provider account in status pending.
func (a *Admin) CreateProvider(ctx context.Context, m *hubv1.CreateProviderRequest) (*hubv1.CreateProviderResponse, error) {
	key := m.GetIdempotencyKey()
	if values := metadata.ValueFromIncomingContext(ctx, idempotencyHeader); key == "" && len(values) > 0 {
		key = values[0]
	}
	account, err := a.accounts.Create(ctx, m.GetName(), m.GetRegion(), key)
	if err != nil {
		return nil, err
	}
	return &hubv1.CreateProviderResponse{Provider: accountToProto(account)}, nil
}

// ListProviders is one page, oldest first.
func (a *Admin) ListProviders(ctx context.Context, m *hubv1.ListProvidersRequest) (*hubv1.ListProvidersResponse, error) {
	page, err := a.accounts.List(ctx, int(m.GetPage()), int(m.GetPageSize()))
	if err != nil {
		return nil, err
	}
	list := make([]*hubv1.Provider, 0, len(page.List))
	for _, account := range page.List {
		list = append(list, accountToProto(account))
	}
	return &hubv1.ListProvidersResponse{
		List: list, Total: int32(page.Total), Page: int32(page.Number), PageSize: int32(page.Length),
	}, nil
}

// SetProviderStatus moves a provider to another status.
func (a *Admin) SetProviderStatus(ctx context.Context, m *hubv1.SetProviderStatusRequest) (*hubv1.SetProviderStatusResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	account, err := a.accounts.SetStatus(ctx, id, statusFromProto(m.GetStatus()))
	if err != nil {
		return nil, err
	}
	a.registry.StatusChanged(account.ID, account.Status)
	return &hubv1.SetProviderStatusResponse{Provider: accountToProto(account)}, nil
}

// IssueProviderKey makes a key and shows it this once.
func (a *Admin) IssueProviderKey(ctx context.Context, m *hubv1.IssueProviderKeyRequest) (*hubv1.IssueProviderKeyResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	key, text, err := a.accounts.IssueKey(ctx, id, m.GetName())
	if err != nil {
		return nil, err
	}
	return &hubv1.IssueProviderKeyResponse{KeyId: key.ID.String(), ApiKey: text, KeyPrefix: key.Shown}, nil
}

// RevokeProviderKey ends a key for ever and closes its connections.
func (a *Admin) RevokeProviderKey(ctx context.Context, m *hubv1.RevokeProviderKeyRequest) (*hubv1.RevokeProviderKeyResponse, error) {
	id, err := ids.ParseKey(m.GetKeyId())
	if err != nil {
		return nil, fault.New(fault.NotFound, fault.KeyNotFound, "no such provider key").On("key_id")
	}
	if err := a.accounts.RevokeKey(ctx, id); err != nil {
		return nil, err
	}
	a.registry.KeyRevoked(id)
	return &hubv1.RevokeProviderKeyResponse{}, nil
}

// providerID reads an id; text that is none names no provider.
func providerID(text string) (ids.ProviderID, error) {
	id, err := ids.ParseProvider(text)
	if err != nil {
		return id, fault.New(fault.NotFound, fault.ProviderNotFound, "no such provider").On("provider_id")
	}
	return id, nil
}

func accountToProto(a provider.Account) *hubv1.Provider {
	return &hubv1.Provider{
		ProviderId: a.ID.String(), Name: a.Name, Status: statusToProto(a.Status), Region: a.Region,
		CreatedAt: timestamppb.New(a.CreatedAt),
	}
}

func statusToProto(s provider.Status) hubv1.ProviderStatus {
	switch s {
	case provider.Pending:
		return hubv1.ProviderStatus_PROVIDER_STATUS_PENDING
	case provider.Active:
		return hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE
	case provider.Suspended:
		return hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED
	default:
		return hubv1.ProviderStatus_PROVIDER_STATUS_UNSPECIFIED
	}
}

// statusFromProto leaves a status that is none for the domain to refuse.
func statusFromProto(s hubv1.ProviderStatus) provider.Status {
	switch s {
	case hubv1.ProviderStatus_PROVIDER_STATUS_PENDING:
		return provider.Pending
	case hubv1.ProviderStatus_PROVIDER_STATUS_ACTIVE:
		return provider.Active
	case hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED:
		return provider.Suspended
	default:
		return ""
	}
}
