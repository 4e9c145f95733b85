package providerhub

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/dialguard"
	"svc.internal/services/provider-hub/internal/external"
	"svc.internal/services/provider-hub/internal/kinds"
	"svc.internal/services/provider-hub/internal/session"
	"svc.internal/services/provider-hub/internal/store"
)

const (
	// keptPerEndpoint is how many connections to one server are kept, and keptFor how long:
	// less than the 5 s after which uvicorn, under most engines, closes an idle connection.
	keptPerEndpoint = 32
	keptFor         = 4 * time.Second
	// openToAll bounds the connections of a hub to all servers together. openToOne bounds those to
	// one server, because its endpoint takes at most that many requests at once.
	openToAll = 4096
	openToOne = 1024
	// beatsPerLease is how often a hub renews a lease within its time. A hub that cannot renew
	// stops one part in marginOfLease of the time before the lease ends.
	beatsPerLease = 4
	marginOfLease = 10
	// maxHead bounds the head of an answer, in bytes.
	maxHead = 64 << 10
)

// endpointClient calls the servers of providers.
func endpointClient(c Config) *http.Client {
	dialer := &dialguard.Dialer{Port: dialguard.ServerPort, Authorities: c.EndpointAuthorities}
	if c.DevelopmentEndpoints {
		dialer.Allow, dialer.Port = netip.Addr.IsLoopback, nil
	}
	return dialer.KeepingClient(dialguard.Kept{Idle: keptPerEndpoint, IdleFor: keptFor, HeaderBytes: maxHead,
		Open: openToAll, OpenPerHost: openToOne})
}

// endpointDeps are what external endpoints work with. derived is the secret of the fleet under
// which keys are sealed where EndpointSecret is not set.
type endpointDeps struct {
	tables    *store.Store
	derived   []byte
	registrar external.Registrar
	env       *session.Env
	log       *slog.Logger
	clock     clock.Clock
	random    io.Reader
	kinds     *kinds.Models
}

// newEndpoints makes the part that calls external endpoints, and the directory that keeps them.
func newEndpoints(cfg Config, deps endpointDeps) (*external.Hub, *external.Directory, error) {
	sealer, err := external.NewSealer(cfg.EndpointSecret, cfg.EndpointSecretPrevious, deps.derived)
	if err != nil {
		return nil, nil, fmt.Errorf("provider-hub: %w", err)
	}
	holder, err := external.NewHolder(deps.clock.Now(), deps.random)
	if err != nil {
		return nil, nil, err
	}
	client, session := endpointClient(cfg), cfg.gate().WithDefaults()
	hub := external.New(external.Config{
		HubID: cfg.HubID, HeartbeatInterval: session.Session.HeartbeatInterval, Silence: session.SessionTimeout,
		LeaseTTL: cfg.EndpointLease, BeatInterval: cfg.EndpointLease / beatsPerLease,
		LeaseMargin: cfg.EndpointLease / marginOfLease, ProbeInterval: cfg.EndpointProbeInterval,
	}, external.Deps{
		Store: deps.tables, Sealer: sealer, Registrar: deps.registrar, Env: deps.env, Client: client, Log: deps.log,
		Clock: deps.clock, Holder: holder, None: deps.tables.NoEndpoints,
	})
	return hub, external.NewDirectory(external.DirectoryDeps{
		Store: deps.tables, Sealer: sealer, Rules: external.Rules{Development: cfg.DevelopmentEndpoints}, Client: client,
		Clock: deps.clock, Random: deps.random, Changed: hub.Wake, Kinds: deps.kinds,
	}), nil
}
