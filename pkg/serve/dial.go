package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // lets clients watch the health of replicas
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

var errNoAddress = errors.New("no address")

// connectParams find a replica soon after it is back: the network is ours.
var connectParams = grpc.ConnectParams{
	Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
		MaxDelay: 2 * time.Second},
	MinConnectTimeout: 5 * time.Second,
}

// Target is a service and its addresses.
type Target struct {
	// Service is the name that its certificate must have.
	Service string
	// Addresses are its replicas, host:port each, or one gRPC target such as
	// dns:///billing-ledger:9000. Calls go in turn to the replicas that say that they are
	// healthy.
	Addresses []string
	// Exactly uses the one address whatever it says of its health, for work that only
	// this replica can do.
	Exactly bool
}

// Dial connects to a service. The connection is made lazily and repairs itself. A unary
// call that the contract declares idempotent is tried again on another replica when its
// own is lost. Without credentials only loopback is accepted, because nothing is
// encrypted.
func Dial(target Target, in Interceptors, creds *Credentials) (*grpc.ClientConn, error) {
	transport := insecure.NewCredentials()
	if creds != nil {
		transport = creds.client(target.Service)
	}
	endpoint, options, err := target.resolve(creds == nil)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", target.Service, err)
	}
	conn, err := grpc.NewClient(endpoint, append(options,
		grpc.WithTransportCredentials(transport),
		grpc.WithDefaultServiceConfig(serviceConfig(target)),
		grpc.WithDisableServiceConfig(),
		grpc.WithStaticStreamWindowSize(streamWindow),
		grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.MaxCallSendMsgSize(MaxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepAlive, Timeout: keepAlive / 2,
			PermitWithoutStream: true}),
		grpc.WithConnectParams(connectParams),
		grpc.WithChainUnaryInterceptor(in.UnaryClient),
		grpc.WithChainStreamInterceptor(in.StreamClient),
	)...)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", target.Service, err)
	}
	return conn, nil
}

// resolve turns the addresses into a gRPC target.
func (t Target) resolve(clear bool) (string, []grpc.DialOption, error) {
	if len(t.Addresses) == 0 {
		return "", nil, errNoAddress
	}
	if len(t.Addresses) == 1 && strings.Contains(t.Addresses[0], "://") && !clear {
		return t.Addresses[0], []grpc.DialOption{grpc.WithResolvers(byName())}, nil
	}
	var state resolver.State
	for _, address := range t.Addresses {
		if _, _, err := net.SplitHostPort(address); err != nil {
			return "", nil, fmt.Errorf("address %q is not host:port", address)
		}
		if clear {
			if err := Loopback(address); err != nil {
				return "", nil, err
			}
		}
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: address}}})
	}
	list := manual.NewBuilderWithScheme("replicas")
	list.InitialState(state)
	return "replicas:///" + t.Service, []grpc.DialOption{grpc.WithResolvers(list)}, nil
}

// serviceConfig returns gRPC's configuration of how calls are spread and repeated.
func serviceConfig(target Target) string {
	config := map[string]any{
		"loadBalancingConfig": []any{map[string]any{"round_robin": map[string]any{}}},
		"methodConfig":        repeatable(),
		// After many failures in a row, repeats would only add to the load.
		"retryThrottling": map[string]any{"maxTokens": 100, "tokenRatio": 0.5},
	}
	if !target.Exactly {
		config["healthCheckConfig"] = map[string]any{"serviceName": ""}
	}
	text, err := json.Marshal(config)
	if err != nil {
		panic(err) // maps of literals
	}
	return string(text)
}

// repeatable lists the unary methods that the linked contracts declare idempotent, with
// their retry policy.
var repeatable = sync.OnceValue(func() []any {
	var names []any
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				options, _ := method.Options().(*descriptorpb.MethodOptions)
				level := options.GetIdempotencyLevel()
				if level == descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN || method.IsStreamingClient() ||
					method.IsStreamingServer() {
					continue
				}
				names = append(names, map[string]any{"service": string(service.FullName()), "method": string(method.Name())})
			}
		}
		return true
	})
	if len(names) == 0 {
		return []any{}
	}
	return []any{map[string]any{
		"name": names,
		"retryPolicy": map[string]any{
			"maxAttempts": 4, "initialBackoff": "0.02s", "maxBackoff": "0.5s", "backoffMultiplier": 4,
			"retryableStatusCodes": []string{"UNAVAILABLE"},
		},
	}}
})

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
