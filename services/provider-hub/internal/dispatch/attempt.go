package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"svc.internal/pkg/crash"
	"svc.internal/pkg/openai"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

// How often progress is journalled.
const (
	progressTokens   = 256
	progressInterval = 2 * time.Second
)

// verdict is how an attempt ended.
type verdict struct {
	ending  meter.Ending // what it is billed as, if content was relayed
	outcome Outcome
	// failure is what the caller hears; nil when the answer was served.
	failure *Failure
	// silent reports that nobody listens any more.
	silent bool
	// excused reports that the consumer may have caused the failure: the order left less
	// time than it may need, or the order itself is at fault.
	excused bool
	// drain reports that the agent still works and may report its usage.
	drain bool
	// prompt reports that a consumer who left before content owes the prompt.
	prompt bool
}

// attempt is one order under way. It belongs to its caller's goroutine.
type attempt struct {
	dispatcher *Dispatcher
	order      *Order
	caller     Caller
	stream     Stream
	answer     *answer
	span       trace.Span

	started      time.Time
	firstContent time.Duration
	lastData     time.Time
	lastContent  time.Time

	commits   <-chan struct{} // nil once committed
	committed bool
	// relayed is what the caller was given.
	relayedTokens, relayedBytes int64
	// next is an event that waits, because whether another follows at once is not known
	// yet. Its JSON is nil for none. nextBytes counts the content up to it.
	next      Event
	nextBytes int64

	// blocked is how long the caller took since the last piece was taken. before is how
	// long the caller took between that piece and the piece before.
	blocked, before time.Duration
	// waited is how long the caller took in all.
	waited time.Duration

	progressTokens int64
	progressAt     time.Time
	// contentBlamed reports that the engine blamed an error on the content, and excess
	// that the answer was longer than its bound.
	contentBlamed, excess bool
	// large is this attempt's share of the bytes that large answers hold. arriving is the
	// part of it that belongs to an answer that is not whole yet.
	large, arriving int64
}

func newAttempt(d *Dispatcher, o *Order, caller Caller, stream Stream, at time.Time) *attempt {
	return &attempt{
		dispatcher: d, order: o, caller: caller, stream: stream, answer: newAnswer(o, stream.EngineModel()),
		started: at, lastData: at, commits: caller.Committed(), progressAt: at,
	}
}

// run waits for whatever comes first until the attempt has ended.
func (a *attempt) run(ctx context.Context) error {
	// Each timer has a place in the queue, because it is set again only after its
	// function has run. Timers with channels of their own would be set up and torn down
	// with every event.
	due := make(chan func() *verdict, 3)
	after := func(d time.Duration, what func() *verdict) Timer {
		return a.dispatcher.env.After(d, func() { due <- what })
	}
	total := after(a.order.Total, a.outOfTime)
	defer total.Stop()
	if a.order.Stream { // a whole answer shows nothing before its end
		first := after(min(a.order.FirstContent, a.order.Total), a.noContentYet)
		defer first.Stop()
	}
	var stall Timer
	stall = after(a.dispatcher.cfg.StallProbe, func() *verdict { return a.stalled(stall) })
	defer stall.Stop()
	defer a.counts(0, 0)
	for {
		var v *verdict
		a.waits(ForAll)
		select {
		case <-ctx.Done():
			v = a.left()
		case <-a.caller.Gone():
			v = a.left()
		case <-a.commits:
			if err := a.commit(); err != nil {
				return a.journalFailed(err)
			}
		case <-a.stream.Ready():
			v = a.take()
		case what := <-due:
			v = what()
		case <-a.dispatcher.abort:
			v = a.platformLost()
		}
		if v != nil {
			return a.conclude(ctx, v)
		}
	}
}

// left judges a caller that is no longer there. A caller that closed its side had a
// consumer who hung up. A caller that broke off is a gateway that died or lost its
// connection, and no consumer pays a prompt for that.
func (a *attempt) left() *verdict {
	v := &verdict{ending: meter.PlatformLost, outcome: Cancelled, silent: true, drain: true}
	select {
	case <-a.caller.Gone():
		if !a.answer.begun {
			return a.leftBeforeContent()
		}
		v.ending = meter.ClientGone
	default:
	}
	return v
}

