package serve

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"svc.internal/pkg/fault"
)

// MaxMessageBytes bounds a gRPC message: a request body of 26 MiB, and room for the
// fields beside it.
const MaxMessageBytes = 28 << 20

const (
	// keepAlive is the same at both ends, so that neither takes the other's pings for
	// abuse.
	keepAlive = 20 * time.Second
	// maxAge makes clients look for new replicas now and then. Running calls may end
	// within ageGrace, which is longer than the longest request.
	maxAge   = 30 * time.Minute
	ageGrace = 15 * time.Minute
	// grpcDrain is how long calls may run once a server stops, by default.
	grpcDrain = 20 * time.Second
	// idleLooks is how often in a row a server that stops finds no call under way before it
	// closes the connections, and idleLook the pause between two looks. Meanwhile the last
	// answers are sent.
	idleLooks = 20
	idleLook  = 50 * time.Millisecond
	// maxStreams bounds the calls of one connection.
	maxStreams = 10_000
	// streamWindow bounds what one end may send of a stream before the other takes it, and connWindow what it may
	// send of a connection before that has arrived, in bytes. A stream that nobody reads stops no other. Both are
	// fixed at both ends, because windows that grow with the traffic are found by a ping for nearly every message,
	// which nearly doubles the writes of a unary call. A message longer than the window of its stream passes at once
	// where the other end awaits it.
	streamWindow = 256 << 10
	connWindow   = 4 << 20
	// streamWorkers is how many goroutines wait for calls. A call that finds one of them idle gets a stack that has
	// grown already; every other call gets a goroutine of its own. Those who watch the health of this server keep
	// one each.
	streamWorkers = 32
)

// GRPCConfig says who may call a server.
type GRPCConfig struct {
	Interceptors Interceptors
	// Credentials prove the server and verify its callers. Nil means no encryption, for
	// loopback only, and Callers is not enforced then.
	Credentials *Credentials
	Callers     Callers
	// DrainTimeout is how long calls may run after ctx has ended; 0 means 20 s.
	DrainTimeout time.Duration
}

// GRPC serves on lis what register registers, until ctx ends. Then it lets calls end within
// the drain time. It does not wait for callers who take no answer of a call that has ended.
func GRPC(ctx context.Context, lis net.Listener, cfg GRPCConfig, register func(grpc.ServiceRegistrar)) error {
	calls := &calls{}
	unary := []grpc.UnaryServerInterceptor{calls.unary, holdRetriesUnary, cfg.Interceptors.UnaryServer}
	stream := []grpc.StreamServerInterceptor{calls.stream, cfg.Interceptors.StreamServer}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: keepAlive, Timeout: keepAlive / 2, MaxConnectionAge: maxAge, MaxConnectionAgeGrace: ageGrace,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepAlive / 2, PermitWithoutStream: true}),
	}
	if cfg.Credentials != nil {
		options = append(options, grpc.Creds(cfg.Credentials.server()))
		// Inside the others, so that a refused call is logged and counted.
		unary = append(unary, cfg.Callers.unary)
		stream = append(stream, cfg.Callers.stream)
	}
	srv := grpc.NewServer(append(options, grpc.ChainUnaryInterceptor(unary...), grpc.ChainStreamInterceptor(stream...))...)
	register(srv)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		force := time.AfterFunc(cmp.Or(cfg.DrainTimeout, grpcDrain), srv.Stop)
		defer force.Stop()
		graceful := make(chan struct{})
		go func() {
			defer close(graceful)
			srv.GracefulStop()
		}()
		calls.ended(graceful)
		srv.Stop()
		<-graceful
	}()
	err := srv.Serve(lis)
	if ctx.Err() == nil {
		return fmt.Errorf("serve gRPC on %s: %w", lis.Addr(), err)
	}
	<-stopped
	return nil
}

// calls counts the calls under way of a server.
type calls struct{ n atomic.Int64 }

func (c *calls) unary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	c.n.Add(1)
	defer c.n.Add(-1)
	return handler(ctx, req)
}

func (c *calls) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	c.n.Add(1)
	defer c.n.Add(-1)
	return handler(srv, ss)
}

// ended returns once there has been no call for a while, or done is closed. A stream whose
// answer nobody takes would keep its connection open, although its handler has returned.
func (c *calls) ended(done <-chan struct{}) {
	tick := time.NewTicker(idleLook)
	defer tick.Stop()
	for idle := 0; idle < idleLooks; {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		idle++
		if c.n.Load() > 0 {
			idle = 0
		}
	}
}

// retryPushback is the trailer by which a gRPC server asks a client not to try again.
const retryPushback = "grpc-retry-pushback-ms"

// holdRetriesUnary keeps clients from asking another replica what this one has answered
// for all of them, for example that nobody is online. Only a replica that cannot serve
// yet, or no longer, is worth another try elsewhere.
func holdRetriesUnary(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	resp, err := handler(ctx, req)
	if status.Code(err) == codes.Unavailable {
		if f, ok := fault.As(fault.FromError(err)); ok && f.Reason != fault.ServiceUnavailable &&
			f.Reason != fault.AdmissionUnavailable {
			// SetTrailer fails only after the answer has been sent.
			_ = grpc.SetTrailer(ctx, metadata.Pairs(retryPushback, "-1"))
		}
	}
	return resp, err
}
