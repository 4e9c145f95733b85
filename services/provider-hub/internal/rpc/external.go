package rpc

import (
	"context"

	"svc.internal/pkg/config"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/serve"
	hubv1 "svc.internal/proto/svc/hub/v1"
	"svc.internal/services/provider-hub/internal/external"
	"svc.internal/services/provider-hub/internal/provider"
)

// Endpoints answers hub.v1.ExternalEndpointService.
type Endpoints struct {
	hubv1.UnimplementedExternalEndpointServiceServer
	directory *external.Directory
}

// NewEndpoints serves the owners of endpoints.
func NewEndpoints(directory *external.Directory) *Endpoints { return &Endpoints{directory: directory} }

// endpointID reads an id. A malformed id names no endpoint.
func endpointID(text string) (external.ID, error) {
	id, err := ids.ParseEndpoint(text)
	if err != nil {
		return id, external.NotFound()
	}
	return id, nil
}

// ofProvider reads the ids of a provider and of its endpoint.
func ofProvider(holder, endpoint string) (ids.ProviderID, external.ID, error) {
	p, err := providerID(holder)
	if err != nil {
		return p, external.ID{}, err
	}
	id, err := endpointID(endpoint)
	return p, id, err
}

// ListExternalEndpoints is one page of a provider's endpoints.
func (s *Endpoints) ListExternalEndpoints(
	ctx context.Context, m *hubv1.ListExternalEndpointsRequest,
) (*hubv1.ListExternalEndpointsResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	page, err := provider.PageOf(int(m.GetPage()), int(m.GetPageSize()), func(offset, limit int) (
		[]external.Endpoint, int, error) {
		return s.directory.List(ctx, id, offset, limit)
	})
	if err != nil {
		return nil, err
	}
	return &hubv1.ListExternalEndpointsResponse{List: endpointsToProto(page.List), Total: int32(page.Total),
		Page: int32(page.Number), PageSize: int32(page.Length)}, nil
}

// CreateExternalEndpoint registers a server.
func (s *Endpoints) CreateExternalEndpoint(
	ctx context.Context, m *hubv1.CreateExternalEndpointRequest,
) (*hubv1.CreateExternalEndpointResponse, error) {
	id, err := providerID(m.GetProviderId())
	if err != nil {
		return nil, err
	}
	e, err := s.directory.Create(ctx, id, external.Draft{
		Name: m.GetName(), BaseURL: m.GetBaseUrl(), Key: config.NewSecret(m.GetApiKey()),
		Models: modelsFromProto(m.GetModels()),
	}, m.GetIdempotencyKey())
	if err != nil {
		return nil, err
	}
	return &hubv1.CreateExternalEndpointResponse{Endpoint: endpointToProto(&e)}, nil
}

// GetExternalEndpoint reads one endpoint.
func (s *Endpoints) GetExternalEndpoint(
	ctx context.Context, m *hubv1.GetExternalEndpointRequest,
) (*hubv1.GetExternalEndpointResponse, error) {
	holder, id, err := ofProvider(m.GetProviderId(), m.GetEndpointId())
	if err != nil {
		return nil, err
	}
	e, err := s.directory.Get(ctx, holder, id)
	if err != nil {
		return nil, err
	}
	return &hubv1.GetExternalEndpointResponse{Endpoint: endpointToProto(&e)}, nil
}

// UpdateExternalEndpoint changes what is set.
func (s *Endpoints) UpdateExternalEndpoint(
	ctx context.Context, m *hubv1.UpdateExternalEndpointRequest,
) (*hubv1.UpdateExternalEndpointResponse, error) {
	holder, id, err := ofProvider(m.GetProviderId(), m.GetEndpointId())
	if err != nil {
		return nil, err
	}
	change := external.Change{Name: m.Name, BaseURL: m.BaseUrl}
	if m.ApiKey != nil {
		k := config.NewSecret(m.GetApiKey())
		change.Key = &k
	}
	if len(m.GetModels()) > 0 {
		change.Models = modelsFromProto(m.GetModels())
	}
	e, err := s.directory.Update(ctx, holder, id, change)
	if err != nil {
		return nil, err
	}
	return &hubv1.UpdateExternalEndpointResponse{Endpoint: endpointToProto(&e)}, nil
}

// DeleteExternalEndpoint removes an endpoint.
func (s *Endpoints) DeleteExternalEndpoint(
	ctx context.Context, m *hubv1.DeleteExternalEndpointRequest,
) (*hubv1.DeleteExternalEndpointResponse, error) {
	holder, id, err := ofProvider(m.GetProviderId(), m.GetEndpointId())
	if err != nil {
		return nil, err
	}
	if err := s.directory.Delete(ctx, holder, id); err != nil {
		return nil, err
	}
	return &hubv1.DeleteExternalEndpointResponse{}, nil
}

