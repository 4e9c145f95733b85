package events

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/bus/natsserver"
	"svc.internal/pkg/bustest"
	"svc.internal/pkg/clock"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/trust"
)

func word(model string, revision int64, change ...func(*eventsv1.Trust)) *eventsv1.Trust {
	m := &eventsv1.Trust{ProviderId: providerID, ModelId: model, Trust: 0.9, Lane: eventsv1.Lane_LANE_MAIN,
		Revision: revision}
	for _, c := range change {
		c(m)
	}
	return m
}

func closed(m *eventsv1.Trust) { m.Lane = eventsv1.Lane_LANE_SHUT }

func words(revision int64, models ...*eventsv1.Trust) *eventsv1.TrustReport {
	return &eventsv1.TrustReport{ProviderId: providerID, Revision: revision, Models: models}
}

func TestWhatTheVerifierSaysIsTakenOver(t *testing.T) {
	t.Parallel()
	until := time.Unix(1_790_000_000, 0).UTC()
	r, refused, err := trustFromProto(words(7, word("m", 3, closed, func(m *eventsv1.Trust) {
		m.MeasuredContextLength, m.GraceUntil = 4096, timestamppb.New(until)
	})))
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if refused != 0 {
		t.Errorf("refused: got %d, want 0", refused)
	}
	want := trust.Report{Provider: providerID, Revision: 7, Opinions: []trust.Opinion{
		{Model: "m", Trust: 0.9, Lane: trust.Shut, Window: 4096, GraceUntil: until, Revision: 3},
	}}
	if !reflect.DeepEqual(r, want) {
		t.Errorf("got %+v, want %+v", r, want)
	}
	for lane, want := range map[eventsv1.Lane]trust.Lane{
		eventsv1.Lane_LANE_UNSPECIFIED: trust.Main, eventsv1.Lane_LANE_MAIN: trust.Main,
		eventsv1.Lane_LANE_PROBE: trust.Probe, eventsv1.Lane_LANE_SHUT: trust.Shut,
	} {
		got, ok := laneFromProto(lane)
		if !ok {
			t.Errorf("%v: got it refused, want %v", lane, want)
		}
		if got != want {
			t.Errorf("%v: got %v, want %v", lane, got, want)
		}
	}
}

func TestAReportOutOfBoundsIsRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*eventsv1.TrustReport){
		"provider": func(m *eventsv1.TrustReport) { m.ProviderId = "x" },
		"revision": func(m *eventsv1.TrustReport) { m.Revision = 0 },
		"past":     func(m *eventsv1.TrustReport) { m.Revision = -1 },
		"models": func(m *eventsv1.TrustReport) {
			for n := range int64(trust.MaxReported) {
				m.Models = append(m.Models, word(fmt.Sprint(n), 1))
			}
		},
	} {
		m := words(1, word("m", 1))
		spoil(m)
		if _, _, err := trustFromProto(m); err == nil {
			t.Errorf("%s: got a report, want an error", name)
		}
	}
}

// A provider chooses the names of its models, so that one bad name must not hide a verdict.
func TestOneModelOutOfBoundsIsLeftOutAlone(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*eventsv1.Trust){
		"no model":         func(m *eventsv1.Trust) { m.ModelId = "" },
		"a long model":     func(m *eventsv1.Trust) { m.ModelId = strings.Repeat("x", maxModelID+1) },
		"control":          func(m *eventsv1.Trust) { m.ModelId = "a\nb" },
		"another provider": func(m *eventsv1.Trust) { m.ProviderId = "0192f0c0-0000-7000-8000-000000000002" },
		"not a number":     func(m *eventsv1.Trust) { m.Trust = math.NaN() },
		"infinite":         func(m *eventsv1.Trust) { m.Trust = math.Inf(1) },
		"no trust":         func(m *eventsv1.Trust) { m.Trust = 0 },
		"negative trust":   func(m *eventsv1.Trust) { m.Trust = -0.5 },
		"above 1":          func(m *eventsv1.Trust) { m.Trust = math.Nextafter(1, 2) },
		"lane":             func(m *eventsv1.Trust) { m.Lane = 4 },
		"negative lane":    func(m *eventsv1.Trust) { m.Lane = -1 },
		"negative window":  func(m *eventsv1.Trust) { m.MeasuredContextLength = -1 },
		"huge window":      func(m *eventsv1.Trust) { m.MeasuredContextLength = maxWindow + 1 },
		"revision":         func(m *eventsv1.Trust) { m.Revision = 0 },
		"time":             func(m *eventsv1.Trust) { m.GraceUntil = &timestamppb.Timestamp{Nanos: -1} },
		"far time":         func(m *eventsv1.Trust) { m.GraceUntil = &timestamppb.Timestamp{Seconds: math.MaxInt64} },
		"twice":            func(m *eventsv1.Trust) { m.ModelId = "m" },
	} {
		r, refused, err := trustFromProto(words(1, word("m", 1, closed), word("bad", 1, spoil)))
		if err != nil {
			t.Errorf("%s: got the error %v, want none", name, err)
		}
		if refused != 1 {
			t.Errorf("%s: refused: got %d, want 1", name, refused)
		}
		want := []trust.Opinion{{Model: "m", Trust: 0.9, Lane: trust.Shut, Revision: 1}}
		if !slices.Equal(r.Opinions, want) {
			t.Errorf("%s: got %+v, want %+v", name, r.Opinions, want)
		}
	}
}

