package edgegateway

import (
	"errors"
	"fmt"
	"time"

	"svc.internal/pkg/config"

	"svc.internal/services/edge-gateway/internal/admit"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/httpapi"
	"svc.internal/services/edge-gateway/internal/relay"
	"svc.internal/services/edge-gateway/internal/witness"
)

// maxWitnessBatch is billing-ledger's own bound on one call.
const maxWitnessBatch = 200

// Config bounds the gateway. DefaultConfig has the values that the public API
// documents.
type Config struct {
	// AdminToken is the bearer token of operators. Without one the routes
	// under /api/v1/admin do not exist.
	AdminToken config.Secret
	// NearHubID is the hub preferred among equals, for a gateway that lives
	// in one process with it; empty for none.
	NearHubID string

	// MaxBodyBytes bounds a completion's body, MaxAdminBodyBytes any other.
	MaxBodyBytes      int64
	MaxAdminBodyBytes int64
	// BodyTimeout is how long a client may take to send a body.
	BodyTimeout time.Duration
	// WriteTimeout is how long a client may take to read one event or piece.
	WriteTimeout time.Duration

	// MaxAttempts is how many providers are tried for one request.
	MaxAttempts int
	// FirstContentTimeout bounds one attempt of a stream to its first content,
	// FirstContentTotalTimeout all of them together.
	FirstContentTimeout      time.Duration
	FirstContentTotalTimeout time.Duration
	// TotalTimeout bounds a request.
	TotalTimeout time.Duration
	// HoldHeaders is how long a stream's headers wait for the first content;
	// after that it is kept alive by a comment each KeepAlive.
	HoldHeaders time.Duration
	KeepAlive   time.Duration
	// HubGrace is how much longer than allowed a hub may be silent before the
	// gateway gives it up.
	HubGrace time.Duration

	// AdmitTimeout and SelectTimeout bound the calls of admission.
	AdmitTimeout  time.Duration
	SelectTimeout time.Duration

	// KnownKeys and RefusedKeys are how many keys are remembered, KnownKeyTTL
	// and RefusedKeyTTL for how long.
	KnownKeys     int
	KnownKeyTTL   time.Duration
	RefusedKeys   int
	RefusedKeyTTL time.Duration

	// WitnessQueue is how many accounts of requests may wait for
	// billing-ledger, WitnessBatch how many go in one call (at most 200),
	// WitnessDrain how long a stop waits for them.
	WitnessQueue int
	WitnessBatch int
	WitnessDrain time.Duration
}

// DefaultConfig has the documented values.
func DefaultConfig() Config {
	return Config{
		MaxBodyBytes:             10 << 20,
		MaxAdminBodyBytes:        256 << 10,
		BodyTimeout:              time.Minute,
		WriteTimeout:             30 * time.Second,
		MaxAttempts:              3,
		FirstContentTimeout:      20 * time.Second,
		FirstContentTotalTimeout: time.Minute,
		TotalTimeout:             10 * time.Minute,
		HoldHeaders:              10 * time.Second,
		KeepAlive:                10 * time.Second,
		HubGrace:                 10 * time.Second,
		AdmitTimeout:             5 * time.Second,
		SelectTimeout:            5 * time.Second,
		KnownKeys:                65_536,
		KnownKeyTTL:              time.Minute,
		RefusedKeys:              16_384,
		RefusedKeyTTL:            5 * time.Second,
		WitnessQueue:             8192,
		WitnessBatch:             maxWitnessBatch,
		WitnessDrain:             10 * time.Second,
	}
}

// Validate reports every value that cannot be worked with.
func (c Config) Validate() error {
	var errs []error
	positive := func(name string, ok bool) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s must be above zero", name))
		}
	}
	positive("MaxBodyBytes", c.MaxBodyBytes > 0)
	positive("MaxAdminBodyBytes", c.MaxAdminBodyBytes > 0)
	positive("BodyTimeout", c.BodyTimeout > 0)
	positive("WriteTimeout", c.WriteTimeout > 0)
	positive("MaxAttempts", c.MaxAttempts > 0)
	positive("FirstContentTimeout", c.FirstContentTimeout > 0)
	positive("FirstContentTotalTimeout", c.FirstContentTotalTimeout > 0)
	positive("TotalTimeout", c.TotalTimeout > 0)
	positive("HoldHeaders", c.HoldHeaders > 0)
	positive("KeepAlive", c.KeepAlive > 0)
	positive("HubGrace", c.HubGrace > 0)
	positive("AdmitTimeout", c.AdmitTimeout > 0)
	positive("SelectTimeout", c.SelectTimeout > 0)
	positive("KnownKeys", c.KnownKeys > 0)
	positive("KnownKeyTTL", c.KnownKeyTTL > 0)
	positive("RefusedKeys", c.RefusedKeys > 0)
	positive("RefusedKeyTTL", c.RefusedKeyTTL > 0)
	positive("WitnessQueue", c.WitnessQueue > 0)
	positive("WitnessBatch", c.WitnessBatch > 0)
	positive("WitnessDrain", c.WitnessDrain > 0)
	if c.WitnessBatch > maxWitnessBatch {
		errs = append(errs, fmt.Errorf("WitnessBatch must be at most %d", maxWitnessBatch))
	}
	return errors.Join(errs...)
}

func (c Config) auth() auth.Config {
	return auth.Config{
		Known: c.KnownKeys, KnownFor: c.KnownKeyTTL, Refused: c.RefusedKeys, RefusedFor: c.RefusedKeyTTL,
		Timeout: c.AdmitTimeout,
	}
}

func (c Config) admit() admit.Config {
	return admit.Config{
		AdmitTimeout: c.AdmitTimeout, SelectTimeout: c.SelectTimeout, SelectGrace: selectGrace, NearHubID: c.NearHubID,
	}
}

func (c Config) relay() relay.Config {
	return relay.Config{
		MaxAttempts: c.MaxAttempts, FirstContent: c.FirstContentTimeout, FirstContentAll: c.FirstContentTotalTimeout,
		Total: c.TotalTimeout, HubGrace: c.HubGrace, HoldHeaders: c.HoldHeaders, KeepAlive: c.KeepAlive,
		WriteTimeout: c.WriteTimeout,
	}
}

func (c Config) witness() witness.Config {
	return witness.Config{
		Queue: c.WitnessQueue, BatchSize: c.WitnessBatch, Linger: witnessLinger, CallTimeout: c.AdmitTimeout,
		RetryFirst: witnessRetryFirst, RetryMost: witnessRetryMost, Drain: c.WitnessDrain,
	}
}

func (c Config) http() httpapi.Config {
	return httpapi.Config{MaxBody: c.MaxBodyBytes, BodyTimeout: c.BodyTimeout, AnswerTimeout: c.WriteTimeout}
}

// What nobody needs to set.
const (
	// selectGrace suffices for a refusal from the router's memory.
	selectGrace = 250 * time.Millisecond
	// witnessLinger makes one transaction out of what a busy gateway reports.
	witnessLinger     = 50 * time.Millisecond
	witnessRetryFirst = 100 * time.Millisecond
	witnessRetryMost  = 5 * time.Second
)
