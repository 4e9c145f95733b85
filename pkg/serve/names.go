package serve

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/dns"
)

// LookAgain is how often the addresses of a name are looked up. Whoever replaces replicas by
// turns waits longer than this, and than names are cached, before it stops the next.
const LookAgain = 5 * time.Second

// byName is gRPC's resolver of DNS names, which is asked again every LookAgain. By itself it
// looks only when a connection is lost, so a client would find none of the replicas that were
// started meanwhile when the last replica that it knows says that it is stopping.
func byName() resolver.Builder {
	PrepareNames()
	return lookingBuilder{Builder: resolver.Get("dns"), interval: LookAgain}
}

// PrepareNames sets the pause that gRPC keeps between two looks, which is the same for all
// clients of a process. Clients read it without a lock, so it is set once, before the first of them
// looks a name up.
func PrepareNames() { allowLooks() }

var allowLooks = sync.OnceFunc(func() { dns.SetMinResolutionInterval(LookAgain / 2) })

// lookingBuilder builds resolvers that look again every interval.
type lookingBuilder struct {
	resolver.Builder
	interval time.Duration
}

// Build builds the resolver of a client.
func (b lookingBuilder) Build(
	target resolver.Target, client resolver.ClientConn, options resolver.BuildOptions,
) (resolver.Resolver, error) {
	inner, err := b.Builder.Build(target, &keeping{ClientConn: client}, options)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &looking{Resolver: inner, stop: stop, done: make(chan struct{})}
	go r.run(ctx, b.interval)
	return r, nil
}

// keeping is a client that keeps its replicas while their name leads nowhere. gRPC's resolver says
// of a name that does not exist that it has no addresses, as a name server may say that has just
// started, and gRPC then closes all connections. A replica that is gone is noticed by its connection.
type keeping struct {
	resolver.ClientConn
	found atomic.Bool
}

// UpdateState passes on every state but an empty one after another.
func (k *keeping) UpdateState(s resolver.State) error {
	if len(s.Addresses)+len(s.Endpoints) == 0 {
		if k.found.Load() {
			return nil
		}
	} else {
		k.found.Store(true)
	}
	return k.ClientConn.UpdateState(s)
}

// looking is a resolver that looks again until it is closed.
type looking struct {
	resolver.Resolver
	stop context.CancelFunc
	done chan struct{}
}

func (r *looking) run(ctx context.Context, interval time.Duration) {
	defer close(r.done)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.ResolveNow(resolver.ResolveNowOptions{})
		}
	}
}

// Close ends the looks, and then the resolver.
func (r *looking) Close() {
	r.stop()
	<-r.done
	r.Resolver.Close()
}
