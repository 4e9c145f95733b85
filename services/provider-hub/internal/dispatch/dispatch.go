// Package dispatch serves one attempt of one request. It puts the request on a provider's
// session, relays the answer piece by piece, decides how the attempt ended, and journals
// that before anybody hears that the attempt is finished.
//
// An answer is never marshalled again. Each event of a stream is scanned once, the
// model's name is restored, and usage is cut out where the consumer did not ask for it. A
// stream that is certainly longer than its bound is cut at once, with a finish_reason of
// length. A whole answer that is certainly longer is refused. Nothing goes out before the
// first content, so that an attempt that fails before can be retried elsewhere; the
// events before it wait, at most 64 KiB. A whole answer is gathered, at most
// Config.MaxAnswer, of images Config.MaxImages. An event of a stream is at most 1 MiB, of
// images 24 MiB. The reader of each kind of request knows what its answers mean.
//
// The order at the end: the caller commits; the usage is metered and on disk; then the
// caller hears Finished. An attempt without the caller's commit leaves nothing to bill. A
// caller whose consumer leaves before any content commits while it leaves. Then the
// prompt is billed by our count, unless the provider had been without content for longer
// than Order.patience, and for Order.answering more while it gives whole answers.
//
// An attempt runs in its caller's goroutine and starts none. A caller that does not take
// its events stalls this stream alone: its credit runs out, and the agent stops sending.
// Beyond that credit an attempt holds one event, or the answer that it gathers. All
// answers of 1 MiB or more share Config.MaxLarge, of which one provider has an eighth at
// most. An agent of dialect v1 cannot be stalled: a caller who falls behind loses its
// answer, as if it had left. Where the caller was quick and the provider sent more than
// anybody takes, the attempt fails as the provider's own failure. An order lasts no
// longer than agents of v1 keep requests themselves.
package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/crash"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/services/provider-hub/internal/claims"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

// Config bounds attempts in time. Zero values stand for the defaults.
type Config struct {
	// CommitWait is how long the end of an answer waits for the caller's
	// commit: 5 s.
	CommitWait time.Duration
	// UsageDrain is how long an agent that was cancelled may still report its
	// usage: 2 s.
	UsageDrain time.Duration
	// StallProbe is how long a request goes without data before the agent is
	// pinged: 2 s.
	StallProbe time.Duration
	// ContentTimeout is how long a stream may be without content once it had some, before
	// its provider counts as lost: 120 s. A stream of images may be without content for
	// longer as long as data arrives. Images, and answers of which 1 MiB or more waits,
	// may be without data for that long.
	ContentTimeout time.Duration
	// MaxAnswer bounds an answer that is not streamed, in bytes: 64 KiB less
	// than 12 MiB. MaxImages bounds one of images: 26 MiB.
	MaxAnswer, MaxImages int
	// MaxLarge bounds the bytes of answers under way that are not passed on yet, counted
	// of answers of 1 MiB and more: 2 GiB. One provider has an eighth of it at most.
	MaxLarge int64
	// FinalTimeout bounds the wait for the disk: 10 s.
	FinalTimeout time.Duration
}

func (c Config) withDefaults() Config {
	for field, value := range map[*time.Duration]time.Duration{
		&c.CommitWait: 5 * time.Second, &c.UsageDrain: 2 * time.Second, &c.StallProbe: 2 * time.Second,
		&c.ContentTimeout: 120 * time.Second, &c.FinalTimeout: 10 * time.Second,
	} {
		if *field == 0 {
			*field = value
		}
	}
	if c.MaxAnswer == 0 {
		c.MaxAnswer = 12<<20 - 64<<10
	}
	if c.MaxImages == 0 {
		c.MaxImages = 26 << 20
	}
	if c.MaxLarge == 0 {
		c.MaxLarge = 2 << 30
	}
	return c
}

// maxAnswer bounds a whole answer of a kind, in bytes.
func (c Config) maxAnswer(k meter.Kind) int {
	if k == meter.Images {
		return c.MaxImages
	}
	return c.MaxAnswer
}

