// Package inference runs a request: it admits the request on a model, tries the model's
// candidates one after the other, hands the answer to a Sink, and reports how the request
// ended.
//
// Until the first content a Sink gets nothing but keep-alives, so that after a failure
// the next candidate can be tried. The first content commits the attempt: this attempt is
// billed, and no other is tried. The hub decides that an attempt has failed or run out of
// time. This package only guards against a hub that sends nothing.
//
// One goroutine, the goroutine of Run's caller, receives from the hub, writes, and
// flushes once for all events that the hub sends together. Timers do the work that must
// not wait for that goroutine: keep-alives and the end of the time. A reader that is too
// slow stalls the hub's stream and in the end the provider's. Before the first content at
// most maxPending bytes are kept.
//
// A client that leaves before the first content and later than freeTime after the
// dispatch pays for its prompt: the attempt is committed as the client leaves, and the
// hub bills the prompt by our count unless the provider hung. Within freeTime the attempt
// is cut off and costs nothing. An account whose clients leave within freeTime more than
// 30 times a minute is refused by billing-ledger with rate_limit_exceeded. A gateway model has
// no such time, because its vendor bills the platform for the prompt.
//
// A client that leaves and a server that is stopped both end the request's context; the
// server gives a cause. A stopped server breaks off the hub's stream instead of closing
// it, so that no prompt is billed of an answer that the platform did not complete. The
// client gets an error event or a 503 as far as it can be reached.
package inference

import (
	"io"
	"log/slog"
	"time"

	"svc.internal/pkg/clock"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/catalog"
	"svc.internal/services/edge-gateway/internal/shapes"
)

// Config has the times and bounds of a request.
type Config struct {
	// MaxAttempts is how many candidates are tried.
	MaxAttempts int
	// MaxBody bounds what is sent to a provider, in bytes.
	MaxBody int64
	// FirstContent is how long one attempt of a stream may take to its first content, without the time to
	// read the prompt. FirstContentAll is how long all attempts together may take.
	FirstContent, FirstContentAll time.Duration
	// Total bounds the whole request.
	Total time.Duration
	// HubGrace is how much longer than allowed a hub may be silent.
	HubGrace time.Duration
	// HoldHeaders is how long a stream's headers wait for the first content.
	HoldHeaders time.Duration
	// KeepAlive is the time between keep-alives.
	KeepAlive time.Duration
}

// Deps are the parts that a Runner runs requests with.
type Deps struct {
	Admission *admission.Admitter
	// Hubs finds the client of a hub by its address.
	Hubs    func(dispatchAddress string) (hubv1.DispatchServiceClient, error)
	Models  *catalog.View
	Leases  *Leases
	Reports *Reports
	Metrics *Metrics
	// Shapes counts what admitted chat requests look like.
	Shapes *shapes.Counter
	Clock  clock.Clock
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
