package serve

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// MaxMessageBytes bounds a gRPC message: a request body of 10 MiB and room for
// what travels with it.
const MaxMessageBytes = 12 << 20

// keepAlive is shared by both ends, so that neither takes the other's pings
// for abuse.
const keepAlive = 20 * time.Second

// GRPC serves what register registers on lis until ctx ends; then it lets
// calls end for at most 20 s.
func GRPC(ctx context.Context, lis net.Listener, in Interceptors, register func(grpc.ServiceRegistrar)) error {
	srv := grpc.NewServer(
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: keepAlive, Timeout: keepAlive / 2}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: keepAlive / 2, PermitWithoutStream: true}),
		grpc.ChainUnaryInterceptor(in.UnaryServer),
		grpc.ChainStreamInterceptor(in.StreamServer),
	)
	register(srv)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		force := time.AfterFunc(20*time.Second, srv.Stop)
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

// Dial connects to a peer on this machine. The connection is made lazily and
// mended by itself. Only loopback addresses are accepted, because nothing is
// encrypted.
func Dial(address string, in Interceptors) (*grpc.ClientConn, error) {
	if err := Loopback(address); err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.MaxCallSendMsgSize(MaxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepAlive, Timeout: keepAlive / 2, PermitWithoutStream: true}),
		grpc.WithChainUnaryInterceptor(in.UnaryClient),
		grpc.WithChainStreamInterceptor(in.StreamClient),
	)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	return conn, nil
}

// Loopback returns an error unless address is host:port with a loopback host.
func Loopback(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("address %q is not host:port", address)
	}
	if host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("address %q is not on loopback, and this connection is not encrypted", address)
	}
	return nil
}