// Event is one piece of an answer.
type Event struct {
	// JSON is the payload. Of a whole answer that is text, it is the text.
	JSON []byte
	// Name is the name of a server-sent event; empty for none.
	Name string
	// FirstContent marks the first event that has content.
	FirstContent bool
	// ProviderTime is how long the provider took for the first content of a stream; 0 on
	// all other events.
	ProviderTime time.Duration
	// Tokens counts the answer up to here, in tokens or images.
	Tokens int64
	// More reports that another event follows at once.
	More bool
}

// Caller is the gateway's end of an attempt.
type Caller interface {
	// Event sends one piece of the answer. The dispatcher uses the bytes again when Event
	// has returned.
	Event(e Event) error
	// Finished says that the answer was served and that its usage is on disk.
	Finished(promptTokens, completionTokens int64) error
	// Failed says that the attempt failed.
	Failed(f Failure) error
	// Committed is closed once the caller relays the answer.
	Committed() <-chan struct{}
	// Gone is closed when the caller hangs up in good order, after everything that it
	// said before. Unlike the end of the context, it never overtakes a commit.
	Gone() <-chan struct{}
}

// UsageJournal keeps what is needed to bill an attempt even if this process dies.
// Dispatched fails with a fault when no new work is taken.
type UsageJournal interface {
	Dispatched(o *Order, at time.Time) error
	Committed(o *Order) error
	Progress(o *Order, tokens, bytes int64) error
	// Final returns once the usage is on disk. publish then sends it to the services that
	// settle it, and does not block.
	Final(ctx context.Context, u *Usage) (publish func(), err error)
	// Void says that nothing is billable.
	Void(o *Order) error
	// Vanished is Void for an attempt that reached its provider and whose caller is not
	// there to hear how it ended. It returns once the void is on disk, from where others
	// hear of it, because perhaps nobody else knows that nothing was served.
	Vanished(ctx context.Context, o *Order) error
}

// Sessions finds the session that an order names.
type Sessions interface {
	Find(provider ids.ProviderID, node string, epoch int64) (*session.Session, bool)
}

// Dispatcher serves attempts. It is safe for concurrent use.
type Dispatcher struct {
	cfg     Config
	env     Env
	journal UsageJournal
	report  func(Report)
	clock   clock.Clock
	log     *slog.Logger
	large   largeAnswers
	claims  *claims.Tracker // of answers
	prompts *claims.Tracker // of text
	media   *claims.Tracker // of prompts with media

	silences unansweredLeavers

	mu       sync.Mutex
	open     bool
	attempts sync.WaitGroup
	abort    chan struct{} // closed when attempts must end at once
	aborted  bool
}

// New returns a dispatcher that takes no orders until Open. report hears of every
// attempt, begun or refused, and must not block.
func New(cfg Config, env Env, journal UsageJournal, report func(Report), c clock.Clock, log *slog.Logger) *Dispatcher {
	return &Dispatcher{
		cfg: cfg.withDefaults(), env: env, journal: journal, report: report, clock: c, log: log,
		abort: make(chan struct{}), claims: claims.NewTracker(), prompts: claims.NewTracker(), media: claims.NewTracker(),
	}
}

// HighestClaims returns at most n pairs of provider and model: those with the highest
// claims for what they delivered.
func (d *Dispatcher) HighestClaims(n int) []claims.Ratio { return d.claims.Highest(n) }

// HighestPrompts returns the pairs of provider and model with the highest claims for
// prompts beside their estimates: at most n of text and n of media.
func (d *Dispatcher) HighestPrompts(n int) (text, media []claims.Ratio) {
	return d.prompts.Highest(n), d.media.Highest(n)
}

// Open begins to take orders.
func (d *Dispatcher) Open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = true
}

// Accepting reports whether orders are taken.
func (d *Dispatcher) Accepting() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.open
}

// Drain takes no further orders. It returns when the orders under way have ended or ctx
// has.
func (d *Dispatcher) Drain(ctx context.Context) error {
	d.StopAccepting()
	done := make(chan struct{})
	go func() {
		d.attempts.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// StopAccepting lets no further attempt begin: Serve fails with hub_draining.
func (d *Dispatcher) StopAccepting() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open = false
}

// Abort ends the attempts under way. What was delivered is billed, as after a crash.
// Drain returns when they have ended.
func (d *Dispatcher) Abort() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.aborted {
		d.aborted = true
		close(d.abort)
	}
}

