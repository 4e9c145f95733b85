package edgegateway

import (
	"context"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// noEndpoints is a hub's external endpoints where no provider has one.
type noEndpoints struct {
	hubv1.UnimplementedExternalEndpointServiceServer
	hubv1.UnimplementedExternalEndpointAdminServiceServer
}

func errNoEndpoint() error {
	return fault.New(fault.NotFound, fault.EndpointNotFound, "no such endpoint").On("endpoint_id")
}

func (noEndpoints) ListExternalEndpoints(
	context.Context, *hubv1.ListExternalEndpointsRequest,
) (*hubv1.ListExternalEndpointsResponse, error) {
	return &hubv1.ListExternalEndpointsResponse{Page: 1, PageSize: 50}, nil
}

func (noEndpoints) ListAllExternalEndpoints(
	context.Context, *hubv1.ListAllExternalEndpointsRequest,
) (*hubv1.ListAllExternalEndpointsResponse, error) {
	return &hubv1.ListAllExternalEndpointsResponse{Page: 1, PageSize: 50}, nil
}

func (noEndpoints) GetExternalEndpoint(
	context.Context, *hubv1.GetExternalEndpointRequest,
) (*hubv1.GetExternalEndpointResponse, error) {
	return nil, errNoEndpoint()
}

func (noEndpoints) UpdateExternalEndpoint(
	context.Context, *hubv1.UpdateExternalEndpointRequest,
) (*hubv1.UpdateExternalEndpointResponse, error) {
	return nil, errNoEndpoint()
}

func (noEndpoints) DeleteExternalEndpoint(
	context.Context, *hubv1.DeleteExternalEndpointRequest,
) (*hubv1.DeleteExternalEndpointResponse, error) {
	return nil, errNoEndpoint()
}

func (noEndpoints) CheckExternalEndpoint(
	context.Context, *hubv1.CheckExternalEndpointRequest,
) (*hubv1.CheckExternalEndpointResponse, error) {
	return nil, errNoEndpoint()
}

func (noEndpoints) SetExternalEndpointState(
	context.Context, *hubv1.SetExternalEndpointStateRequest,
) (*hubv1.SetExternalEndpointStateResponse, error) {
	return nil, errNoEndpoint()
}

// noVendors is a hub without vendors.
type noVendors struct {
	hubv1.UnimplementedVendorAdminServiceServer
}

func (noVendors) ListVendors(context.Context, *hubv1.ListVendorsRequest) (*hubv1.ListVendorsResponse, error) {
	return &hubv1.ListVendorsResponse{Page: 1, PageSize: 50}, nil
}

func (noVendors) CreateVendor(context.Context, *hubv1.CreateVendorRequest) (*hubv1.CreateVendorResponse, error) {
	return nil, fault.New(fault.Invalid, fault.InvalidValue, "name must be 1 to 64 printable characters").On("name")
}

func (noVendors) UpdateVendor(context.Context, *hubv1.UpdateVendorRequest) (*hubv1.UpdateVendorResponse, error) {
	return nil, fault.New(fault.NotFound, fault.ProviderNotFound, "no such vendor").On("provider_id")
}
