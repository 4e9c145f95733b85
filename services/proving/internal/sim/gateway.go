package sim

import (
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"

	"svc.internal/pkg/fault"
	billingv1 "svc.internal/proto/svc/billing/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"
	"svc.internal/services/billing-ledger/ledgersim"
	"svc.internal/services/edge-gateway/gatewaysim"
)

// gateway is a machine with a process of edge-gateway.
type gateway struct {
	*node
	net     *network
	gateway *gatewaysim.Gateway
	tasks   []*task
	calls   []*dispatchCall
	clients []*client
	renews  bool
	lingers bool
	// unasked are the times at which the gateway could not renew, and setBack those at
	// which its clock was set back.
	unasked, setBack []time.Duration
}

func (g *gateway) start() {
	g.life++
	g.up, g.renews, g.lingers = true, false, false
	g.tasks, g.calls, g.clients = nil, nil, nil
	made, err := g.net.shared.New(gatewaysim.Peers{
		Clock: g.node, Random: g.world, Keys: keys{net: g.net}, Admission: admission{gateway: g}, Router: router{},
		Hubs: func(address string) (hubv1.DispatchServiceClient, error) {
			return hubClient{g, g.net.hubNamed(address)}, nil
		},
		Await: g.await,
	})
	if err != nil {
		g.net.fail("%s cannot start: %v", g.name, err)
		return
	}
	g.gateway = made
	g.logf("starts")
}

// await looks again and again whether done is closed.
func (g *gateway) await(_ context.Context, done <-chan struct{}) {
	for t := g.world.current; !t.dead; {
		select {
		case <-done:
			return
		default:
		}
		g.after(time.Millisecond, t.arm())
		t.wait()
	}
}

// fall ends the process.
func (g *gateway) fall() {
	g.up = false
	g.life++
	for _, c := range g.clients {
		c.cut()
	}
	for _, c := range g.calls {
		if !c.over {
			c.sever(false)
		}
	}
	for _, t := range g.tasks {
		t.kill()
	}
	g.tasks = nil
}

func (g *gateway) rise() {
	if !g.up {
		g.start()
	}
}

// run begins a task of the process and renews its leases while it lives.
func (g *gateway) run(do func(*task)) *task {
	t := g.spawn(func(t *task) {
		do(t)
		if !t.dead {
			g.linger()
		}
	})
	g.tasks = slices.DeleteFunc(g.tasks, func(t *task) bool { return t.over })
	if !t.over {
		g.tasks = append(g.tasks, t)
	}
	g.renew(gatewaysim.RenewInterval)
	return t
}

// renew renews the holds of the running requests.
func (g *gateway) renew(wait time.Duration) {
	if g.renews {
		return
	}
	g.renews = true
	g.after(wait, func() {
		g.renews = false
		if !slices.ContainsFunc(g.clients, func(c *client) bool { return !c.over }) {
			return
		}
		g.spawnTask(func() {
			if err := g.gateway.Renew(context.Background()); err != nil {
				g.renew(gatewaysim.RenewRetry)
				return
			}
			g.renew(gatewaysim.RenewInterval)
		})
	})
}

// spawnTask begins a task whose end does not matter.
func (g *gateway) spawnTask(do func()) {
	t := g.spawn(func(*task) { do() })
	if !t.over {
		g.tasks = append(g.tasks, t)
	}
}

// linger sends the reports of requests until they are accepted.
func (g *gateway) linger() {
	if g.lingers || !g.up {
		return
	}
	g.lingers = true
	g.after(gatewaysim.Linger, func() {
		g.spawnTask(func() {
			t := g.world.current
			defer func() {
				g.lingers = g.lingers && t.dead
			}()
			for batch := g.gateway.Reports(); len(batch) > 0; batch = g.gateway.Reports() {
				g.conclude(t, batch)
			}
		})
	})
}

func (g *gateway) conclude(t *task, batch []*billingv1.RequestReport) {
	for wait := gatewaysim.RetryFirst; ; wait = min(2*wait, gatewaysim.MaxRetry) {
		if err := g.gateway.Conclude(context.Background(), batch); err == nil || t.dead {
			return
		}
		g.after(wait, t.arm())
		t.wait()
		if t.dead {
			return
		}
	}
}

