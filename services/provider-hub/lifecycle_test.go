package providerhub_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/fakeagent"
	"svc.internal/pkg/fault"
	agentv2 "svc.internal/proto/svc/agent/v2"
	eventsv1 "svc.internal/proto/svc/events/v1"
	hubv1 "svc.internal/proto/svc/hub/v1"
	providerhub "svc.internal/services/provider-hub"
	"svc.internal/services/provider-hub/internal/journal"
)

// frozen wraps the system clock of a journal opened for looking.
type frozen struct{}

func (frozen) Now() time.Time { return time.Unix(1, 0) }

// copyJournal is what a crash now would leave behind.
func (w *world) copyJournal() string { return w.copyOf(w.cfg.JournalDir) }

func (w *world) copyOf(from string) string {
	w.t.Helper()
	dir := w.t.TempDir()
	names, err := os.ReadDir(from)
	must(w.t, err)
	for _, n := range names {
		if n.Name() == "LOCK" {
			continue
		}
		data, err := os.ReadFile(filepath.Join(from, n.Name()))
		must(w.t, err)
		must(w.t, os.WriteFile(filepath.Join(dir, n.Name()), data, 0o600))
	}
	return dir
}

// progressed reports whether a journal holds an attempt that is committed and has
// progress.
func progressed(t *testing.T, dir string) error {
	t.Helper()
	j, rec, err := journal.Open(journal.Config{Dir: dir, Clock: frozen{}})
	must(t, err)
	defer func() { must(t, j.Close()) }()
	for u, err := range rec.Dispatches() {
		must(t, err)
		if u.Committed && u.Progress.Tokens >= 256 {
			return nil
		}
	}
	return errors.New("no progress yet")
}

// look reads a journal's folder as a new process would find it.
func look(t *testing.T, dir string) (unsettled, unfinished int) {
	t.Helper()
	j, rec, err := journal.Open(journal.Config{Dir: dir, Clock: frozen{}})
	must(t, err)
	must(t, j.Close())
	return rec.Unsettled, rec.Unfinished
}

func TestFinishedIsSaidOnlyOnceTheUsageIsOnDisk(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{Handler: fakeagent.Answer("Hello")})
	call := w.call(order(m, a, true))
	for {
		message, err := call.stream.Recv()
		must(t, err)
		if message.GetEvent().GetFirstContent() {
			// Nothing waits for the disk at a dispatch, so its record may arrive later than the content.
			w.eventually("the attempt without usage, before the commit", func() error {
				if unsettled, unfinished := look(t, w.copyJournal()); unsettled != 0 || unfinished != 1 {
					return fmt.Errorf("got %d unsettled and %d unfinished, want 0 and 1", unsettled, unfinished)
				}
				return nil
			})
			call.commit()
		}
		if message.GetFinished() != nil {
			break
		}
	}
	if unsettled, unfinished := look(t, w.copyJournal()); unsettled != 1 {
		t.Errorf("after Finished: unsettled: got %d, want 1", unsettled)
	} else if unfinished != 0 {
		t.Errorf("after Finished: unfinished: got %d, want 0", unfinished)
	}
}

func TestSettledUsageIsForgottenAndUnsettledIsPublishedAfterARestart(t *testing.T) {
	t.Parallel()
	w := setup(t)
	usage := w.listen()
	m := w.active()
	opts := fakeagent.Options{Handler: fakeagent.Answer("Hello")}
	a := w.dial(m, opts)
	first, second := order(m, a, true), order(m, a, true)
	w.call(first).rest()
	w.call(second).rest()
	usage.next(2)
	w.settle(first.GetRequestId(), first.GetRequestId())
	w.eventually("one is settled", func() error {
		if unsettled, _ := look(t, w.copyJournal()); unsettled != 1 {
			return fmt.Errorf("%d unsettled", unsettled)
		}
		return nil
	})
	w.halt(w.hub)
	w.start()
	// What is younger than 30 s is not yet due in a running hub, but the
	// process that published it is gone.
	e := usage.next(3)
	if e.GetRequestId() != second.GetRequestId() {
		t.Errorf("after the restart: e.GetRequestId(): got %q, want %q", e.GetRequestId(), second.GetRequestId())
	} else if !strings.HasPrefix(usage.ids[2], second.GetRequestId()+"/") {
		t.Errorf("after the restart: usage.ids[2]: got %q, want the prefix %q", usage.ids[2], second.GetRequestId()+"/")
	}
	w.settle(second.GetRequestId())
	w.eventually("all is settled", func() error {
		if unsettled, _ := look(t, w.copyJournal()); unsettled != 0 {
			return fmt.Errorf("%d unsettled", unsettled)
		}
		return nil
	})
}

