package serve

import (
	"context"
	"fmt"
	"net"
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
	// grpcDrain is how long calls may run once a server stops.
	grpcDrain = 20 * time.Second
	// maxStreams bounds the calls of one connection.
	maxStreams = 10_000
)

// GRPCConfig says who may call a server.
type GRPCConfig struct {
	Interceptors Interceptors
	// Credentials prove the server and verify its callers. Nil means no encryption, for
	// loopback only, and Callers is not enforced then.
	Credentials *Credentials
	Callers     Callers
}

// GRPC serves on lis what register registers, until ctx ends. Then it lets calls end for
// at most 20 s.
func GRPC(ctx context.Context, lis net.Listener, cfg GRPCConfig, register func(grpc.ServiceRegistrar)) error {
	unary := []grpc.UnaryServerInterceptor{holdRetriesUnary, cfg.Interceptors.UnaryServer}
	stream := []grpc.StreamServerInterceptor{cfg.Interceptors.StreamServer}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.MaxConcurrentStreams(maxStreams),
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
		force := time.AfterFunc(grpcDrain, srv.Stop)
		srv.GracefulStop()
		force.Stop()
	}()
	err := srv.Serve(lis)
	if ctx.Err() == nil {
		return fmt.Errorf("serve gRPC on %s: %w", lis.Addr(), err)
	}
	<-stopped
	return nil
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
