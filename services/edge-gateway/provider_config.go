package edgegateway

import (
	"time"

	"svc.internal/services/edge-gateway/internal/providerapi"
	"svc.internal/services/edge-gateway/internal/quota"
)

// Times and bounds of the calls of providers' agents. Nobody needs to set them.
const (
	// explainTimeout suffices for an answer from a router's memory. A status is given
	// without it.
	explainTimeout = 500 * time.Millisecond
	// keptProviders is more providers than ask one gateway. keptBytes comes to 4 KiB for
	// each of them; an answer that is kept has about a quarter of that.
	keptProviders = 16_384
	keptBytes     = 64 << 20
	keptFor       = 10 * time.Minute
	// keptSessions is how many users' sessions are remembered as good.
	keptSessions = 16_384
	demandFor    = time.Minute
	demandKept   = time.Hour
	// callers is how many addresses are counted for each kind of call.
	callers = 16_384
)

// logInSpan is how long a caller who fails on purpose may keep others behind the same
// address from signing in.
const logInSpan = time.Minute

// providerCallTimeout is below the ten seconds that agents wait for their status.
const providerCallTimeout = 5 * time.Second

func (c Config) provider() providerapi.Config {
	return providerapi.Config{
		CallTimeout: min(c.AdmitTimeout, providerCallTimeout), ExplainTimeout: explainTimeout,
		Kept: keptProviders, KeptBytes: keptBytes, KeptFor: keptFor, DemandFor: demandFor, DemandKept: demandKept,
		Networks:   callers,
		SignUps:    quota.Rate{Calls: c.SignUpsPerHour, Span: time.Hour},
		Keys:       quota.Rate{Calls: 20, Span: time.Hour},
		LogIns:     quota.Rate{Calls: 10, Span: logInSpan},
		Challenges: quota.Rate{Calls: 60, Span: time.Minute},
		Refreshes:  quota.Rate{Calls: 120, Span: time.Minute},
		Letters:    quota.Rate{Calls: 5, Span: time.Hour},
		Origins:    c.origins(),
		Playground: c.hasPlayground(),
	}
}