// leftBeforeContent judges a consumer who hung up before any content. The consumer owes
// the prompt, because prompts would otherwise be had for nothing. The consumer owes
// nothing within the free time of the order, nor where the provider had its time and gave
// no content, which counts against the provider. Images have no prompt. A caller that
// committed while it left hears that nothing is owed.
func (a *attempt) leftBeforeContent() *verdict {
	waited := a.dispatcher.clock.Now().Sub(a.started)
	switch {
	case waited < a.order.freeTime() || a.order.Kind == meter.Images:
		return &verdict{outcome: Cancelled, failure: &Failure{Code: CodeTimeout,
			Message: "the consumer left in its free time"}}
	case a.hung(waited):
		v := a.fails(Failure{Code: CodeTimeout, Message: "no content in the usual time"}, 0)
		// The length of its answer or the size of its media is not known.
		v.excused = !a.order.Stream || a.order.NamesMedia
		return v
	}
	return &verdict{ending: meter.ClientGone, outcome: Cancelled, silent: true, prompt: true}
}

func (a *attempt) noContentYet() *verdict {
	if a.answer.begun {
		return nil
	}
	v := a.fails(Failure{Code: CodeTimeout, Message: "no content in time"}, 0)
	v.excused = a.order.hurriedContent()
	return v
}

func (a *attempt) outOfTime() *verdict {
	v := a.fails(Failure{Code: CodeTimeout, Message: "the answer took too long"}, meter.WallLimit)
	v.drain = a.answer.begun
	if a.answer.begun {
		v.outcome = Served // it was serving all the time
	}
	v.excused = a.order.hurriedAnswer()
	return v
}

func (a *attempt) platformLost() *verdict {
	v := a.fails(Failure{Code: CodeUpstream, Message: "the hub shuts down"}, meter.PlatformLost)
	v.outcome = Cancelled
	return v
}

// fails is a verdict against the provider. Before content it may be retried.
func (a *attempt) fails(f Failure, ending meter.Ending) *verdict {
	f.Retryable = !a.answer.begun
	return &verdict{ending: ending, outcome: Failed, failure: &f}
}

// stalled pings a silent agent. It gives up an answer whose content stopped, or of which
// 1 MiB or more is here and nothing more comes.
func (a *attempt) stalled(timer Timer) *verdict {
	// The time that the caller took does not count against the provider, because nobody
	// read the provider's data meanwhile.
	now := a.dispatcher.clock.Now().Add(-a.blocked)
	idle := now.Sub(a.lastData)
	quiet := now.Sub(a.lastContent)
	if a.order.Kind == meter.Images {
		quiet = idle // an engine may have nothing to show for long between two images
	}
	if most := a.dispatcher.cfg.ContentTimeout; a.answer.begun && quiet >= most || a.arriving > 0 && idle >= most {
		return a.fails(Failure{Code: CodeTimeout, Message: "the answer stopped"}, meter.ProviderLost)
	}
	probe := a.dispatcher.cfg.StallProbe
	if idle >= probe {
		a.stream.Probe()
		idle = 0
	}
	timer.Reset(probe - max(idle, 0))
	return nil
}

func (a *attempt) commit() error {
	a.commits, a.committed = nil, true
	a.span.AddEvent(eventCommitted)
	defer crash.At("hub.commit.journalled")
	if err := a.dispatcher.journal.Committed(a.order); err != nil || a.order.Kind != meter.Images || a.relayedTokens == 0 {
		return err
	}
	return a.note() // an image that came before the commit is billed as one
}

// take relays what has arrived.
func (a *attempt) take() *verdict {
	piece, end, lost := a.stream.Take()
	a.before, a.blocked = a.blocked, 0
	if len(piece) > 0 {
		a.lastData = a.dispatcher.clock.Now()
	}
	free, v := a.read(piece)
	a.stream.Release(len(piece), free)
	switch {
	case v != nil:
		return v
	case end != nil:
		return a.ended(end)
	case lost != nil:
		return a.broke(lost)
	default:
		return nil
	}
}

// slowCaller is how long the events of one piece must wait for the caller before an
// overflow counts as the caller's fault. In less time only a provider that sends faster
// than anybody takes can be ahead.
const slowCaller = time.Second

// say sends an event to the caller.
func (a *attempt) say(e Event) error {
	began := a.dispatcher.clock.Now()
	err := a.caller.Event(e)
	took := a.dispatcher.clock.Now().Sub(began)
	a.blocked += took
	a.waited += took
	return err
}

// broke judges a stream that ended without its END.
func (a *attempt) broke(lost error) *verdict {
	v := a.fails(Failure{Code: CodeUpstream, Message: lost.Error()}, meter.ProviderLost)
	switch {
	case errors.Is(lost, session.ErrBehind) && a.before >= slowCaller:
		v.ending, v.outcome = meter.ClientGone, Cancelled // a consumer who does not read counts as one who left
	case errors.Is(lost, session.ErrNoRoom):
		v.ending, v.outcome = meter.PlatformLost, Cancelled
	}
	return v
}

