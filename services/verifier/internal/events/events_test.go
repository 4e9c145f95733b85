package events

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bus/natsserver"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/clock"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/usagebundle"
	eventsv1 "svc.internal/proto/svc/events/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
	"svc.internal/services/verifier/internal/claims"
	"svc.internal/services/verifier/internal/cover"
	"svc.internal/services/verifier/internal/identity"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/pairing"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
	"svc.internal/services/verifier/internal/traffic"
	"svc.internal/services/verifier/internal/trust"
)

const (
	patience = 60 * time.Second
	model    = "acme/tiny-1b"
)

var provider = ids.ProviderID{6: 0x70, 8: 0x80, 15: 1}

// bundle is a listener with what it feeds.
type bundle struct {
	t         *testing.T
	bus       *bus.Conn
	listener  *Listener
	offers    *offers.View
	traffic   *traffic.Counter
	claims    *claims.Box
	shapes    chan map[cover.Shape]int64
	penalties chan Penalty
	synced    chan struct{}
}

func setup(t *testing.T, conn *bus.Conn) *bundle {
	t.Helper()
	b := &bundle{
		t: t, bus: conn, offers: offers.New(), traffic: traffic.New(), claims: claims.New(func(ids.RequestID) {}),
		shapes: make(chan map[cover.Shape]int64, 8), penalties: make(chan Penalty, 8), synced: make(chan struct{}, 8),
	}
	b.listener = NewListener(Deps{
		Bus: conn, Clock: clock.System, Log: slog.New(slog.DiscardHandler), Offers: b.offers, Traffic: b.traffic,
		Pairing: pairing.New(), PairClock: clock.System, Claims: b.claims,
		Shapes:  func(_ context.Context, _ time.Time, counts map[cover.Shape]int64) { b.shapes <- counts },
		Penalty: func(_ context.Context, p Penalty) { b.penalties <- p },
		Sync:    func() { b.synced <- struct{}{} },
	})
	asked := make(chan struct{}, 64)
	sub, err := conn.Subscribe(bus.SubjectPresenceSync, "", func(context.Context, bus.Message) { asked <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	run(t, b.listener.Run)
	wait(t, asked) // it has subscribed by then
	if err := sub.Stop(); err != nil {
		t.Fatal(err)
	}
	return b
}

func run(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// wait returns what comes on a channel.
func wait[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func (b *bundle) say(subject string, m proto.Message) {
	b.t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.bus.Publish(b.t.Context(), subject, data, nil); err != nil {
		b.t.Fatal(err)
	}
	if err := b.bus.Flush(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

// settled returns once the listener has handled all that was said before: messages of a
// subject come in order, and so do those of one connection.
func (b *bundle) settled(refused int64) {
	b.t.Helper()
	deadline := time.Now().Add(patience)
	for b.listener.Refused() != refused {
		if time.Now().After(deadline) {
			b.t.Fatalf("refused: got %d, want %d", b.listener.Refused(), refused)
		}
		<-time.After(time.Millisecond)
	}
}

func report(hub string, revision uint64) *eventsv1.Presence {
	return &eventsv1.Presence{
		HubId: hub, Incarnation: 1, DispatchAddress: "127.0.0.1:1", Revision: revision, Full: true, Parts: 1,
		Sessions: []*eventsv1.Session{{
			ProviderId: provider.String(), NodeId: "n", Epoch: 7, Active: true, Capabilities: []string{"stream", "logprobs"},
			ActiveSince: timestamppb.New(time.Unix(1_700_000_000, 0)), GpuClass: "RTX 4090",
			Models: []*eventsv1.ModelOffer{{ModelId: model, Healthy: true, Quantization: "q4_0", Engine: "vllm",
				ReportedContextLength: 4096, Revision: "r1"}},
		}},
	}
}

// Endpoints are challenged as agents are. Nobody judges a vendor, whose answers the platform buys.
func TestAVendorOffersNothingAndEveryOtherModeDoes(t *testing.T) {
	m := report("hub-1", 1)
	base := m.GetSessions()[0]
	m.Sessions = nil
	for i, mode := range []eventsv1.ConnectionMode{eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET,
		eventsv1.ConnectionMode_CONNECTION_MODE_EXTERNAL, 9} {
		for _, vendor := range []bool{false, true} {
			s := proto.CloneOf(base)
			s.ConnectionMode, s.Vendor, s.Epoch = mode, vendor, int64(100*i+1)
			if vendor {
				s.Epoch++
			}
			m.Sessions = append(m.Sessions, s)
		}
	}
	r, refused, err := reportFromProto(m)
	if err != nil {
		t.Fatal(err)
	}
	if refused != 0 {
		t.Errorf("refused: got %d, want 0", refused)
	}
	var epochs []int64
	for _, s := range r.Sessions {
		epochs = append(epochs, s.Epoch)
	}
	if want := []int64{1, 101, 201}; !slices.Equal(epochs, want) {
		t.Errorf("epochs of the sessions: got %v, want %v", epochs, want)
	}
}

func TestPresenceBecomesOffers(t *testing.T) {
	t.Parallel()
	b := setup(t, bustest.New(t))
	b.say(bus.SubjectPresence("hub-1"), report("hub-1", 1))
	wait(t, b.listener.First())
	seat, ok := b.offers.Session(probe.Offer{Provider: provider, Model: model})
	if !ok {
		t.Fatal("the session: got none, want one")
	}
	want := offers.Model{ID: model, Healthy: true, Window: 4096, Quantization: "q4_0", Class: quant.Parse("q4_0"),
		Engine: "vllm", Revision: "r1"}
	if *seat.Model != want {
		t.Errorf("model: got %+v, want %+v", *seat.Model, want)
	}
	if got := seat.GPU; got != "RTX 4090" {
		t.Errorf("GPU: got %q, want %q", got, "RTX 4090")
	}
	if !seat.Has(offers.Logprobs) {
		t.Error("logprobs: got false, want true")
	}
}

func TestIdentitiesThatAreMalformedOrTooManyAreDropped(t *testing.T) {
	t.Parallel()
	b := setup(t, bustest.New(t))
	m := report("hub-1", 1)
	whole := append([]byte{byte(identity.Payout)}, make([]byte, identity.Size-1)...)
	flood := [][]byte{whole, whole, nil, whole[1:], append([]byte{9}, whole[1:]...)}
	for n := range byte(2 * identity.MaxOfSession) {
		flood = append(flood, append([]byte{byte(identity.Wallet), n}, whole[2:]...))
	}
	m.Sessions[0].Identities = flood
	b.say(bus.SubjectPresence("hub-1"), m)
	wait(t, b.listener.First())
	seat, ok := b.offers.Session(probe.Offer{Provider: provider, Model: model})
	if !ok {
		t.Fatal("the session: got none, want one")
	}
	want := []identity.Identity{{byte(identity.Wallet)}, {byte(identity.Wallet), 1}, {byte(identity.Wallet), 2},
		{byte(identity.Payout)}}
	if got := seat.Identities; !slices.Equal(got, want) {
		t.Errorf("of the first %d: got %v, want %v", identity.MaxOfSession, got, want)
	}
}

func TestWhatIsOutOfBoundsIsCountedAndDropped(t *testing.T) {
	t.Parallel()
	b := setup(t, bustest.New(t))
	b.say(bus.SubjectPresence("hub-2"), report("hub-1", 1)) // another hub's subject
	bad := report("hub-1", 2)
	bad.Sessions[0].Models = append(bad.Sessions[0].Models, bad.Sessions[0].Models[0])
	b.say(bus.SubjectPresence("hub-1"), bad)
	b.say(bus.SubjectPenalty, &eventsv1.PenaltyChanged{PenaltyId: "x", State: "reversed", Revision: 1})
	b.say(bus.SubjectShapes, &eventsv1.ShapeReport{Hour: timestamppb.Now(),
		Shapes: []*eventsv1.ShapeCount{{PromptLength: 24, Requests: 30}}})
	b.say(bus.SubjectAttempts("hub-1"), &eventsv1.AttemptBatch{Attempts: []*eventsv1.Attempt{{Attempt: 1,
		ProviderId: "x"}}})
	b.settled(5)
	if _, ok := b.offers.Session(probe.Offer{Provider: provider, Model: model}); ok {
		t.Error("a session that names a model twice: got it, want none")
	}
}

func TestAttemptsAreTraffic(t *testing.T) {
	t.Parallel()
	b := setup(t, bustest.New(t))
	attempt := func(number uint32, outcome eventsv1.AttemptOutcome) *eventsv1.Attempt {
		return &eventsv1.Attempt{RequestId: "r", Attempt: number, ProviderId: provider.String(), ModelId: model,
			Outcome: outcome}
	}
	b.say(bus.SubjectAttempts("hub-1"), &eventsv1.AttemptBatch{Attempts: []*eventsv1.Attempt{
		attempt(1, eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_SERVED),
		attempt(2, eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_FAILED),
		attempt(1, eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_CANCELLED),
		attempt(0, eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_SERVED),
		{ProviderId: "end", Attempt: 1},
	}})
	b.settled(1)
	w := b.traffic.Of(probe.Offer{Provider: provider, Model: model}, time.Now())
	if w.Served != 1 {
		t.Errorf("served: got %d, want 1", w.Served)
	}
	if got, want := w.RequestsADay*7, 2.0; got < want-1e-9 || got > want+1e-9 {
		t.Errorf("requests of the week: got %v, want %v", got, want)
	}
}

func usage(request ids.RequestID, hub string, state eventsv1.ClaimState) *eventsv1.UsageEvent {
	return &eventsv1.UsageEvent{
		RequestId: request.String(), HubId: hub, ProviderId: provider.String(), ModelId: model, ClaimState: state,
		ClaimedPromptTokens: 11, ClaimedCompletionTokens: 12, BillablePromptTokens: 1_000_000,
		Rates: &moneyv1.Rates{InputPicoUsdPerToken: 1000, PayoutInputPicoUsdPerToken: 1000},
	}
}

// Hostile test 33: a claim that cannot be is a risk that is told once, and no evidence.
func TestUsageReachesEveryReplicaAndAbsurdClaimsAreToldOnce(t *testing.T) {
	t.Parallel()
	for _, bundled := range []bool{false, true} {
		t.Run("bundled="+strconv.FormatBool(bundled), func(t *testing.T) {
			t.Parallel()
			usageReachesEveryReplica(t, bundled)
		})
	}
}

func usageReachesEveryReplica(t *testing.T, bundled bool) {
	t.Helper()
	conn := bustest.New(t)
	one, two := setup(t, conn), setup(t, conn)
	if err := conn.EnsureStream(t.Context(), bus.UsageStream); err != nil {
		t.Fatal(err)
	}
	var absurd atomic.Int64
	for range 2 {
		u := NewUsage(conn, slog.New(slog.DiscardHandler), clock.System,
			func(context.Context, probe.Offer) { absurd.Add(1) })
		run(t, u.Run)
	}
	valid, absurdOne, forged := ids.RequestID{15: 1}, ids.RequestID{15: 2}, ids.RequestID{15: 3}
	var messages [][]byte
	for _, event := range []*eventsv1.UsageEvent{
		usage(forged, "hub-2", eventsv1.ClaimState_CLAIM_STATE_VALID),
		usage(absurdOne, "hub-1", eventsv1.ClaimState_CLAIM_STATE_ABSURD),
		usage(valid, "hub-1", eventsv1.ClaimState_CLAIM_STATE_VALID),
	} {
		data, err := proto.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, data)
	}
	if bundled {
		messages = [][]byte{usagebundle.Join(messages)}
	}
	for i, data := range messages {
		if _, err := conn.PublishStream(t.Context(), bus.SubjectUsage("hub-1"), strconv.Itoa(i), data, nil); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for name, b := range map[string]*bundle{"one": one, "two": two} {
		got, err := b.claims.Wait(ctx, valid)
		if err != nil {
			t.Fatal(err)
		}
		if want := (claims.Claim{Valid: true, Prompt: 11, Output: 12}); got != want {
			t.Errorf("replica %s: got %v, want %v", name, got, want)
		}
		if got, err = b.claims.Wait(ctx, absurdOne); err != nil {
			t.Fatal(err)
		}
		if got.Valid {
			t.Errorf("replica %s: the absurd claim is valid: got true, want false", name)
		}
	}
	if got := absurd.Load(); got != 1 {
		t.Errorf("absurd claims told of: got %d, want 1", got)
	}
	w := one.traffic.Of(probe.Offer{Provider: provider, Model: model}, time.Now())
	if w.PayoutADay <= 0 {
		t.Errorf("payout a day: got %v, want more than 0", w.PayoutADay)
	}
	soon, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, err := one.claims.Wait(soon, forged); err == nil {
		t.Error("another hub's word: got a claim, want none")
	}
}

func TestPenaltiesShapesAndQuestionsAreHeard(t *testing.T) {
	t.Parallel()
	b := setup(t, bustest.New(t))
	id := probe.VerdictID{6: 0x70, 8: 0x80, 15: 9}
	b.say(bus.SubjectPenalty, &eventsv1.PenaltyChanged{PenaltyId: id.String(), State: "reversed", Revision: 3})
	if got, want := wait(t, b.penalties), (Penalty{id, "reversed", 3}); got != want {
		t.Errorf("penalty: got %v, want %v", got, want)
	}
	b.say(bus.SubjectShapes, &eventsv1.ShapeReport{Hour: timestamppb.Now(),
		Shapes: []*eventsv1.ShapeCount{{Streamed: true, PromptLength: 7, Requests: 30}}})
	if got := wait(t, b.shapes)[cover.Shape{Streamed: true, Length: 7}]; got != 30 {
		t.Errorf("requests of the shape: got %d, want 30", got)
	}
	b.say(bus.SubjectTrustSync, &eventsv1.KeyChanged{})
	wait(t, b.synced)
}

// known is a store with reports.
type known struct {
	mu   sync.Mutex
	list []Report
}

func (k *known) set(r Report) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = []Report{r}
}

func (k *known) Report(context.Context, ids.ProviderID) (Report, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.list[0], nil
}

func (k *known) ReportsAfter(context.Context, ids.ProviderID, int) ([]Report, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.list, nil
}

func TestRoutersHearAChangeAtOnceAndTheStreamKeepsTheLast(t *testing.T) {
	t.Parallel()
	conn := bustest.New(t)
	if err := conn.EnsureStream(t.Context(), bus.TrustStream); err != nil {
		t.Fatal(err)
	}
	heard := make(chan *eventsv1.TrustReport, 64)
	sub, err := conn.Subscribe(bus.SubjectTrustAll, "", func(_ context.Context, m bus.Message) {
		r := &eventsv1.TrustReport{}
		if err := proto.Unmarshal(m.Data, r); err != nil {
			t.Error(err)
		}
		heard <- r
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Stop() })
	k := &known{}
	report := Report{Provider: provider, Revision: 4, Opinions: []Opinion{{Model: model, Trust: .9, Lane: trust.Main,
		Revision: 4}}}
	k.set(report)
	r := NewReporter(conn, k, slog.New(slog.DiscardHandler))
	run(t, r.Run)
	if got := wait(t, heard).GetRevision(); got != 4 {
		t.Errorf("at the start: got revision %d, want 4", got)
	}
	r.All()
	if got := wait(t, heard).GetRevision(); got != 4 {
		t.Errorf("asked again: got revision %d, want 4", got)
	}
	report.Revision, report.Opinions = 5, []Opinion{{Model: model, Trust: .4, Lane: trust.Probe, CapTokens: 512,
		GraceUntil: time.Unix(1_700_000_000, 0), Revision: 5}}
	k.set(report)
	r.Changed(provider)
	want := &eventsv1.TrustReport{ProviderId: provider.String(), Revision: 5, Models: []*eventsv1.Trust{{
		ProviderId: provider.String(), ModelId: model, Trust: .4, Lane: eventsv1.Lane_LANE_PROBE,
		MeasuredContextLength: 512, GraceUntil: timestamppb.New(time.Unix(1_700_000_000, 0)), Revision: 5}}}
	if got := wait(t, heard); !proto.Equal(got, want) {
		t.Errorf("the change: got %v, want %v", got, want)
	}
	n, err := conn.ReadLast(t.Context(), bus.TrustStream, func(bus.Message) {})
	if err != nil {
		t.Fatal(err)
	}
	if n != 1 {
		t.Errorf("reports in the stream: got %d, want 1", n)
	}
}

func TestTheStreamIsMadeAgainAfterAServerLostItsStore(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	conn := bustest.Connect(t, server)
	k := &known{}
	k.set(Report{Provider: provider, Revision: 1, Opinions: []Opinion{{Model: model, Trust: 1, Lane: trust.Main,
		Revision: 1}}})
	r := NewReporter(conn, k, slog.New(slog.DiscardHandler))
	r.All()
	if err := r.pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg := server.Config()
	server.Stop()
	cfg.StoreDir = t.TempDir() // wiped
	again, err := natsserver.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Stop)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	r.All()
	for err := r.pass(ctx); err != nil; err = r.pass(ctx) { // it may not be connected yet
		if clock.Sleep(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("publish: got the error %v, want none", err)
		}
		r.All()
	}
	n, err := bustest.Connect(t, again).ReadLast(t.Context(), bus.TrustStream, func(bus.Message) {})
	if err != nil {
		t.Fatal(err)
	}
	if n != 1 {
		t.Errorf("reports in the new stream: got %d, want 1", n)
	}
}

func TestOfTooManyModelsTheRestrictedOnesAreReported(t *testing.T) {
	t.Parallel()
	r := Report{Provider: provider, Revision: 1}
	for n := range MaxReported + 1 {
		r.Opinions = append(r.Opinions, Opinion{Model: strconv.Itoa(n), Trust: 1, Lane: trust.Main, Revision: 1})
	}
	r.Opinions[MaxReported].Lane = trust.Shut
	data, err := encode(r)
	if err != nil {
		t.Fatal(err)
	}
	var got eventsv1.TrustReport
	if err := proto.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if n := len(got.GetModels()); n != MaxReported {
		t.Errorf("models: got %d, want %d", n, MaxReported)
	}
	if first := got.GetModels()[0].GetLane(); first != eventsv1.Lane_LANE_SHUT {
		t.Errorf("the first lane: got %v, want %v", first, eventsv1.Lane_LANE_SHUT)
	}
}
