package external

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/session"
)

// Config bounds the endpoints of a hub in time and number. The zero value of a field stands
// for its default.
type Config struct {
	HubID string
	// LeaseTTL is how long a lease lasts unless its hub renews it: 20 s. BeatInterval is the
	// pause between two renewals: 5 s. LeaseMargin is how long before the end of its lease a hub
	// stops serving: 2 s.
	LeaseTTL, BeatInterval, LeaseMargin time.Duration
	// ProbeInterval is about the pause between probes of an endpoint: 30 s. ProbeTimeout
	// bounds one probe: 5 s.
	ProbeInterval, ProbeTimeout time.Duration
	// HeartbeatInterval is the pause between heartbeats of a session, and Silence how long a
	// session may be without one.
	HeartbeatInterval, Silence time.Duration
	// Max bounds the endpoints of a hub: 256.
	Max int
}

func (c Config) withDefaults() Config {
	for field, value := range map[*time.Duration]time.Duration{
		&c.LeaseTTL: 20 * time.Second, &c.BeatInterval: 5 * time.Second, &c.LeaseMargin: 2 * time.Second,
		&c.ProbeInterval: 30 * time.Second, &c.ProbeTimeout: 5 * time.Second,
		&c.HeartbeatInterval: 10 * time.Second, &c.Silence: 30 * time.Second,
	} {
		if *field == 0 {
			*field = value
		}
	}
	if c.Max == 0 {
		c.Max = 256
	}
	return c
}

// patience bounds one statement. It is so short that a hub can try several times to renew a
// lease.
func (c *Config) patience() time.Duration { return c.LeaseTTL / 4 }

// Registrar admits and keeps the sessions of a hub.
type Registrar interface {
	// AdmitExternal lets the endpoint of a provider in, with a fresh epoch. A fault's reason
	// says why not.
	AdmitExternal(ctx context.Context, id ids.ProviderID) (session.Grant, error)
	// Leave removes a session, if it is there.
	Leave(s *session.Session)
}

// Deps are what the endpoints of a hub work with.
type Deps struct {
	Store     Store
	Sealer    *Sealer
	Registrar Registrar
	// Env is the environment of the sessions of the hub.
	Env *session.Env
	// Client calls endpoints. It must be a client of package dialguard.
	Client *http.Client
	Log    *slog.Logger
	Clock  clock.Clock
	Holder Holder
	// None reports whether there is no endpoint at all; nil never does.
	None func(ctx context.Context) bool
}

// Counts are the figures of the endpoints of a hub, for its metrics.
type Counts struct {
	// Held is how many endpoints the hub holds, and Served how many of them have a session.
	Held, Served atomic.Int64
	// ProbesFailed counts probes that failed, and LeasesLost the endpoints that the hub stopped
	// serving because it could not renew their leases.
	ProbesFailed, LeasesLost atomic.Int64
}

// base is what a hub, its callers and their sessions share.
type base struct {
	cfg    Config
	deps   Deps
	Counts *Counts
}

// load reads an endpoint that the hub holds, with its key.
func (h *base) load(ctx context.Context, id ID) (*Endpoint, key, error) {
	limited, cancel := context.WithTimeout(ctx, h.cfg.patience())
	defer cancel()
	e, err := h.deps.Store.Endpoint(limited, ids.ProviderID{}, id)
	if err != nil {
		return nil, key{}, fmt.Errorf("read an external endpoint: %w", err)
	}
	k, err := h.deps.Sealer.Open(&e)
	return &e, k, err
}