// admission is billing-ledger as a gateway sees it. Rates are not played.
type admission struct {
	billingv1.AdmissionServiceClient
	gateway *gateway
}

// Admit implements billingv1.AdmissionServiceClient.
func (a admission) Admit(
	ctx context.Context, m *billingv1.AdmitRequest, _ ...grpc.CallOption,
) (*billingv1.AdmitResponse, error) {
	return unary(a.gateway, "admit "+m.GetRequestId(), func(l *ledgersim.Ledger) (*billingv1.AdmitResponse, error) {
		return l.Admit(context.WithoutCancel(ctx), m)
	})
}

// Renew implements billingv1.AdmissionServiceClient.
func (a admission) Renew(
	_ context.Context, m *billingv1.RenewRequest, _ ...grpc.CallOption,
) (*billingv1.RenewResponse, error) {
	slices.SortFunc(m.GetRequests(), func(a, b *billingv1.RunningRequest) int {
		if a.GetRequestId() < b.GetRequestId() {
			return -1
		}
		return 1
	})
	resp, err := unary(a.gateway, "renew", func(l *ledgersim.Ledger) (*billingv1.RenewResponse, error) {
		return l.Renew(context.Background(), m)
	})
	if err != nil {
		a.gateway.unasked = append(a.gateway.unasked, a.gateway.world.now)
	}
	return resp, err
}

// Conclude implements billingv1.AdmissionServiceClient.
func (a admission) Conclude(
	_ context.Context, m *billingv1.ConcludeRequest, _ ...grpc.CallOption,
) (*billingv1.ConcludeResponse, error) {
	return unary(a.gateway, "conclude", func(l *ledgersim.Ledger) (*billingv1.ConcludeResponse, error) {
		return l.Conclude(context.Background(), m)
	})
}

// unary is a call to billing-ledger that may get lost on either way.
func unary[T any](g *gateway, what string, do func(*ledgersim.Ledger) (T, error)) (out T, err error) {
	t := g.world.current
	if t.dead {
		return out, errAway
	}
	wake := t.arm()
	answered := false
	answer := func(v T, e error) {
		if !answered && !t.dead {
			answered = true
			out, err = v, e
			wake()
		}
	}
	var none T
	b := g.net.ledger
	g.send(b.node, func() {
		life := b.life
		v, e := do(b.ledger)
		b.logf("%s: %v", what, e)
		if b.settle(); !b.up || b.life != life {
			return // the gateway died during the call
		}
		b.send(g.node, func() { answer(v, e) }, nil)
	}, func() { answer(none, errAway) })
	g.after(gatewaysim.CallTimeout, func() {
		answer(none, fault.New(fault.Timeout, fault.DeadlineExceeded, "no answer in time"))
	})
	t.wait()
	if t.dead {
		return none, errAway
	}
	return out, err
}

// keys knows all keys at once, because the gateways' caches are not played.
type keys struct{ net *network }

// AuthenticateKey implements billingv1.KeyServiceClient.
func (k keys) AuthenticateKey(
	_ context.Context, m *billingv1.AuthenticateKeyRequest, _ ...grpc.CallOption,
) (*billingv1.AuthenticateKeyResponse, error) {
	for _, a := range k.net.accounts {
		if string(a.digest[:]) == string(m.GetKeySha256()) {
			return &billingv1.AuthenticateKeyResponse{KeyId: a.key.String(), AccountId: a.id.String()}, nil
		}
	}
	return nil, fault.New(fault.Unauthenticated, fault.InvalidAPIKey, "unknown")
}

// router answers with what it knew when the request began.
type router struct {
	routerv1.RouterServiceClient
}

type candidatesKey struct{}

// Select implements routerv1.RouterServiceClient.
func (router) Select(
	ctx context.Context, m *routerv1.SelectRequest, _ ...grpc.CallOption,
) (*routerv1.SelectResponse, error) {
	all, _ := ctx.Value(candidatesKey{}).([]*routerv1.Candidate)
	var out []*routerv1.Candidate
	for _, c := range all {
		if !slices.Contains(m.GetExcludeProviderIds(), c.GetProviderId()) {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil, fault.New(fault.Unavailable, fault.NoProviderOnline, "nobody is online")
	}
	return &routerv1.SelectResponse{Candidates: out}, nil
}