func TestCrashMidStreamBillsWhatWasNotedAndNoPrompt(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	committed, uncommitted := order(m, a, true), order(m, a, true)
	committed.MaxOutputTokens = 1_000_000
	call, other := w.call(committed), w.call(uncommitted)
	for range 2 {
		r := received(t, a)
		twoWords(t, r)
		if r.Open.GetRequestId() == committed.GetRequestId() {
			go func() {
				for r.Text(" another") == nil {
				}
			}()
		}
	}
	call.content()
	other.event()
	other.event()
	for range 400 {
		call.event()
	}
	var dir string
	w.eventually("progress is handed to the kernel", func() error {
		call.event()          // the answer goes on
		dir = w.copyJournal() // the crash
		return progressed(t, w.copyOf(dir))
	})
	w = setup(t, func(c *hubConfig) { c.JournalDir = dir })
	e := w.listen().next(1)
	switch {
	case e.GetRequestId() != committed.GetRequestId():
		t.Errorf("usage: e.GetRequestId(): got %q, want %q", e.GetRequestId(), committed.GetRequestId())
	case e.GetBillablePromptTokens() != 0:
		t.Errorf("usage: e.GetBillablePromptTokens(): got %d, want 0", e.GetBillablePromptTokens())
	case e.GetBillableCompletionTokens() < 256:
		t.Errorf("usage: e.GetBillableCompletionTokens(): got %d, want at least 256", e.GetBillableCompletionTokens())
	case e.GetBillableCompletionTokens() != e.GetRecountedCompletionTokens():
		t.Errorf("usage: e.GetBillableCompletionTokens(): got %d, want %d", e.GetBillableCompletionTokens(),
			e.GetRecountedCompletionTokens())
	case e.GetRates().GetOutputPicoUsdPerToken() != 4:
		t.Errorf("usage: e.GetRates().GetOutputPicoUsdPerToken(): got %d, want 4", e.GetRates().GetOutputPicoUsdPerToken())
	case e.GetModelId() != testModel:
		t.Errorf("usage: e.GetModelId(): got %q, want %q", e.GetModelId(), testModel)
	}
	w.settle(committed.GetRequestId())
	w.eventually("nothing is left", func() error {
		if unsettled, unfinished := look(t, w.copyJournal()); unsettled+unfinished != 0 {
			return fmt.Errorf("%d unsettled, %d unfinished", unsettled, unfinished)
		}
		return nil
	})
}

func TestDrainLetsAStreamEndAndTellsTheAgents(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *hubConfig) { c.DrainTimeout = time.Minute })
	usage := w.listen()
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	call := w.call(order(m, a, true))
	r := received(t, a)
	twoWords(t, r)
	call.content()
	w.hub.stop()
	wait(t, "the drain frame", a.Drained())
	if err := w.call(order(m, a, true)).err(); !fault.Is(err, fault.HubDraining) {
		t.Errorf("a request while draining: got the error %v, want the reason %v", err, fault.HubDraining)
	}
	if _, err := w.tryDial(m, fakeagent.Options{NodeID: "another-node"}); err == nil {
		t.Error("a socket while draining: got no error, want one")
	} else if !strings.Contains(err.Error(), "503") {
		t.Errorf(`a socket while draining: got the error %q, want "503" in it`, err)
	}
	must(t, r.Finish("stop"))
	must(t, r.Done())
	must(t, r.End(200, true))
	if end := call.rest(); end.finished == nil {
		t.Errorf("failed %v", end.failed)
	}
	wait(t, "the end of the socket", a.Closed())
	if why := a.Farewell(); why.GetCode() != "shutting_down" {
		t.Errorf(`farewell: why.GetCode(): got %q, want "shutting_down"`, why.GetCode())
	} else if why.GetReconnectAfterMs() < 100 {
		t.Errorf("farewell: why.GetReconnectAfterMs(): got %d, want at least 100", why.GetReconnectAfterMs())
	}
	usage.next(1)
}

