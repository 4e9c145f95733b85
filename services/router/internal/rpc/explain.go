package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/ids"
	routerv1 "svc.internal/proto/svc/router/v1"
	"svc.internal/services/router/internal/breaker"
)

// ExplainProvider reports why a provider is chosen or not.
func (r *Router) ExplainProvider(
	_ context.Context, req *routerv1.ExplainProviderRequest,
) (*routerv1.ExplainProviderResponse, error) {
	provider, err := ids.ParseProvider(req.GetProviderId())
	if err != nil {
		return nil, invalid("provider_id")
	}
	a := r.explain.Provider(provider.String(), r.Clock.Now())
	resp := &routerv1.ExplainProviderResponse{Since: timestamppb.New(r.since)}
	for _, j := range a.Rejects {
		resp.Rejects = append(resp.Rejects, &routerv1.RejectCount{Reason: j.Reason.String(), Count: j.Count})
	}
	for _, m := range a.Models {
		resp.Models = append(resp.Models, &routerv1.ModelHealth{
			ModelId: m.ID, Nodes: int32(m.Nodes), AvailableNodes: int32(m.Available),
			InFlight: int32(m.InFlight), Capacity: int32(m.Capacity),
			Breaker: breakerToProto(m.Breaker), Chosen: m.Chosen,
			Lane: m.Lane.String(), MeasuredContextLength: m.Measured, ContextLength: m.Window,
			ReportedContextLength: m.Declared, Trust: m.Trust, Samples: int32(m.Figures.Samples),
			TtftMsP50: milliseconds(m.Figures.FirstContentP50), TtftMsP95: milliseconds(m.Figures.FirstContentP95),
			TokensPerSecondP50: m.Figures.TokensPerSecondP50, SuccessRate: m.Figures.Success24h,
		})
	}
	for _, n := range a.Nodes {
		node := &routerv1.NodeHealth{NodeId: n.ID}
		for _, o := range n.Offers {
			node.Models = append(node.Models, &routerv1.NodeModel{ModelId: o.Model, Serving: o.Serving,
				InFlight: int32(o.InFlight), Capacity: int32(o.Capacity)})
		}
		resp.Nodes = append(resp.Nodes, node)
	}
	return resp, nil
}

// breakerToProto returns the word for a breaker's state, which is part of the contract.
func breakerToProto(s breaker.State) string {
	switch s {
	case breaker.Open:
		return "open"
	case breaker.HalfOpen:
		return "half_open"
	default:
		return "closed"
	}
}