func FuzzReportsOfTheVerifierStayWithinBounds(f *testing.F) {
	for _, m := range []*eventsv1.TrustReport{words(1, word("m", 1)), words(2, word("m", 1, closed), word("m", 2)), {}} {
		data, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var m eventsv1.TrustReport
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		r, _, err := trustFromProto(&m)
		if err != nil {
			return
		}
		registry := trust.New(func(string) {})
		registry.Apply(r)
		for _, o := range r.Opinions {
			got := registry.Of(r.Provider, o.Model)
			if *got != o {
				t.Fatalf("got %+v, want %+v", *got, o)
			}
			if !(got.Trust > 0 && got.Trust <= 1) {
				t.Fatalf("trust: got %v, want above 0 and at most 1", got.Trust)
			}
			if got.Window < 0 || got.Window > maxWindow {
				t.Fatalf("window: got %d, want 0 to %d", got.Window, maxWindow)
			}
			if got.Revision <= 0 {
				t.Fatalf("revision: got %d, want above 0", got.Revision)
			}
		}
	})
}

func TestReferencesAreNeverActive(t *testing.T) {
	t.Parallel()
	m := goodPresence()
	m.Sessions[0].Reference = true
	r, refused, err := reportFromProto(m)
	if err != nil {
		t.Fatalf("got the error %v, want none", err)
	}
	if refused != 0 {
		t.Fatalf("refused: got %d, want 0", refused)
	}
	if r.Sessions[0].Active {
		t.Error("a reference that a hub calls active: got active, want not")
	}
	v := presence.New(func(string) {})
	v.Apply(r, time.Unix(1, 0))
	for _, seat := range v.Seats("m") {
		if seat.Online() {
			t.Error("its seat: got online, want not")
		}
	}
}

// verifier plays the verifier on a connection.
type verifier struct {
	t    *testing.T
	conn *bus.Conn
}

// publish publishes a report as the verifier does, into the stream.
func (v verifier) publish(m *eventsv1.TrustReport) {
	v.t.Helper()
	data, err := proto.Marshal(m)
	if err == nil {
		_, err = v.conn.PublishStream(v.t.Context(), bus.SubjectTrust(m.GetProviderId()),
			fmt.Sprintf("%s.%d", m.GetProviderId(), m.GetRevision()), data, nil)
	}
	if err != nil {
		v.t.Fatal(err)
	}
}

func newVerifier(t *testing.T, conn *bus.Conn) verifier {
	t.Helper()
	if err := conn.EnsureStream(t.Context(), bus.TrustStream); err != nil {
		t.Fatal(err)
	}
	return verifier{t: t, conn: conn}
}