func TestDrainThatTakesTooLongBillsWhatWasDelivered(t *testing.T) {
	t.Parallel()
	w := setup(t)
	usage := w.listen()
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	call := w.call(order(m, a, true))
	r := received(t, a)
	twoWords(t, r)
	call.content()
	w.hub.stop()
	if end := call.rest(); end.failed == nil {
		t.Error("failed: got nil, want a value")
	} else if end.failed.GetRetryable() {
		t.Errorf("end.failed.GetRetryable(): got true, want false, with %v", end.failed)
	}
	switch e := usage.next(1); {
	case e.GetEnding() != eventsv1.Ending_ENDING_PLATFORM_LOST:
		t.Errorf("usage: e.GetEnding(): got %v, want %v", e.GetEnding(), eventsv1.Ending_ENDING_PLATFORM_LOST)
	case e.GetBillablePromptTokens() != 0:
		t.Errorf("usage: e.GetBillablePromptTokens(): got %d, want 0", e.GetBillablePromptTokens())
	case e.GetDeliveredBytes() != 11:
		t.Errorf("usage: e.GetDeliveredBytes(): got %d, want 11", e.GetDeliveredBytes())
	}
}

func TestFullJournalTakesNoNewRequests(t *testing.T) {
	t.Parallel()
	w := setup(t, func(c *hubConfig) { c.JournalSegmentBytes, c.JournalMaxBytes = 1<<10, 8<<10 })
	m := w.active()
	a := w.dial(m, fakeagent.Options{Handler: fakeagent.Answer("x")})
	for range 100 {
		call := w.call(order(m, a, true))
		message, err := call.stream.Recv()
		if err != nil {
			if !fault.Is(err, fault.JournalFull) {
				t.Fatalf("got the error %v, want the reason %v", err, fault.JournalFull)
			}
			if err := w.hub.service.Ready(t.Context()); err == nil {
				t.Error("a hub with a full journal is ready")
			}
			return
		}
		_ = message
		call.rest()
	}
	t.Error("100 requests found room in 8 KiB")
}

func TestBeforeRunNothingIsTakenAndNothingPanics(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	open := order(m, w.dial(m, fakeagent.Options{}), true)
	cfg := w.cfg
	cfg.JournalDir = t.TempDir()
	service, err := providerhub.New(t.Context(), cfg, providerhub.Deps{
		Log: w.log, Meters: noop.NewMeterProvider(), Clock: clock.System, Random: rand.Reader, Bus: w.bus, DB: w.db,
	})
	must(t, err)
	h := w.connect(service)
	if err := service.Ready(t.Context()); err == nil {
		t.Error("a hub that does not run is ready")
	}
	w.hub = h
	if err := w.call(open).err(); !fault.Is(err, fault.HubDraining) {
		t.Errorf("dispatch: got the error %v, want the reason %v", err, fault.HubDraining)
	}
	// A first dial that is refused would be an old agent's last.
	held, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := fakeagent.Dial(held, w.wsURL(), fakeagent.Options{Key: m.key, Models: []string{testModel}}); !errors.Is(
		err, context.DeadlineExceeded) {
		t.Errorf("dial: got %v, want it held", err)
	}
	h.http.Close()
}

