// Package healthview asks all services how they fare, for the operators' page.
//
// All are asked at once, each for at most the timeout. Every part of the answer has its own error, so
// a service that is away blanks nothing else. An error is said in words of this package, because a
// service's own text may be about its inside.
package healthview

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	healthv1 "svc.internal/proto/svc/health/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
)

// Timeout bounds how long the page waits for a service.
const Timeout = 3 * time.Second

// Service is a service with a database.
type Service struct {
	Name string
	// Ask asks for something out of the database.
	Ask func(ctx context.Context) error
}

// Sources are those who are asked.
type Sources struct {
	Services []Service
	// RouterName is the name of the service that Router reaches.
	RouterName string
	Router     routerv1.RouterServiceClient
	Streams    billingv1.StreamAdminServiceClient
	Clock      clock.Clock
}

// View answers health.v1.HealthService. It has the form of a client, so that the routes of operators
// call it as they call the services.
type View struct {
	from    Sources
	timeout time.Duration
}

// New returns a view of sources.
func New(from Sources, timeout time.Duration) *View { return &View{from, timeout} }

// GetHealth asks all sources at once.
func (v *View) GetHealth(
	ctx context.Context, _ *healthv1.GetHealthRequest, _ ...grpc.CallOption,
) (*healthv1.GetHealthResponse, error) {
	asked := v.from.Clock.Now()
	ctx, cancel := context.WithTimeout(ctx, v.timeout)
	defer cancel()
	resp := &healthv1.GetHealthResponse{AskedAt: timestamppb.New(asked),
		Breakers: &healthv1.BreakerHealth{}, Hubs: &healthv1.HubHealth{}, Streams: &healthv1.StreamHealth{}}
	services := make([]*healthv1.ServiceHealth, len(v.from.Services)+1)
	var wg sync.WaitGroup
	for i, s := range v.from.Services {
		wg.Go(func() {
			services[i] = v.ask(ctx, s)
			services[i].HasDatabase = true
		})
	}
	wg.Go(func() {
		services[len(v.from.Services)] = v.ask(ctx, Service{v.from.RouterName, func(ctx context.Context) error {
			return addBreakers(ctx, v.from.Router, resp.GetBreakers())
		}})
	})
	wg.Go(func() { addHubs(ctx, v.from.Router, resp.GetHubs()) })
	wg.Go(func() { addStreams(ctx, v.from.Streams, resp.GetStreams()) })
	wg.Wait()
	slices.SortFunc(services, func(a, b *healthv1.ServiceHealth) int {
		return cmp.Compare(a.GetService(), b.GetService())
	})
	resp.Services = services
	return resp, nil
}

// ask asks one service and takes the time.
func (v *View) ask(ctx context.Context, s Service) *healthv1.ServiceHealth {
	from := v.from.Clock.Now()
	err := s.Ask(ctx)
	took := v.from.Clock.Now().Sub(from)
	return &healthv1.ServiceHealth{Service: s.Name, Answers: err == nil, LatencyMs: int32(took.Milliseconds()),
		Error: words(err)}
}

func addBreakers(ctx context.Context, from routerv1.RouterServiceClient, to *healthv1.BreakerHealth) error {
	resp, err := from.ListBreakers(ctx, &routerv1.ListBreakersRequest{})
	to.List, to.Total, to.Error = resp.GetList(), resp.GetTotal(), words(err)
	return err
}

func addHubs(ctx context.Context, from routerv1.RouterServiceClient, to *healthv1.HubHealth) {
	resp, err := from.ListHubs(ctx, &routerv1.ListHubsRequest{})
	to.List, to.Error = resp.GetList(), words(err)
}

func addStreams(ctx context.Context, from billingv1.StreamAdminServiceClient, to *healthv1.StreamHealth) {
	resp, err := from.ListStreams(ctx, &billingv1.ListStreamsRequest{})
	to.List, to.Error = resp.GetList(), words(err)
}

// words says why a service did not answer; nothing where it did.
func words(err error) string {
	f, ok := fault.As(fault.FromError(err))
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.DeadlineExceeded), ok && f.Kind == fault.Timeout:
		return "does not answer in time"
	case ok && f.Kind == fault.Unavailable:
		return "cannot be reached"
	default:
		return "answers with an error"
	}
}