// listen runs a listener until the test ends. changed gets the models whose lane or window
// changes.
func listen(t *testing.T, conn *bus.Conn) (l *TrustListener, said *trust.Registry, changed chan string) {
	t.Helper()
	changed = make(chan string, 1024)
	said = trust.New(func(m string) { changed <- m })
	l = NewTrustListener(TrustListenerDeps{Bus: conn, Trust: said, Clock: clock.System,
		Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l, said, changed
}

// await returns what comes, or fails after a time that only a hanging test takes.
func await[T any](t *testing.T, what string, from <-chan T) (got T) {
	t.Helper()
	select {
	case got = <-from:
	case <-time.After(90 * time.Second):
		t.Fatalf("never came: %s", what)
	}
	return got
}

func TestAListenerThatStartsWithoutAVerifierKnowsWhatWasSaid(t *testing.T) {
	t.Parallel()
	server := bustest.NewServer(t)
	v := newVerifier(t, bustest.Connect(t, server))
	v.publish(words(1, word("m", 1)))
	v.publish(words(2, word("m", 2, closed), word("capped", 1, func(m *eventsv1.Trust) { m.MeasuredContextLength = 500 })))
	const others = 300
	for n := range others {
		other := words(1, word("m", 1, closed))
		other.ProviderId = fmt.Sprintf("0192f0c0-0000-7000-8000-%012x", 0x1000+n)
		other.Models[0].ProviderId = other.ProviderId
		v.publish(other)
	}
	v.conn.Close()
	server.Stop() // the server starts again, too, with nobody to say anything again
	elsewhere := server.Config()
	elsewhere.Port = 0 // another process may have taken the old one
	again, err := natsserver.Start(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Stop)
	l, said, _ := listen(t, bustest.Connect(t, again))
	await(t, "the end of the reading", l.Read())
	if !said.Shut(providerID, "m") {
		t.Error("the model that was shut: got open, want shut")
	}
	if got := said.Of(providerID, "capped").Window; got != 500 {
		t.Errorf("the measured window: got %d, want 500", got)
	}
	if got := said.Pairs()[trust.Shut]; got != others+1 {
		t.Errorf("models that are shut: got %d, want %d", got, others+1)
	}
}

func TestAListenerHearsNewReportsAndIgnoresOlderOnes(t *testing.T) {
	t.Parallel()
	conn := bustest.New(t)
	v := newVerifier(t, conn)
	l, said, changed := listen(t, conn)
	await(t, "the end of the reading", l.Read())
	v.publish(words(5, word("m", 5, closed)))
	await(t, "the model shuts", changed)
	v.publish(words(4, word("m", 4)))
	v.publish(words(5, word("m", 5)))
	v.publish(words(6, word("m", 5, closed), word("n", 1)))
	if got := await(t, "the next model opens", changed); got != "n" {
		t.Errorf("the next change: got %q, want %q", got, "n")
	}
	if !said.Shut(providerID, "m") {
		t.Error("after older reports: got open, want shut")
	}
	v.publish(words(7, word("m", 6), word("n", 1)))
	await(t, "the model opens", changed)
	if said.Shut(providerID, "m") {
		t.Error("after a newer report: got shut, want open")
	}
}

func TestAListenerAsksForReportsAtItsStart(t *testing.T) {
	t.Parallel()
	conn := bustest.New(t)
	asked := make(chan struct{}, 64)
	sub, err := conn.Subscribe(bus.SubjectTrustSync, "", func(context.Context, bus.Message) { asked <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Stop() })
	listen(t, conn)
	await(t, "the question", asked)
}

func TestHostileReportsChangeNothingAndAreCounted(t *testing.T) {
	t.Parallel()
	conn := bustest.New(t)
	v := newVerifier(t, conn)
	l, said, changed := listen(t, conn)
	await(t, "the end of the reading", l.Read())
	v.publish(words(1, word("m", 1, closed)))
	await(t, "the model shuts", changed)
	send := func(subject string, data []byte) {
		t.Helper()
		if err := conn.Publish(t.Context(), subject, data, nil); err != nil {
			t.Fatal(err)
		}
	}
	encode := func(m proto.Message) []byte {
		t.Helper()
		data, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	own := bus.SubjectTrust(providerID)
	send(own, []byte{0xff})
	send(own, append(encode(words(9, word("m", 9))), make([]byte, maxTrustReport)...))
	send(bus.SubjectTrust("0192f0c0-0000-7000-8000-000000000002"), encode(words(9, word("m", 9))))
	send(own, encode(words(9, word("m", 9, func(m *eventsv1.Trust) { m.Trust = math.NaN() }))))
	large := words(9)
	for n := range int64(trust.MaxReported + 1) {
		large.Models = append(large.Models, word(fmt.Sprint(n), 9))
	}
	send(own, encode(large))
	v.publish(words(10, word("last", 1))) // comes after all of them
	for await(t, "the last report", changed) != "last" {
	}
	if !said.Shut(providerID, "m") {
		t.Error("the model that was shut: got open, want shut")
	}
	if got := l.Refused(); got != 5 {
		t.Errorf("refused: got %d, want 5", got)
	}
}

// A server without room for the stream has none, and what is said is heard all the same.
func TestWithoutTheStreamAListenerKnowsWhatItHears(t *testing.T) {
	t.Parallel()
	server, err := natsserver.Start(natsserver.Config{StoreDir: t.TempDir(), MaxStore: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	conn := bustest.Connect(t, server)
	asked := make(chan struct{}, 64)
	sub, err := conn.Subscribe(bus.SubjectTrustSync, "", func(context.Context, bus.Message) { asked <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Stop() })
	l, said, changed := listen(t, conn)
	await(t, "the question", asked)
	data, err := proto.Marshal(words(1, word("m", 1, closed)))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Publish(t.Context(), bus.SubjectTrust(providerID), data, nil); err != nil {
		t.Fatal(err)
	}
	await(t, "the model shuts", changed)
	if !said.Shut(providerID, "m") {
		t.Error("what was heard: got open, want shut")
	}
	select {
	case <-l.Read():
		t.Error("the reading: got done, want none without a stream")
	default:
	}
}

func TestAReadingIsTriedAgainAfterAPauseAndOnceAfterEachConnection(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000, 0)
	var r reading
	r.begin()
	if !r.due(now) {
		t.Fatal("after a connection: got not due, want due")
	}
	r.ended(false, now)
	if r.due(now.Add(readPause - 1)) {
		t.Error("right after a failure: got due, want a pause")
	}
	if !r.due(now.Add(readPause)) {
		t.Error("after the pause: got not due, want due")
	}
	r.ended(true, now)
	if r.due(now.Add(time.Hour)) {
		t.Error("after it was read: got due, want never again")
	}
	r.begin()
	if !r.due(now) {
		t.Error("after the next connection: got not due, want due")
	}
}