// read takes one piece of the answer. It returns a piece that is free.
func (a *attempt) read(piece []byte) (free []byte, v *verdict) {
	if a.order.Stream {
		v = a.readStream(piece)
		return a.answer.keep(piece), v
	}
	free, ok := a.answer.gather(piece, a.dispatcher.cfg.maxAnswer(a.order.Kind))
	if !ok {
		return free, a.fails(Failure{Code: CodeUpstream, Message: "the answer is too large"}, 0)
	}
	return free, a.holds(len(a.answer.whole))
}

// readStream takes one piece of a stream.
func (a *attempt) readStream(piece []byte) *verdict {
	a.answer.feed(piece)
	v := a.events()
	if v == nil {
		v = a.holds(a.answer.sse.Buffered())
	}
	// The events before the verdict are due whatever the verdict is. Without a caller
	// there is another verdict.
	if cut := a.send(false); cut != nil {
		return cut
	}
	return v
}

// events takes the events that have arrived whole.
func (a *attempt) events() *verdict {
	for {
		event, ok := a.answer.sse.Next()
		if !ok {
			break
		}
		if v := a.event(event); v != nil {
			return v
		}
	}
	if err := a.answer.sse.Err(); err != nil {
		return a.broken(err)
	}
	return nil
}

func (a *attempt) broken(err error) *verdict {
	return a.fails(Failure{Code: CodeUpstream, Message: "the engine's answer cannot be read: " + err.Error()},
		meter.EngineError)
}

// event takes one event of a stream.
func (a *attempt) event(event openai.Event) *verdict {
	if event.Done {
		a.answer.done = true
		return a.streamEnd()
	}
	if string(event.Name) == "error" {
		return a.engineError(event.Data)
	}
	found, err := a.answer.reader.event(event)
	if err != nil {
		return a.broken(err)
	}
	a.answer.heard = true
	switch {
	case found.refusal:
		return a.engineError(event.Data)
	case found.skip:
		return nil
	}
	if a.tooLong() {
		return a.cut()
	}
	out := a.answer.rewritten(event.Data)
	if found.content {
		a.lastContent = a.lastData
	}
	if !a.answer.begun && !found.content {
		if !a.answer.hold(out, found.name) {
			return a.fails(Failure{Code: CodeUpstream, Message: "the engine sends events without content"}, 0)
		}
		return nil
	}
	if v := a.relay(out, found.name); v != nil || !found.last {
		return v
	}
	a.answer.done = true
	return a.streamEnd()
}

// relay queues an event for the caller behind the events that waited for content. The
// event is sent when the next event comes, or when none does, so that the caller knows
// which events it may write at once.
func (a *attempt) relay(out []byte, name string) *verdict {
	first := !a.answer.begun
	if first {
		a.begin()
		for _, held := range a.answer.unhold() {
			if err := a.say(Event{JSON: held.json, Name: held.name, More: true}); err != nil {
				return a.left()
			}
		}
	}
	if v := a.send(true); v != nil {
		return v
	}
	count, bytes := a.answer.reader.delivered()
	a.next = Event{JSON: out, Name: name, FirstContent: first, Tokens: count}
	if first {
		a.next.ProviderTime = max(time.Microsecond, a.firstContent)
	}
	a.nextBytes = bytes
	return nil
}

// send sends the event that waits, if there is one.
func (a *attempt) send(more bool) *verdict {
	if a.next.JSON == nil {
		return nil
	}
	a.counts(a.answer.sse.Buffered(), len(a.next.JSON)) // as long as the caller does not take it
	a.next.More = more
	if err := a.say(a.next); err != nil {
		return a.left()
	}
	a.relayedTokens, a.relayedBytes = a.next.Tokens, a.nextBytes
	a.next = Event{}
	a.counts(a.answer.sse.Buffered(), 0)
	if err := a.progress(); err != nil {
		return a.journalLost(err)
	}
	return nil
}

func (a *attempt) begin() {
	now := a.dispatcher.clock.Now()
	a.answer.begun = true
	a.firstContent = now.Sub(a.started)
	a.span.AddEvent(eventFirstContent)
	a.lastContent = now
	crash.At("hub.content.first")
}

// progress journals how much was relayed, now and then.
func (a *attempt) progress() error {
	if !a.committed {
		select {
		case <-a.commits:
			return a.commit()
		default:
			return nil
		}
	}
	if a.relayedTokens-a.progressTokens < progressStep(a.order.Kind) && a.lastData.Sub(a.progressAt) < progressInterval {
		return nil
	}
	return a.note()
}

