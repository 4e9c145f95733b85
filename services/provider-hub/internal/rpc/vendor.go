package rpc

import (
	"context"

	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/registry"
	"svc.internal/services/provider-hub/internal/vendor"
)

// The states of a vendor as operators write and read them.
const (
	vendorActive    = "active"
	vendorSuspended = "suspended"
)

// Vendors answers hub.v1.VendorAdminService.
type Vendors struct {
	hubv1.UnimplementedVendorAdminServiceServer
	directory *vendor.Directory
	registry  *registry.Registry
}

// NewVendors serves vendors, and applies changes to the sessions of reg.
func NewVendors(directory *vendor.Directory, reg *registry.Registry) *Vendors {
	return &Vendors{directory: directory, registry: reg}
}

// ListVendors returns one page, the oldest vendor first.
func (s *Vendors) ListVendors(ctx context.Context, m *hubv1.ListVendorsRequest) (*hubv1.ListVendorsResponse, error) {
	page, err := provider.PageOf(int(m.GetPage()), int(m.GetPageSize()), func(offset, limit int) (
		[]vendor.Vendor, int, error) {
		return s.directory.List(ctx, offset, limit)
	})
	if err != nil {
		return nil, err
	}
	out := &hubv1.ListVendorsResponse{Total: int32(page.Total), Page: int32(page.Number), PageSize: int32(page.Length)}
	for i := range page.List {
		out.List = append(out.List, vendorToProto(&page.List[i]))
	}
	return out, nil
}

// CreateVendor registers a vendor.
func (s *Vendors) CreateVendor(
	ctx context.Context, m *hubv1.CreateVendorRequest,
) (*hubv1.CreateVendorResponse, error) {
	v, err := s.directory.Create(byOperator(ctx), operatorOf(ctx), vendor.Draft{
		Name: m.GetName(), BaseURL: m.GetBaseUrl(), Key: config.NewSecret(m.GetApiKey()),
		Models: modelsFromProto(m.GetModels()),
	}, m.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	return &hubv1.CreateVendorResponse{Vendor: vendorToProto(&v)}, nil
}

// UpdateVendor changes the members that are set.
func (s *Vendors) UpdateVendor(
	ctx context.Context, m *hubv1.UpdateVendorRequest,
) (*hubv1.UpdateVendorResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	c := vendor.Change{Name: m.Name, BaseURL: m.BaseUrl, Reason: m.GetReason()}
	if m.ApiKey != nil {
		k := config.NewSecret(m.GetApiKey())
		c.Key = &k
	}
	if len(m.GetModels()) > 0 {
		c.Models = modelsFromProto(m.GetModels())
	}
	if m.State != nil {
		suspended := m.GetState() == vendorSuspended
		if !suspended && m.GetState() != vendorActive {
			return nil, fault.New(fault.Invalid, fault.InvalidValue, "state must be %s or %s", vendorActive,
				vendorSuspended).On("state")
		}
		c.Suspended = &suspended
	}
	v, err := s.directory.Update(byOperator(ctx), operatorOf(ctx), id, c)
	if err != nil {
		return nil, err
	}
	s.registry.Apply(v.Account.Standing())
	return &hubv1.UpdateVendorResponse{Vendor: vendorToProto(&v)}, nil
}

func vendorToProto(v *vendor.Vendor) *hubv1.Vendor {
	state := vendorSuspended
	if v.Account.Status == provider.Active {
		state = vendorActive
	}
	return &hubv1.Vendor{
		ProviderId: v.Account.ID.String(), Name: v.Account.Name, State: state,
		CreatedAt: optionalTime(v.Account.CreatedAt), Endpoint: endpointToProto(&v.Endpoint),
	}
}
