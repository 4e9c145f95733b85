// Package inference runs an admitted request on its candidates, one after the
// other, and carries the answer to the client.
//
// Until the first content nothing but headers and keep-alive comments is
// written, so that a failure can move on to the next candidate; with the first
// content the attempt is committed, which makes it the one that is billed, and
// no other is tried. The hub decides that an attempt has failed or run out of
// time; this package only guards against a hub that says nothing.
//
// One goroutine, the HTTP handler's, receives from the hub, writes, and flushes
// once for what the hub sends together; what must happen meanwhile (keep-alive
// comments, the end of the time) is done by timers. A reader that is too slow
// stalls the hub's stream and in the end the provider's; one write may take
// Config.WriteTimeout. Before the first content at most maxPending bytes are
// kept. No line of a stream has more than 24 MiB; an attempt that sends a longer
// one has failed.
//
// What an answer looks like is its endpoint's own: see rewrite.Form.
//
// A client that leaves before the first content, and later than freeTime after
// the dispatch, is committed to in leaving, so that its prompt is not had for
// nothing. Within that time its attempt is cut off, and costs nothing.
//
// A client that leaves and a server that is stopped both end the request's
// context; the latter names a cause of its own. Then the hub's stream is broken
// off instead of closed, so that no prompt is billed for what the platform did
// not see to its end, and the client is told as far as it can be.
package inference

import (
	"context"
	"net/http"
	"time"

	"svc.internal/pkg/clock"
	billingv1 "svc.internal/proto/svc/billing/v1"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	routerv1 "svc.internal/proto/svc/router/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/apierror"
	"svc.internal/services/edge-gateway/internal/openaiapi"
)

const (
	// maxPending bounds what is kept of a stream before its first content.
	maxPending = 64 << 10
	// flushBytes is how much is gathered before it is written in any case.
	flushBytes = 64 << 10
	// writeSlice is how much one write deadline has to suffice for.
	writeSlice = 256 << 10
)

// Config has the times of a request.
type Config struct {
	// MaxAttempts is how many candidates are tried.
	MaxAttempts int
	// FirstContent is how long one attempt of a stream may take to its first
	// content, the time to read the prompt apart, FirstContentAll all attempts
	// together.
	FirstContent, FirstContentAll time.Duration
	// Total bounds the whole request.
	Total time.Duration
	// HubGrace is how much longer than it was allowed a hub may be silent.
	HubGrace time.Duration
	// HoldHeaders is how long a stream's headers wait for the first content.
	HoldHeaders time.Duration
	// KeepAlive is the time between keep-alive comments.
	KeepAlive time.Duration
	// WriteTimeout bounds one write to the client.
	WriteTimeout time.Duration
}

// Engine runs requests.
type Engine struct {
	hubs  func(dispatchAddress string) (hubv1.DispatchServiceClient, error)
	clock clock.Clock
	cfg   Config
}

// New makes an engine; hubs finds the client of a hub by its address.
func New(hubs func(string) (hubv1.DispatchServiceClient, error), c clock.Clock, cfg Config) *Engine {
	return &Engine{hubs: hubs, clock: c, cfg: cfg}
}

// Call is one admitted request.
type Call struct {
	RequestID  string
	ReceivedAt time.Time
	Order      admission.Request
	Grant      admission.Grant
	// BeganAt is when a leg that follows another began, which its time to the
	// first content counts from; ReceivedAt when it is zero. Begun tells that
	// an earlier leg has begun the answer.
	BeganAt time.Time
	Begun   bool
	// GoesOn is asked when the call fails before its commit: true leaves it to
	// another leg to answer the client. Nil is false.
	GoesOn func(error) bool
	// Part is where the answer goes that is a part of another; nil for one that the
	// client gets by itself.
	Part *Part
	// Running is told of the commit and of what is relayed; nil for nobody.
	Running *Lease
	// Again finds further candidates; failed names those not to be tried.
	Again func(ctx context.Context, failed []string) ([]*routerv1.Candidate, error)

	// Endpoint is what the provider is asked for.
	Endpoint hubv1.Endpoint
	// Legacy tells that the client asked for a text completion: the chat
	// completion that answers is turned into one.
	Legacy bool
	Stream bool
	// StopAsked reports that the client names what ends the answer.
	StopAsked bool
	// NamesMedia reports that messages name media by address, EngineMembers that the
	// body has members that are an engine's own.
	NamesMedia, EngineMembers bool
	// HiddenReasoning reports that the model bills for thoughts that it does not
	// show.
	HiddenReasoning bool
	// IncludeUsage and IncludeCost are what the client wants to see.
	IncludeUsage, IncludeCost bool
	// Choices is how many answers are asked for, of images how many images.
	Choices int32
	// Inputs is how many embeddings are asked for, Base64 that they are wanted
	// as base64 and not as numbers.
	Inputs int32
	Base64 bool
	// Form is what a whole answer looks like. One in text is written with the
	// content type AnswerType.
	Form       hubv1.AnswerForm
	AnswerType string
	// Verbose tells that a transcription tells its task and its duration.
	Verbose bool
	// ContentType is that of Sent, with its parameters; empty for JSON.
	ContentType string
	// Sent is what is sent, with where the model's name and the bound of the
	// answer stand in it.
	Sent openaiapi.Sent
}

// Result is what became of a call.
type Result struct {
	// Err is nil when the answer was served to its end.
	Err error
	// Begun tells that an answer was begun, so that Err was told within the
	// stream or to nobody. Otherwise the caller answers with Err.
	Begun bool
	// Committed is the number of the attempt whose answer was relayed, or whose
	// prompt is billed although the client left; 0 for none.
	Committed uint32
	// Served is the candidate of that attempt.
	Served   *routerv1.Candidate
	Attempts []*billingv1.AttemptRecord
	Route    *eventsv1.Route
	// Tokens and Bytes count what was relayed.
	Tokens, Bytes int64
	// Lapsed tells that the hold was given back before the answer was relayed.
	Lapsed bool
	// Usage is what is billed of a served answer.
	Usage *hubv1.DispatchFinished
	// FirstContent is the time from receipt to the first content; 0 when
	// there was none.
	FirstContent time.Duration
}

// Serve runs the call and answers the client, except as Result.Begun tells.
func (e *Engine) Serve(w http.ResponseWriter, r *http.Request, call *Call) Result {
	remaining := e.cfg.Total - e.since(call) + e.cfg.HubGrace
	ctx, cancel := context.WithTimeout(r.Context(), remaining)
	defer cancel()
	s := &session{
		engine:     e,
		call:       call,
		client:     r.Context(),
		candidates: call.Grant.Candidates,
		fallback:   call.Grant.Fallback,
		out:        newOutput(w, e.cfg.WriteTimeout),
	}
	s.out.part = call.Part
	if call.Stream {
		s.beat = startBeat(s.out, call.Running.Valid, e.cfg.HoldHeaders-e.since(call), e.cfg.KeepAlive)
		defer s.beat.stop()
	}
	s.out.begun = call.Begun
	s.result.Route = RouteOf(call.Order.Pin)
	err := s.run(ctx)
	if err != nil {
		err = apierror.AfterFallback(err, FallbackName(s.result.Route.GetFallbackReason()))
	}
	if err != nil && !s.goesOn(ctx, err) {
		s.tell(err)
	}
	s.out.done()
	s.result.Err = err
	s.result.Begun = s.out.begun
	s.result.Bytes = s.out.relayed
	return s.result
}

// since is how long the call has been under way.
func (e *Engine) since(call *Call) time.Duration { return e.clock.Now().Sub(call.ReceivedAt) }
