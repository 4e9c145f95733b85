// Package standalone runs the marketplace in one process, for a laptop, a demo
// or a small deployment: the services as they are, connected by direct calls
// through the interceptors they always have, on a PostgreSQL that is found or
// started and a NATS server inside. Any subset of the services can run in one
// process and dial the rest.
//
// A start on an empty directory makes everything; the next finds it. When the
// context ends, requests under way finish, usage is settled as far as it goes,
// and what is left stays in the hub's journal for the next start.
package standalone

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/serve"
	"svc.internal/pkg/telemetry"
	"svc.internal/services/standalone/internal/console"
	"svc.internal/services/standalone/internal/localdata"
)

// Streams are where the process writes: Out for a person, Log for its log.
type Streams struct {
	Out io.Writer
	Log io.Writer
}

// Run starts what cfg names and blocks until ctx ends and all has stopped.
func Run(ctx context.Context, cfg Config, streams Streams) (err error) {
	con := console.New(streams.Out, clock.System.Now)
	tel, err := telemetry.Start(telemetry.Config{LogLevel: cfg.LogLevel, LogFormat: cfg.LogFormat}, streams.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tel.Stop(context.WithoutCancel(ctx))) }()
	dir, err := localdata.Open(cfg.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	lis, err := listen(cfg)
	if err != nil {
		return err
	}
	defer lis.close()
	infra, err := startInfra(ctx, cfg, dir, tel.Log, con)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, infra.Close()) }()
	done := con.Step("Services")
	fleet, err := newFleet(ctx, cfg, infra, dir, tel)
	if err != nil {
		return err
	}
	p := &process{cfg: cfg, fleet: fleet, lis: lis, con: con, tel: tel, built: done}
	err = serve.Run(ctx, p.parts()...)
	con.Say("Stopped.")
	return err
}

// listeners are taken before anything slow begins, so that an address in use
// is said at once.
type listeners struct{ http, ws, metrics, grpc net.Listener }

func listen(cfg Config) (*listeners, error) {
	l := &listeners{}
	for _, want := range []struct {
		to            *net.Listener
		name, address string
		wanted        bool
	}{
		{&l.http, "SVC_HTTP_ADDR", cfg.HTTPAddr, cfg.runs(gatewayName)},
		{&l.ws, "SVC_WS_ADDR", cfg.WSAddr, cfg.runs(hubName)},
		{&l.metrics, "SVC_METRICS_ADDR", cfg.MetricsAddr, true},
		{&l.grpc, "SVC_GRPC_ADDR", cfg.GRPCAddr, cfg.GRPCAddr != ""},
	} {
		if !want.wanted {
			continue
		}
		lis, err := net.Listen("tcp", want.address)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("%s: %w", want.name, err)
		}
		*want.to = lis
	}
	return l, nil
}

// close closes what is still open; closing twice is harmless.
func (l *listeners) close() {
	for _, lis := range []net.Listener{l.http, l.ws, l.metrics, l.grpc} {
		if lis != nil {
			lis.Close()
		}
	}
}

// process is everything that runs.
type process struct {
	cfg   Config
	fleet *fleet
	lis   *listeners
	con   *console.Console
	tel   *telemetry.Telemetry
	built func(string)
}

// parts are in the order in which they start; they stop in the opposite one,
// so that the listeners close first and requests under way still find all they
// need.
func (p *process) parts() []serve.Part {
	parts := []serve.Part{{Name: "metrics", StopTimeout: 5 * time.Second, Run: func(ctx context.Context) error {
		return serve.HTTP(ctx, p.lis.metrics, serve.AdminHandler(p.tel.Handler(), p.ready), serve.HTTPConfig{Log: p.tel.Log, DrainTimeout: time.Second})
	}}}
	if ended := p.fleet.infra.databaseEnded; ended != nil {
		// Nothing is right without it, and only a new start mends it.
		parts = append(parts, serve.Part{Name: "PostgreSQL", Run: func(ctx context.Context) error {
			select {
			case <-ended:
				return errors.New("the private server ended; its log is in its folder")
			case <-ctx.Done():
				return nil
			}
		}})
	}
	if p.lis.grpc != nil {
		parts = append(parts, serve.Part{Name: "gRPC", Run: func(ctx context.Context) error {
			return serve.GRPC(ctx, p.lis.grpc, p.fleet.in, func(r grpc.ServiceRegistrar) { p.fleet.register(r) })
		}})
	}
	for _, s := range p.fleet.services {
		// A hub lets streams end for up to two minutes; peers must be able
		// to reach it meanwhile, which is why gRPC stops after it.
		parts = append(parts, serve.Part{Name: s.name, StopTimeout: 150 * time.Second, Run: s.Run})
	}
	if p.lis.ws != nil {
		parts = append(parts, serve.Part{Name: "provider sockets", Run: func(ctx context.Context) error {
			return serve.HTTP(ctx, p.lis.ws, p.fleet.wsHandler, serve.HTTPConfig{Log: p.tel.Log, DrainTimeout: time.Second})
		}})
	}
	parts = append(parts, serve.Part{Name: "demo", Run: p.runDemo})
	if p.lis.http != nil {
		parts = append(parts, serve.Part{Name: "public API", Run: func(ctx context.Context) error {
			return serve.HTTP(ctx, p.lis.http, p.fleet.httpHandler, serve.HTTPConfig{Log: p.tel.Log})
		}})
	}
	return parts
}

// ready is nil once every service of this process can serve.
func (p *process) ready(ctx context.Context) error {
	var missing []error
	for _, s := range p.fleet.services {
		if err := s.Ready(ctx); err != nil {
			missing = append(missing, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	return errors.Join(missing...)
}

// waitReady returns when every service is ready, and after a minute with what
// is missing.
func (p *process) waitReady(ctx context.Context) error {
	return poll(ctx, time.Minute, p.ready)
}

// poll calls check until it succeeds, ctx ends, or the time is up.
func poll(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-ticker.C:
		}
	}
}
