package rpc

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"svc.internal/pkg/fault"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	"svc.internal/services/catalog/internal/snapshot"
)

const (
	defaultPageSize = 50
	maxPageSize     = 200
	// maxOfferings is the most that the router names.
	maxOfferings = 1000
	// success goes with code 0 in every answer of this service.
	success = "success"
)

// Public implements PublicCatalogService.
type Public struct {
	catalogv1.UnimplementedPublicCatalogServiceServer
	keeper *snapshot.Keeper
	router routerv1.RouterServiceClient

	listing listing
}

// NewPublic makes the service.
func NewPublic(keeper *snapshot.Keeper, router routerv1.RouterServiceClient) *Public {
	return &Public{keeper: keeper, router: router}
}

// ListModels is one page of the catalog, from memory.
func (s *Public) ListModels(
	_ context.Context, req *catalogv1.ListModelsRequest,
) (*catalogv1.ListModelsResponse, error) {
	page, err := pageFromProto(req.GetPage(), req.GetPageSize())
	if err != nil {
		return nil, err
	}
	current, _, err := s.keeper.Current()
	if err != nil {
		return nil, err
	}
	models := current.Page(page.number, page.size)
	list := make([]*catalogv1.PublicModel, len(models))
	for i, m := range models {
		list[i] = publicModel(m)
	}
	return &catalogv1.ListModelsResponse{Msg: success, Data: &catalogv1.ListModelsData{
		List: list, Total: int32(len(current.Models)), Page: int32(page.number), PageSize: int32(page.size),
	}}, nil
}

// GetModel is one entry of the catalog, from memory.
func (s *Public) GetModel(_ context.Context, req *catalogv1.GetModelRequest) (*catalogv1.GetModelResponse, error) {
	model, err := s.find(req.GetModelId())
	if err != nil {
		return nil, err
	}
	return &catalogv1.GetModelResponse{Msg: success, Data: publicModel(model)}, nil
}

// ListModelProviders is one page of a model's providers, ordered by id, as the
// router knows them now.
func (s *Public) ListModelProviders(
	ctx context.Context, req *catalogv1.ListModelProvidersRequest,
) (*catalogv1.ListModelProvidersResponse, error) {
	page, err := pageFromProto(req.GetPage(), req.GetPageSize())
	if err != nil {
		return nil, err
	}
	model, err := s.find(req.GetModelId())
	if err != nil {
		return nil, err
	}
	resp, err := s.router.ListOfferings(ctx, &routerv1.ListOfferingsRequest{ModelId: model.ID})
	if err != nil {
		return nil, fmt.Errorf("list offerings: %w", err)
	}
	offerings := slices.Clone(resp.GetOfferings()[:min(len(resp.GetOfferings()), maxOfferings)])
	slices.SortStableFunc(offerings, func(a, b *routerv1.Offering) int {
		return cmp.Compare(a.GetProviderId(),
			b.GetProviderId())
	})
	start, end := snapshot.Window(len(offerings), page.number, page.size)
	list := make([]*catalogv1.PublicOffering, 0, end-start)
	for _, o := range offerings[start:end] {
		list = append(list, publicOffering(o, model))
	}
	return &catalogv1.ListModelProvidersResponse{Msg: success, Data: &catalogv1.ListModelProvidersData{
		List: list, Total: int32(len(offerings)), Page: int32(page.number), PageSize: int32(page.size),
	}}, nil
}

func (s *Public) find(id string) (snapshot.Model, error) {
	current, _, err := s.keeper.Current()
	if err != nil {
		return snapshot.Model{}, err
	}
	return find(current, id)
}

func find(current *snapshot.Snapshot, id string) (snapshot.Model, error) {
	model, found := current.Find(id)
	if !found {
		return snapshot.Model{}, fault.New(fault.NotFound, fault.ModelNotFound, "the model does not exist").On("model_id")
	}
	return model, nil
}

// page is a place in a list.
type page struct{ number, size int }

func pageFromProto(number, size int32) (page, error) {
	p := page{number: int(cmp.Or(number, 1)), size: int(cmp.Or(size, defaultPageSize))}
	switch {
	case p.number < 1:
		return page{}, fault.New(fault.Invalid, fault.InvalidValue, "page must be at least 1").On("page")
	case p.size < 1 || p.size > maxPageSize:
		return page{}, fault.New(fault.Invalid, fault.InvalidValue, "page_size must be 1 to %d", maxPageSize).On("page_size")
	}
	return p, nil
}
