package standalone

import (
	"fmt"
	"sync"

	"google.golang.org/grpc"

	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/pkg/serve"
)

// maxHubs bounds how many hubs one gateway keeps connections to.
const maxHubs = 256

// hubs finds the hub replica that holds a session: the one of this process
// without a socket, any other by a connection that is kept.
type hubs struct {
	fleet *fleet

	mu    sync.Mutex
	conns map[string]*grpc.ClientConn
}

func newHubs(f *fleet) *hubs { return &hubs{fleet: f, conns: map[string]*grpc.ClientConn{}} }

// client returns the hub that answers at a dispatch address.
func (h *hubs) client(address string) (hubv1.DispatchServiceClient, error) {
	if h.fleet.cfg.runs(hubName) && address == h.fleet.dispatchAddress() {
		return hubv1.NewDispatchServiceClient(h.fleet.local.Client()), nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if conn, ok := h.conns[address]; ok {
		return hubv1.NewDispatchServiceClient(conn), nil
	}
	if len(h.conns) >= maxHubs {
		return nil, fmt.Errorf("more than %d hubs", maxHubs)
	}
	conn, err := serve.Dial(address, h.fleet.in)
	if err != nil {
		return nil, err
	}
	h.conns[address] = conn
	return hubv1.NewDispatchServiceClient(conn), nil
}