func TestPresenceTellsOfSessionsAtOnceAndOfTheirEnd(t *testing.T) {
	t.Parallel()
	w := setup(t)
	reports := make(chan *eventsv1.Presence, 64)
	sub := w.subscribe(bus.SubjectPresence(testHub), func(data []byte) {
		p := &eventsv1.Presence{}
		must(t, proto.Unmarshal(data, p))
		reports <- p
	})
	defer sub()
	next := func(what string, ok func(*eventsv1.Presence) bool) *eventsv1.Presence {
		t.Helper()
		for revision := uint64(0); ; {
			select {
			case p := <-reports:
				switch {
				case p.GetRevision() <= revision:
					t.Fatalf("report: p.GetRevision(): got %d, want more than %d", p.GetRevision(), revision)
				case p.GetHubId() != testHub:
					t.Fatalf("report: p.GetHubId(): got %q, want %q", p.GetHubId(), testHub)
				case p.GetDispatchAddress() != "inprocess":
					t.Fatalf(`report: p.GetDispatchAddress(): got %q, want "inprocess"`, p.GetDispatchAddress())
				case p.GetIncarnation() == 0:
					t.Fatal("report: p.GetIncarnation(): got 0, want any but 0")
				}
				revision = p.GetRevision()
				if ok(p) {
					return p
				}
			case <-time.After(patience):
				t.Fatalf("no report: %s", what)
			}
		}
	}
	m := w.provider(hubv1.ProviderStatus_PROVIDER_STATUS_PENDING)
	a := w.dial(m, fakeagent.Options{Capacity: 3, Region: "mars\x00\n"})
	p := next("the session", func(p *eventsv1.Presence) bool { return len(p.GetSessions()) == 1 })
	s := p.GetSessions()[0]
	if s.GetEpoch() != a.Epoch() || s.GetActive() || s.GetProviderId() != m.id || s.GetRegion() != "mars" ||
		s.GetProviderName() != "Farm" ||
		len(s.GetModels()) != 1 || s.GetModels()[0].GetCapacity() != 3 || !s.GetModels()[0].GetHealthy() ||
		s.GetMaxRequestBytes() != 10<<20 {
		t.Errorf("session %v", s)
	}
	w.activate(m.id)
	next("active", func(p *eventsv1.Presence) bool { return len(p.GetSessions()) == 1 && p.GetSessions()[0].GetActive() })
	must(t, a.Heartbeat(t.Context(), a.Offers(false)...))
	next("unhealthy", func(p *eventsv1.Presence) bool {
		return len(p.GetSessions()) == 1 && !p.GetSessions()[0].GetModels()[0].GetHealthy()
	})
	must(t, w.bus.Publish(t.Context(), bus.SubjectPresenceSync, nil, nil))
	next("a full report", func(p *eventsv1.Presence) bool {
		return p.GetFull() && p.GetParts() == 1 &&
			len(p.GetSessions()) == 1
	})
	must(t, a.Send(&agentv2.Frame{Body: &agentv2.Frame_Drain{Drain: &agentv2.Drain{}}}))
	next("draining", func(p *eventsv1.Presence) bool {
		return len(p.GetSessions()) == 1 &&
			p.GetSessions()[0].GetDraining()
	})
	a.Kill()
	next("the end", func(p *eventsv1.Presence) bool {
		return len(p.GetEndedEpochs()) == 1 && p.GetEndedEpochs()[0] == a.Epoch()
	})
}

func (w *world) subscribe(subject string, take func([]byte)) (stop func()) {
	w.t.Helper()
	sub, err := w.bus.Subscribe(subject, "", func(_ context.Context, m bus.Message) { take(m.Data) })
	must(w.t, err)
	return func() { must(w.t, sub.Stop()) }
}

