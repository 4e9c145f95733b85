// Package inference runs a request: it admits the request on a model, tries the model's candidates one after
// the other, hands the answer to a Sink, and reports what became of it.
//
// Until the first content a Sink gets nothing but keep-alives, so that a failure can move on to the next
// candidate; with the first content the attempt is committed, which makes it the one that is billed, and no
// other is tried. The hub decides that an attempt has failed or run out of time; this package only guards
// against a hub that says nothing.
//
// One goroutine, that of Run's caller, receives from the hub, writes, and flushes once for what the hub
// sends together; what must happen meanwhile (keep-alives, the end of the time) is done by timers. A reader
// that is too slow stalls the hub's stream and in the end the provider's. Before the first content at most
// maxPending bytes are kept.
//
// A client that leaves before the first content, and later than freeTime after the dispatch, is committed to
// in leaving, so that its prompt is not had for nothing. Within that time its attempt is cut off, and costs
// nothing.
//
// A client that leaves and a server that is stopped both end the request's context; the latter names a cause
// of its own. Then the hub's stream is broken off instead of closed, so that no prompt is billed for what the
// platform did not see to its end, and the client is told as far as it can be.
package inference

import (
	"io"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/catalog"
)

// Config has the times of a request.
type Config struct {
	// MaxAttempts is how many candidates are tried.
	MaxAttempts int
	// MaxBody bounds what is sent to a provider, in bytes.
	MaxBody int64
	// FirstContent is how long one attempt of a stream may take to its first content, the time to read the
	// prompt apart, FirstContentAll all attempts together.
	FirstContent, FirstContentAll time.Duration
	// Total bounds the whole request.
	Total time.Duration
	// HubGrace is how much longer than it was allowed a hub may be silent.
	HubGrace time.Duration
	// HoldHeaders is how long a stream's headers wait for the first content.
	HoldHeaders time.Duration
	// KeepAlive is the time between keep-alives.
	KeepAlive time.Duration
}

// Deps are what requests are run with.
type Deps struct {
	Admission *admission.Admitter
	// Hubs finds the client of a hub by its address.
	Hubs    func(dispatchAddress string) (hubv1.DispatchServiceClient, error)
	Models  *catalog.View
	Leases  *Leases
	Reports *Reports
	Metrics *Metrics
	Clock   clock.Clock
	// Random makes the ids of further model attempts.
	Random io.Reader
	Log    *slog.Logger
}

// Runner runs requests.
type Runner struct {
	Deps
	cfg Config
}

// New makes a runner.
func New(deps Deps, cfg Config) *Runner { return &Runner{Deps: deps, cfg: cfg} }
