package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	routerv1 "svc.internal/proto/svc/router/v1"
	"svc.internal/services/router/internal/breaker"
)

// maxBreakers bounds the breakers that are listed.
const maxBreakers = 500

// ListBreakers names the pairs whose breaker is not closed.
func (r *Router) ListBreakers(
	context.Context, *routerv1.ListBreakersRequest,
) (*routerv1.ListBreakersResponse, error) {
	list, total := r.Health.Troubled(r.Clock.Now(), maxBreakers)
	resp := &routerv1.ListBreakersResponse{Total: int32(total)}
	for _, t := range list {
		state := breakerToProto(t.State)
		if t.State == breaker.Suspected {
			state = "suspected"
		}
		resp.List = append(resp.List, &routerv1.Breaker{ProviderId: t.Provider, ModelId: t.Model, State: state})
	}
	return resp, nil
}

// ListHubs names the hubs that are heard.
func (r *Router) ListHubs(context.Context, *routerv1.ListHubsRequest) (*routerv1.ListHubsResponse, error) {
	resp := &routerv1.ListHubsResponse{}
	for _, h := range r.View.Hubs() {
		resp.List = append(resp.List, &routerv1.HubState{HubId: h.Hub, Sessions: int32(h.Sessions),
			HeardAt: timestamppb.New(h.Heard)})
	}
	return resp, nil
}