func TestAttemptsAreReportedByOutcome(t *testing.T) {
	t.Parallel()
	w := setup(t)
	outcomes := make(chan *eventsv1.Attempt, 64)
	stop := w.subscribe(bus.SubjectAttempts(testHub), func(data []byte) {
		b := &eventsv1.AttemptBatch{}
		must(t, proto.Unmarshal(data, b))
		for _, a := range b.GetAttempts() {
			outcomes <- a
		}
	})
	defer stop()
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	notHere := func(r *fakeagent.Request) { must(t, r.Fail(501, "")) }
	for _, c := range []struct {
		do             func(r *fakeagent.Request)
		want           eventsv1.AttemptOutcome
		media, members bool
	}{
		{do: fakeagent.Answer("x"), want: eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_SERVED},
		{do: func(r *fakeagent.Request) { must(t, r.Fail(500, "")) }, want: eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_FAILED},
		{do: func(r *fakeagent.Request) { must(t, r.Fail(400, "")) }, want: eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_REFUSED},
		{do: notHere, want: eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_FAILED},
		{do: notHere, want: eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED, media: true},
		{do: notHere, want: eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED, members: true},
		{do: func(r *fakeagent.Request) { must(t, r.Busy()) }, want: eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_BUSY},
	} {
		open := order(m, a, true)
		open.NamesMedia, open.EngineMembers = c.media, c.members
		call := w.call(open)
		c.do(received(t, a))
		call.rest()
		got := wait(t, "a report", outcomes)
		switch {
		case got.GetOutcome() != c.want:
			t.Errorf("attempt: got.GetOutcome(): got %v, want %v", got.GetOutcome(), c.want)
		case got.GetRequestId() != open.GetRequestId():
			t.Errorf("attempt: got.GetRequestId(): got %q, want %q", got.GetRequestId(), open.GetRequestId())
		case got.GetAttempt() != 1:
			t.Errorf("got.GetAttempt(): got %d, want 1", got.GetAttempt())
		case got.GetNodeId() != "fake-node-1":
			t.Errorf(`attempt: got.GetNodeId(): got %q, want "fake-node-1"`, got.GetNodeId())
		}
	}
	call := w.call(order(m, a, true))
	r := received(t, a)
	call.cancel()
	wait(t, "the cancel", r.Cancelled())
	if got := wait(t, "a report", outcomes); got.GetOutcome() != eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED {
		t.Errorf("attempt: got %v, want %v", got.GetOutcome(), eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED)
	}
	gone := order(m, a, true)
	gone.Epoch++
	if err := w.call(gone).err(); !fault.Is(err, fault.SessionGone) {
		t.Errorf("got the error %v, want the reason %v", err, fault.SessionGone)
	}
	if got := wait(t, "a report", outcomes); got.GetOutcome() != eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED {
		t.Errorf("an attempt that was refused: got.GetOutcome(): got %v, want %v", got.GetOutcome(),
			eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED)
	} else if got.GetRequestId() != gone.GetRequestId() {
		t.Errorf("an attempt that was refused: got.GetRequestId(): got %q, want %q", got.GetRequestId(), gone.GetRequestId())
	}
}

func TestNewestEpochWinsAndTheOlderLosesItsStreams(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	older := w.dial(m, fakeagent.Options{})
	call := w.call(order(m, older, true))
	r := received(t, older)
	twoWords(t, r)
	call.content()
	newer := w.dial(m, fakeagent.Options{})
	if newer.Epoch() <= older.Epoch() {
		t.Errorf("epoch: got %d, want more than %d", newer.Epoch(), older.Epoch())
	}
	if end := call.rest(); end.failed == nil {
		t.Error("stream of the older: end.failed: got nil, want a value")
	} else if end.failed.GetRetryable() {
		t.Errorf("stream of the older: end.failed.GetRetryable(): got true, want false, with %v", end.failed)
	}
	_ = r.Text("an older epoch's frame has no effect")
	wait(t, "the end of the older", older.Closed())
	if why := older.Farewell(); why.GetCode() != "superseded" {
		t.Errorf(`farewell: got %q, want "superseded"`, why.GetCode())
	}
	if err := w.call(order(m, older, true)).err(); !fault.Is(err, fault.SessionGone) {
		t.Errorf("dispatch to the older epoch: got the error %v, want the reason %v", err, fault.SessionGone)
	}
	second := w.dial(m, fakeagent.Options{NodeID: "another-node"})
	for _, a := range []*fakeagent.Agent{newer, second} {
		must(t, a.Heartbeat(t.Context()))
	}
}

func TestNewerSessionOnAnotherHubEndsTheOneHere(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	data, err := proto.Marshal(&eventsv1.Presence{HubId: "hub-b", Sessions: []*eventsv1.Session{{
		ProviderId: m.id, NodeId: "fake-node-1", Epoch: a.Epoch() + 1,
	}}})
	must(t, err)
	must(t, w.bus.Publish(t.Context(), bus.SubjectPresence("hub-b"), data, nil))
	wait(t, "the end", a.Closed())
	if why := a.Farewell(); why.GetCode() != "superseded" {
		t.Errorf(`farewell: got %q, want "superseded"`, why.GetCode())
	}
}