func (d *Dispatcher) enter() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open {
		d.attempts.Add(1)
	}
	return d.open
}

// Serve runs an attempt to its end, and takes the body out of its order. An error means
// that the caller heard nothing (session_gone, provider_busy, hub_draining, journal_full
// or invalid_request), or that the end could not be journalled or sent. A body that no
// agent can be sent is no error: the caller hears that it is refused.
func (d *Dispatcher) Serve(ctx context.Context, o *Order, caller Caller) error {
	if err := o.Check(); err != nil {
		return err
	}
	if !d.enter() {
		d.refused(ctx, o)
		return fault.New(fault.Unavailable, fault.HubDraining, "this hub takes no new requests")
	}
	defer d.attempts.Done()
	ctx, span := startSpan(ctx, o)
	defer span.End()
	at := d.clock.Now()
	stream, err := d.begin(o, at)
	if err != nil {
		d.refused(ctx, o)
		if errors.Is(err, session.ErrNotSendable) {
			return said(ctx, caller.Failed(Failure{Code: CodeRefused, EngineStatus: http.StatusBadRequest,
				Message: "the request is not JSON that can be sent"}))
		}
		return err
	}
	span.AddEvent(eventOpenSent)
	a := newAttempt(d, o, caller, stream, at)
	a.span = span
	return a.run(ctx)
}

// refused reports an attempt that never began, so that routers give back the slot that
// they had booked for it.
func (d *Dispatcher) refused(ctx context.Context, o *Order) {
	r := reportOf(o, Cancelled)
	d.report(r)
	d.tell(ctx, r, o.Stream, false)
}

// begin journals an order and puts it on its session.
func (d *Dispatcher) begin(o *Order, at time.Time) (Stream, error) {
	s, ok := d.env.Find(o)
	if !ok {
		return nil, gone()
	}
	d.limit(o, s)
	if d.env.Mode != nil {
		o.External, o.Vendor = d.env.Mode(s)
	}
	if err := d.journal.Dispatched(o, at); err != nil {
		return nil, err
	}
	crash.At("hub.dispatch.journalled")
	stream, err := s.Open(session.Request{
		RequestID: o.Request.String(), Attempt: o.Attempt, Kind: o.Kind, Model: o.Model, Stream: o.Stream,
		Body: o.Body, ContentType: o.ContentType, ModelOffset: o.ModelOffset, ModelLength: o.ModelLength,
		Traceparent: o.Traceparent, Timeout: o.Total, Proof: d.prove(o),
	})
	if err != nil {
		return nil, d.unopened(o, err)
	}
	o.asked = askedFor(o)
	o.Body = nil // the session keeps the body as long as it has to send it
	crash.At("hub.open.sent")
	return stream, nil
}

// limit cuts the time of an order to the time that the agents of its session keep.
func (d *Dispatcher) limit(o *Order, s Session) {
	if d.env.Longest == nil {
		return
	}
	if most := d.env.Longest(s); most > 0 {
		o.Total = min(o.Total, most)
	}
}

func (d *Dispatcher) prove(o *Order) []byte {
	if d.env.Prove == nil || !hasReceipts(o.Kind) {
		return nil
	}
	return d.env.Prove(o)
}

// hasReceipts reports whether agents make work receipts for a kind of request. Of another
// kind nobody has a proof, so nobody needs to hear that an attempt was void.
func hasReceipts(k meter.Kind) bool { return k == meter.Chat }

func gone() error {
	return fault.New(fault.Unavailable, fault.SessionGone, "this hub does not hold that session")
}

// unopened voids an order that its session did not take. A body that nobody can be sent
// is the consumer's fault; every other failure is retried elsewhere.
func (d *Dispatcher) unopened(o *Order, err error) error {
	if errors.Is(err, session.ErrNotSendable) {
		if lost := d.journal.Void(o); lost != nil {
			return lost
		}
		return err
	}
	return errors.Join(refusedOpen(err), d.journal.Void(o))
}

func refusedOpen(err error) error {
	if errors.Is(err, session.ErrBusy) {
		return fault.New(fault.Unavailable, fault.ProviderBusy, "the provider has no free slot")
	}
	return gone()
}
