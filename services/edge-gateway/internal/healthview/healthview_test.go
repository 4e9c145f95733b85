package healthview

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	healthv1 "svc.internal/proto/svc/health/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// silent is a router that answers nothing until the caller gives up.
type silent struct{ routerv1.RouterServiceClient }

func (silent) ListBreakers(
	ctx context.Context, _ *routerv1.ListBreakersRequest, _ ...grpc.CallOption,
) (*routerv1.ListBreakersResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) ListHubs(
	ctx context.Context, _ *routerv1.ListHubsRequest, _ ...grpc.CallOption,
) (*routerv1.ListHubsResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// streams answers at once.
type streams struct {
	billingv1.StreamAdminServiceClient
}

func (streams) ListStreams(
	context.Context, *billingv1.ListStreamsRequest, ...grpc.CallOption,
) (*billingv1.ListStreamsResponse, error) {
	return &billingv1.ListStreamsResponse{List: []*billingv1.StreamState{{Stream: "USAGE"}}}, nil
}

func TestAServiceThatIsSilentDelaysThePageByTheTimeoutAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New(Sources{
			Services: []Service{
				{"b", func(context.Context) error { return nil }},
				{"a", func(context.Context) error {
					return fault.New(fault.Unavailable, fault.ServiceUnavailable, "SQLSTATE of 10.0.0.1")
				}},
			},
			RouterName: "router", Router: silent{}, Streams: streams{}, Clock: clock.System,
		}, Timeout)
		began := time.Now()
		resp, err := v.GetHealth(t.Context(), &healthv1.GetHealthRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > Timeout {
			t.Errorf("the page took %s, want %s at most", took, Timeout)
		}
		var said []string
		for _, s := range resp.GetServices() {
			said = append(said, s.GetService()+": "+s.GetError())
		}
		const want = "a: cannot be reached; b: ; router: does not answer in time"
		if got := strings.Join(said, "; "); got != want {
			t.Errorf("the services: got %q, want %q", got, want)
		}
		if got := resp.GetHubs().GetError(); got != "does not answer in time" {
			t.Errorf("the hubs: got the error %q, want that it does not answer in time", got)
		}
		if got := len(resp.GetStreams().GetList()); got != 1 {
			t.Errorf("the streams: got %d, want 1", got)
		}
	})
}