func TestKeysAndStatusesAreFeltByLiveSessions(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m, other := w.active(), w.active()
	a := w.dial(m, fakeagent.Options{})
	b := w.dial(other, fakeagent.Options{})
	_, err := w.hub.admin.RevokeProviderKey(t.Context(), &hubv1.RevokeProviderKeyRequest{KeyId: m.keyID})
	must(t, err)
	if err := w.call(order(m, a, true)).err(); !fault.Is(err, fault.SessionGone) {
		t.Errorf("dispatch to a revoked key's session: got the error %v, want the reason %v", err, fault.SessionGone)
	}
	wait(t, "the end", a.Closed())
	if why := a.Farewell(); why.GetCode() != "key_revoked" {
		t.Errorf(`farewell: got %q, want "key_revoked"`, why.GetCode())
	}
	var refused *fakeagent.Refused
	if _, err := w.tryDial(m, fakeagent.Options{}); !errors.As(err, &refused) {
		t.Errorf("dial with a revoked key: got the error %v, want a %T", err, refused)
	} else if refused.Frame.GetCode() != "key_revoked" {
		t.Errorf(`dial with a revoked key: refused.Frame.GetCode(): got %q, want "key_revoked"`, refused.Frame.GetCode())
	}
	// Another hub's operator suspends the other: this hub finds out by itself.
	_, err = w.db.Exec(t.Context(), `UPDATE provider SET status = 'suspended' WHERE provider_id = $1`, other.id)
	must(t, err)
	wait(t, "the end", b.Closed())
	if why := b.Farewell(); why.GetCode() != "suspended" {
		t.Errorf(`farewell: got %q, want "suspended"`, why.GetCode())
	}
	if _, err := w.tryDial(other, fakeagent.Options{}); !errors.As(err, &refused) {
		t.Errorf("dial of a suspended provider: got the error %v, want a %T", err, refused)
	} else if refused.Frame.GetCode() != "suspended" {
		t.Errorf(`dial of a suspended provider: refused.Frame.GetCode(): got %q, want "suspended"`, refused.Frame.GetCode())
	}
	got, err := w.hub.directory.GetProvider(t.Context(), &hubv1.GetProviderRequest{ProviderId: other.id})
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if got.GetProvider().GetStatus() != hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED {
		t.Errorf("directory: got.GetProvider().GetStatus(): got %v, want %v", got.GetProvider().GetStatus(),
			hubv1.ProviderStatus_PROVIDER_STATUS_SUSPENDED)
	}
}

func TestPendingProviderConnectsAndServesNobody(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.provider(hubv1.ProviderStatus_PROVIDER_STATUS_PENDING)
	a := w.dial(m, fakeagent.Options{})
	if a.Ack().GetStatus() != "pending" {
		t.Errorf(`a.Ack().GetStatus(): got %q, want "pending"`, a.Ack().GetStatus())
	} else if a.Ack().GetProviderName() != "Farm" {
		t.Errorf(`a.Ack().GetProviderName(): got %q, want "Farm"`, a.Ack().GetProviderName())
	}
	if err := w.call(order(m, a, true)).err(); !fault.Is(err, fault.SessionGone) {
		t.Errorf("dispatch: got the error %v, want the reason %v", err, fault.SessionGone)
	}
}

// TestSlowConsumerStallsOnlyItself has two streams on one socket: nobody reads
// the first, and the second goes on.
func TestSlowConsumerStallsOnlyItself(t *testing.T) {
	t.Parallel()
	w := setup(t)
	m := w.active()
	a := w.dial(m, fakeagent.Options{})
	long := order(m, a, true)
	long.MaxOutputTokens = 1 << 30
	slow := w.call(long)
	r := received(t, a)
	sent := make(chan struct{}, 4096)
	go func() {
		piece := strings.Repeat("word ", 1000)
		for r.Text(piece) == nil {
			sent <- struct{}{}
		}
	}()
	// The agent runs out of credit once the hub's buffers are full.
	stalled := 0
	for quiet := false; !quiet; {
		select {
		case <-sent:
			stalled++
		case <-time.After(300 * time.Millisecond):
			quiet = true
		}
	}
	if most := (256<<10)/5000 + 16; stalled > most {
		t.Errorf("an answer that nobody reads took: got %d pieces, want at most %d", stalled, most)
	}
	call := w.call(order(m, a, true))
	go fakeagent.Answer("not", " stalled")(received(t, a))
	if end := call.rest(); end.finished == nil {
		t.Errorf("the other stream failed: %v", end.failed)
	}
	slow.content()
	for range 100 {
		slow.event() // it goes on where it stood
	}
	slow.cancel()
}
