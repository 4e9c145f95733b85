package catalog

import (
	"math"
	"testing"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/fault"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

func TestProvidersOfAModelCarryItsPriceAndTheirWindow(t *testing.T) {
	b := setup(t)
	b.put(t, wish("test/plain"))
	b.router.set(func(r *router) {
		r.offerings = []*routerv1.Offering{
			{ProviderId: "2", ConnectionMode: eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET,
				ReportedContextLength: math.MaxInt64, Samples: 100, TtftMsP50: 12, TtftMsP95: math.NaN(), SuccessRate: 0,
				Uptime_30D: proto.Float64(math.NaN())},
			{ProviderId: "1", Samples: 9, TtftMsP50: 12, Probation: true, Uptime_30D: proto.Float64(1.5)},
			{ProviderId: "3", ConnectionMode: eventsv1.ConnectionMode_CONNECTION_MODE_EXTERNAL,
				ReportedContextLength: 8192, ContextLength: 2048, Trust: proto.Float64(0.97),
				ContextSource: routerv1.ContextSource_CONTEXT_SOURCE_MEASURED},
		}
	})
	resp, err := b.public.ListModelProviders(t.Context(), &catalogv1.ListModelProvidersRequest{ModelId: "test/plain"})
	if err != nil || resp.GetData().GetTotal() != 3 {
		t.Fatalf("%v, %v", resp, err)
	}
	want := []*catalogv1.PublicOffering{
		{ProviderId: "1", InputPrice: 1, OutputPrice: 3, InputPriceStr: "1.00", OutputPriceStr: "3.00",
			ContextLength: 8192, ContextBasis: "catalog", Online: true, Trust: "probation", Uptime_30D: proto.Float64(1)},
		{ProviderId: "2", ConnectionMode: "websocket", InputPrice: 1, OutputPrice: 3, InputPriceStr: "1.00",
			OutputPriceStr: "3.00", ContextLength: 8192, ContextBasis: "catalog", TtftMsP50: proto.Float64(12),
			SuccessRate_24H: proto.Float64(0), Online: true, Trust: "normal"},
		{ProviderId: "3", ConnectionMode: "external", InputPrice: 1, OutputPrice: 3, InputPriceStr: "1.00",
			OutputPriceStr: "3.00",
			ContextLength:  2048, ContextBasis: "measured", Online: true, Trust: "high"},
	}
	for i, o := range resp.GetData().GetList() {
		if !proto.Equal(o, want[i]) {
			t.Errorf("offering: got %v, want %v", o, want[i])
		}
	}
	if _, err := b.public.ListModelProviders(t.Context(),
		&catalogv1.ListModelProvidersRequest{ModelId: "no/such"}); !fault.Is(err, fault.ModelNotFound) {
		t.Errorf("an unknown model: got the error %v, want the reason %v", err, fault.ModelNotFound)
	}
	b.router.set(func(r *router) { r.away = true })
	if _, err := b.public.ListModelProviders(t.Context(),
		&catalogv1.ListModelProvidersRequest{ModelId: "test/plain"}); !fault.Is(err, fault.ServiceUnavailable) {
		t.Errorf("without a router: got the error %v, want the reason %v", err, fault.ServiceUnavailable)
	}
}
