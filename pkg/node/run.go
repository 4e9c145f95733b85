package node

import (
	"context"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/serve"
)

const (
	// readyInterval is the pause between two checks of health while the process is not
	// healthy, and healthInterval while it is.
	readyInterval  = 50 * time.Millisecond
	healthInterval = time.Second
	// publicWait bounds how long the public waits at the listener of a process that starts.
	publicWait = 5 * time.Second
	// checkTimeout bounds one check.
	checkTimeout = 5 * time.Second
	// serviceStop is how long a service may take to stop: a hub lets streams end for up
	// to two minutes.
	serviceStop = 150 * time.Second
	// stopMargin is the time for stopping beside the drain times.
	stopMargin = 10 * time.Second
)

// Endpoint is an HTTP listener of a service.
type Endpoint struct {
	// Name is the endpoint's name in the log.
	Name     string
	Listener net.Listener
	Handler  http.Handler
	// Public requests may end within the process's drain time. Others, which end by other
	// means, have a second.
	Public bool
}

// Extra are parts beside the parts of the services.
type Extra struct {
	// First start before everything else and stop after it.
	First []serve.Part
	// Last start after the services and before the public is let in.
	Last []serve.Part
}

// Run runs the services until ctx ends and all of them have stopped in order.
func (n *Node) Run(ctx context.Context, extra Extra) error {
	// The parts outlive ctx by the drain delay.
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	go func() {
		select {
		case <-inner.Done():
			return
		case <-ctx.Done():
		}
		n.stop()
		timer := time.NewTimer(n.cfg.DrainDelay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-inner.Done():
		}
		cancel()
	}()
	return serve.Run(inner, n.parts(extra)...)
}

// stop makes the process say that it is not ready.
func (n *Node) stop() { n.once.Do(func() { close(n.stopping) }) }

// parts returns the parts in the order in which they start; they stop in the reverse
// order. So the last part says first that the process is not ready, whatever made it
// stop.
func (n *Node) parts(extra Extra) []serve.Part {
	return append(n.working(extra), serve.Part{Name: "readiness", Run: func(ctx context.Context) error {
		<-ctx.Done()
		n.stop()
		return nil
	}})
}

func (n *Node) working(extra Extra) []serve.Part {
	status := health.NewServer()
	status.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	parts := append([]serve.Part{n.admin()}, extra.First...)
	if lis := n.listeners["grpc_addr"]; lis != nil {
		parts = append(parts, serve.Part{Name: "gRPC", Run: func(ctx context.Context) error {
			cfg := serve.GRPCConfig{Interceptors: n.in, Credentials: n.creds, Callers: n.callers()}
			return serve.GRPC(ctx, lis, cfg, func(r grpc.ServiceRegistrar) {
				grpc_health_v1.RegisterHealthServer(r, status)
				for _, s := range n.services {
					s.Register(r)
				}
			})
		}})
	}
	for _, s := range n.services {
		parts = append(parts, serve.Part{Name: s.name, StopTimeout: serviceStop, Run: s.Run})
	}
	if n.listeners["grpc_addr"] != nil { // else nobody can ask
		parts = append(parts, serve.Part{Name: "health", Run: func(ctx context.Context) error {
			n.watchHealth(ctx, status)
			return nil
		}})
	}
	for _, e := range n.endpoints {
		if !e.Public {
			parts = append(parts, n.http(e))
		}
	}
	parts = append(parts, extra.Last...)
	for _, e := range n.endpoints {
		if e.Public {
			parts = append(parts, n.http(e))
		}
	}
	return parts
}

func (n *Node) admin() serve.Part {
	return serve.Part{Name: "admin", StopTimeout: 5 * time.Second, Run: func(ctx context.Context) error {
		lis := n.listeners["admin_addr"]
		return serve.HTTP(ctx, lis, serve.AdminHandler(n.tel.Handler(), n.Ready, n.cfg.hasProfiles(lis.Addr().String())),
			serve.HTTPConfig{Log: n.tel.Log, DrainTimeout: time.Second})
	}}
}

func (n *Node) http(e Endpoint) serve.Part {
	drain, handler := time.Second, e.Handler
	if e.Public {
		drain, handler = n.cfg.DrainTimeout, n.farewell(e.Handler)
	}
	return serve.Part{Name: e.Name, StopTimeout: drain + stopMargin, Run: func(ctx context.Context) error {
		if e.Public {
			n.awaitReady(ctx)
		}
		return serve.HTTP(ctx, e.Listener, handler, serve.HTTPConfig{Log: n.tel.Log, DrainTimeout: drain})
	}}
}

// awaitReady returns once every service can serve, and at the latest after publicWait. Until then
// connections wait at the listener, so that the first requests are not refused for what the
// services learn in their first moments. A service that needs longer says itself what is missing.
func (n *Node) awaitReady(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, publicWait)
	defer cancel()
	for n.Ready(ctx) != nil && clock.Sleep(ctx, readyInterval) == nil {
	}
}

// farewell makes clients open new connections to other processes when this one is about
// to stop, because a connection that is closed while idle may collide with a request.
func (n *Node) farewell(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.isStopping() {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// watchHealth reports to gRPC clients whether this replica can serve, until ctx ends.
func (n *Node) watchHealth(ctx context.Context, status *health.Server) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	stopping := n.stopping
	for {
		select {
		case <-ctx.Done():
			status.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
			return
		case <-stopping:
			stopping = nil
		case <-timer.C:
		}
		checkCtx, cancel := context.WithTimeout(ctx, checkTimeout)
		err := n.Ready(checkCtx)
		cancel()
		state, next := grpc_health_v1.HealthCheckResponse_SERVING, healthInterval
		if err != nil {
			state, next = grpc_health_v1.HealthCheckResponse_NOT_SERVING, readyInterval
		}
		status.SetServingStatus("", state)
		timer.Reset(next)
	}
}
