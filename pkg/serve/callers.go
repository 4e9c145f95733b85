package serve

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"

	"svc.internal/pkg/fault"
)

// Callers has the services that may call each gRPC service, by its full name. Nobody may
// call a service that is not in it. Every peer with a certificate may ask for health. It
// is enforced where peers prove their identity, that is, under TLS.
type Callers map[string][]string

// check returns a fault unless the peer's certificate names a service that may call
// method, which has the form /service/method.
func (c Callers) check(ctx context.Context, method string) error {
	service, _, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	if service == grpc_health_v1.Health_ServiceDesc.ServiceName {
		return nil
	}
	for _, name := range identities(ctx) {
		if slices.Contains(c[service], name) {
			return nil
		}
	}
	return fault.New(fault.Denied, fault.CallerNotAllowed, "%v may not call %s", identities(ctx), service)
}

// Proves reports whether the caller's certificate names it. Where peers do not prove
// their identity, that is, within a process and on loopback without TLS, every caller
// passes.
func Proves(ctx context.Context, name string) bool {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return true
	}
	if _, encrypted := p.AuthInfo.(credentials.TLSInfo); !encrypted {
		return true
	}
	return slices.Contains(identities(ctx), name)
}

// identities returns the names in the verified certificate of the peer.
func identities(ctx context.Context) []string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.VerifiedChains) == 0 {
		return nil
	}
	return info.State.VerifiedChains[0][0].DNSNames
}

func (c Callers) unary(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	if err := c.check(ctx, info.FullMethod); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

func (c Callers) stream(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler,
) error {
	if err := c.check(stream.Context(), info.FullMethod); err != nil {
		return err
	}
	return handler(srv, stream)
}