// CheckExternalEndpoint probes an endpoint now.
func (s *Endpoints) CheckExternalEndpoint(
	ctx context.Context, m *hubv1.CheckExternalEndpointRequest,
) (*hubv1.CheckExternalEndpointResponse, error) {
	holder, id, err := ofProvider(m.GetProviderId(), m.GetEndpointId())
	if err != nil {
		return nil, err
	}
	e, err := s.directory.Check(ctx, holder, id)
	if err != nil {
		return nil, err
	}
	return &hubv1.CheckExternalEndpointResponse{Endpoint: endpointToProto(&e)}, nil
}

// EndpointAdmin answers hub.v1.ExternalEndpointAdminService.
type EndpointAdmin struct {
	hubv1.UnimplementedExternalEndpointAdminServiceServer
	directory *external.Directory
}

// NewEndpointAdmin serves operators.
func NewEndpointAdmin(directory *external.Directory) *EndpointAdmin {
	return &EndpointAdmin{directory: directory}
}

// ListAllExternalEndpoints is one page of all endpoints, or of one provider's.
func (a *EndpointAdmin) ListAllExternalEndpoints(
	ctx context.Context, m *hubv1.ListAllExternalEndpointsRequest,
) (*hubv1.ListAllExternalEndpointsResponse, error) {
	var of ids.ProviderID
	if text := m.GetProviderId(); text != "" {
		var err error
		if of, err = providerID(text); err != nil {
			return nil, err
		}
	}
	page, err := provider.PageOf(int(m.GetPage()), int(m.GetPageSize()), func(offset, limit int) (
		[]external.Endpoint, int, error) {
		return a.directory.List(ctx, of, offset, limit)
	})
	if err != nil {
		return nil, err
	}
	return &hubv1.ListAllExternalEndpointsResponse{List: endpointsToProto(page.List), Total: int32(page.Total),
		Page: int32(page.Number), PageSize: int32(page.Length)}, nil
}

// SetExternalEndpointState takes an endpoint out of service, or lets it back in.
func (a *EndpointAdmin) SetExternalEndpointState(
	ctx context.Context, m *hubv1.SetExternalEndpointStateRequest,
) (*hubv1.SetExternalEndpointStateResponse, error) {
	id, err := endpointID(m.GetEndpointId())
	if err != nil {
		return nil, err
	}
	e, err := a.directory.Rule(ctx, operatorOf(ctx), id, external.Ruling{Disabled: m.Disabled, Shared: m.OriginShared,
		Reason: m.GetReason()})
	if err != nil {
		return nil, err
	}
	return &hubv1.SetExternalEndpointStateResponse{Endpoint: endpointToProto(&e)}, nil
}

// operatorOf returns the operator's name as entries have it.
func operatorOf(ctx context.Context) string {
	by := string(provider.ByOperator)
	if name := serve.Operator(ctx); name != "" {
		by += ":" + name
	}
	return by
}

func modelsFromProto(list []*hubv1.ExternalModel) []external.Model {
	out := make([]external.Model, 0, len(list))
	for _, m := range list {
		out = append(out, external.Model{ID: m.GetModelId(), Local: m.GetLocalModel(),
			ContextLength: int64(m.GetContextLength()), Quantization: m.GetQuantization(), Capabilities: m.GetCapabilities(),
			Capacity: int(m.GetCapacity())})
	}
	return out
}

func endpointsToProto(list []external.Endpoint) []*hubv1.ExternalEndpoint {
	out := make([]*hubv1.ExternalEndpoint, 0, len(list))
	for i := range list {
		out = append(out, endpointToProto(&list[i]))
	}
	return out
}

func endpointToProto(e *external.Endpoint) *hubv1.ExternalEndpoint {
	p := &hubv1.ExternalEndpoint{
		EndpointId: e.ID.String(), ProviderId: e.Provider.String(), Name: e.Name, BaseUrl: e.BaseURL,
		HasKey: !e.Sealed.IsZero(), State: string(e.State), LastError: string(e.Failure),
		CheckedAt: optionalTime(e.CheckedAt),
		HubId:     e.HubID, CreatedAt: optionalTime(e.CreatedAt), UpdatedAt: optionalTime(e.UpdatedAt),
		DisabledAt: optionalTime(e.DisabledAt), DisabledReason: e.DisabledReason, OriginShared: e.OriginShared,
	}
	for _, m := range e.Models {
		p.Models = append(p.Models, &hubv1.ExternalModel{
			ModelId: m.ID, LocalModel: m.Local, ContextLength: int32(m.ContextLength), Quantization: m.Quantization,
			Capabilities: m.Capabilities, Capacity: int32(m.Capacity), Listed: m.Listed,
		})
	}
	return p
}