// note journals how much was relayed.
func (a *attempt) note() error {
	a.progressTokens, a.progressAt = a.relayedTokens, a.lastData
	defer crash.At("hub.progress")
	return a.dispatcher.journal.Progress(a.order, a.billableTokens(), a.relayedBytes)
}

// progressStep is how much may be relayed between two notes.
func progressStep(k meter.Kind) int64 {
	if k == meter.Images {
		return 1 // each image is journalled
	}
	return progressTokens
}

// billableTokens is the count that a crash now would be billed by.
func (a *attempt) billableTokens() int64 {
	return meter.Charge(a.served(meter.PlatformLost, meter.Claim{State: meter.Absent})).Completion
}

// ended judges the agent's END, which follows everything that the agent sent.
func (a *attempt) ended(end *session.End) *verdict {
	if end.Busy {
		v := a.fails(Failure{Code: CodeUpstream, Message: "the provider has no free slot", Busy: true}, meter.Truncated)
		v.outcome = Busy
		return v
	}
	if bad := end.Status < 200 || end.Status > 299; bad && !a.answer.begun {
		return a.engineStatus(end)
	}
	if !a.order.Stream {
		return a.wholeEnd(end)
	}
	if event, ok := a.answer.sse.End(); ok && end.Complete {
		v := a.event(event)
		if cut := a.send(false); cut != nil {
			return cut
		}
		if v != nil {
			return v
		}
	}
	if !end.Complete {
		return a.cutOff(end, meter.Truncated)
	}
	return a.streamEnd()
}

// cutOff returns the verdict on an answer that the engine broke off.
func (a *attempt) cutOff(end *session.End, ending meter.Ending) *verdict {
	f := Failure{Code: CodeUpstream, Message: "the engine's answer was cut off: " + end.Error}
	if a.answer.begun {
		f.EngineStatus = http.StatusOK
	}
	return a.fails(f, ending)
}

// streamEnd judges a stream that has come to its end mark.
func (a *attempt) streamEnd() *verdict {
	if !a.answer.heard {
		if chunk, err := openai.ScanChunk(a.answer.raw); err == nil && chunk.Error.Found() {
			return a.engineError(a.answer.raw) // a plain error body under a status of success
		}
	}
	if why := a.answer.reader.lacks(); why != "" {
		return a.fails(Failure{Code: CodeUpstream, EngineStatus: 200, Message: why}, meter.Truncated)
	}
	if !a.answer.begun {
		// A model may have nothing to say. The caller then waits for its finish_reason.
		if v := a.relayHeld(); v != nil {
			return v
		}
	}
	return &verdict{ending: meter.Completed, outcome: Served}
}

// relayHeld sends an answer without any content.
func (a *attempt) relayHeld() *verdict {
	held := a.answer.unhold()
	a.begin()
	for i, event := range held {
		last := i == len(held)-1
		if err := a.say(Event{JSON: event.json, Name: event.name, FirstContent: last, More: !last}); err != nil {
			return a.left()
		}
	}
	return nil
}

// wholeEnd judges and sends an answer that was not streamed.
func (a *attempt) wholeEnd(end *session.End) *verdict {
	body := a.answer.whole
	if !end.Complete {
		return a.cutOff(end, 0)
	}
	found, err := a.answer.reader.whole(body)
	switch {
	case err != nil:
		return a.broken(err)
	case found.refusal:
		return a.engineError(body)
	case found.lack != "":
		return a.fails(Failure{Code: CodeUpstream, EngineStatus: end.Status, Message: found.lack}, 0)
	}
	if a.tooLong() {
		a.excess = true
		return a.fails(Failure{Code: CodeUpstream, EngineStatus: end.Status,
			Message: "the engine's answer is longer than was asked for"}, 0)
	}
	a.begin()
	a.relayedTokens, a.relayedBytes = a.answer.reader.delivered()
	restored := a.answer.restored()
	a.answer.whole = nil // the answer is read, so one copy is enough
	a.counts(0, len(restored))
	if err := a.say(Event{JSON: restored, FirstContent: true, Tokens: a.relayedTokens}); err != nil {
		return a.left()
	}
	a.counts(0, 0)
	return &verdict{ending: meter.Completed, outcome: Served}
}

// journalFailed ends an attempt that the journal cannot keep.
func (a *attempt) journalFailed(err error) error {
	a.stream.Close(true)
	return fmt.Errorf("journal attempt %d of %s: %w", a.order.Attempt, a.order.Request, err)
}

// journalLost ends a stream whose progress cannot be journalled.
func (a *attempt) journalLost(err error) *verdict {
	a.dispatcher.log.Error("an attempt cannot be journalled", "request_id", a.order.Request.String(), "error", err)
	return a.platformLost()
}
