package events

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/window"
)

const (
	stormSessions = 10_000
	stormPart     = 500
	// stormModels are served in all, stormOffers of them by each session.
	stormModels = 40
	stormOffers = 3
	// maxPerSession is the router's part of what a connected agent may cost, in
	// bytes.
	maxPerSession = 4 << 10
)

// storm plays a hub with 10,000 agents of dialect v1.
type storm struct {
	revision uint64
	epoch    int64
	epochs   []int64
}

func newStorm() *storm {
	s := &storm{}
	for range stormSessions {
		s.epoch++
		s.epochs = append(s.epochs, s.epoch)
	}
	return s
}

// session is what a v1 agent looks like to a router.
func (s *storm) session(n int) *eventsv1.Session {
	up := 0.97
	m := &eventsv1.Session{
		ProviderId: fmt.Sprintf("0192f0c0-0000-7000-8000-%012x", n/2), ProviderName: fmt.Sprintf("GPU owner number %d", n/2),
		NodeId: fmt.Sprintf("v1-%032x", n), Epoch: s.epochs[n], Active: true,
		ConnectionMode: eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET,
		Capabilities:   []string{"chat", "stream", "logprobs"}, MaxRequestBytes: 1_047_552, Region: "eu-central",
		Capacity: 50, ReportedActive: int32(n % 3), TakesWarmups: true, Uptime_30D: &up,
	}
	for i := range stormOffers {
		m.Models = append(m.Models, &eventsv1.ModelOffer{
			ModelId: fmt.Sprintf("vendor/Some-Model-%02d-Instruct", (n+i*7)%stormModels), Healthy: true,
			ReportedContextLength: 32_768, Capacity: 10, InFlight: int32(n % 2), Quantization: "fp16",
		})
	}
	return m
}

// message is what travels.
func (s *storm) message(t testing.TB, m *eventsv1.Presence) []byte {
	t.Helper()
	s.revision++
	m.HubId, m.Incarnation, m.DispatchAddress, m.Revision = "hub", 1, "10.0.0.1:9000", s.revision
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// report is everything in parts.
func (s *storm) report(t testing.TB) [][]byte {
	t.Helper()
	var out [][]byte
	for part := range stormSessions / stormPart {
		m := &eventsv1.Presence{Full: true, Part: uint32(part), Parts: stormSessions / stormPart}
		for n := part * stormPart; n < (part+1)*stormPart; n++ {
			m.Sessions = append(m.Sessions, s.session(n))
		}
		out = append(out, s.message(t, m))
	}
	return out
}

// churn is n sessions that end and come back with a new epoch, one after the
// other, a hub's batch of 20 at a time.
func (s *storm) churn(t testing.TB, n int) [][]byte {
	t.Helper()
	const batch = 20
	var out [][]byte
	for from := 0; from < n; from += batch {
		ended, joined := &eventsv1.Presence{}, &eventsv1.Presence{}
		for i := from; i < from+batch; i++ {
			ended.EndedEpochs = append(ended.EndedEpochs, s.epochs[i])
			s.epoch++
			s.epochs[i] = s.epoch
			joined.Sessions = append(joined.Sessions, s.session(i))
		}
		out = append(out, s.message(t, ended), s.message(t, joined))
	}
	return out
}

// take applies messages as the listener does.
func take(t testing.TB, v *presence.View, messages [][]byte, now time.Time) {
	t.Helper()
	for _, data := range messages {
		var m eventsv1.Presence
		if err := proto.Unmarshal(data, &m); err != nil {
			t.Fatal(err)
		}
		r, refused, err := reportFromProto(&m)
		if err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
		if refused > 0 {
			t.Fatalf("refused: got %d, want 0", refused)
		}
		v.Apply(r, now)
	}
}

// heap is what is in use once garbage is gone.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestAStormOfSessionsStaysWithinItsMemory(t *testing.T) {
	s, now := newStorm(), time.Unix(1_790_000_000, 0)
	before := heap()
	v := presence.New(func(string) {})
	take(t, v, s.report(t), now)
	fresh := int64(heap()-before) / stormSessions
	for round := range 2 {
		take(t, v, s.churn(t, stormSessions), now.Add(time.Duration(round)*time.Second))
		take(t, v, s.report(t), now.Add(time.Duration(round)*time.Second))
	}
	after := int64(heap()-before) / stormSessions
	t.Logf("%d bytes a session at first, %d after two storms", fresh, after)
	if n, _, dropped := v.Size(); n != stormSessions {
		t.Errorf("v.Size(): got %d, want %d", n, stormSessions)
	} else if dropped != 0 {
		t.Errorf("dropped: got %d, want 0", dropped)
	}
	if fresh > maxPerSession {
		t.Errorf("%d bytes a session at first, %d after two storms; at most %d: fresh: got %d, want at most %d", fresh, after,
			maxPerSession, fresh, maxPerSession)
	} else if after > maxPerSession {
		t.Errorf("%d bytes a session at first, %d after two storms; at most %d: after: got %d, want at most %d", fresh, after,
			maxPerSession, after, maxPerSession)
	}
	seats := 0
	for _, m := range v.Models() {
		seats += len(v.Seats(m))
	}
	if seats != stormSessions*stormOffers {
		t.Errorf("seats: got %d, want %d", seats, stormSessions*stormOffers)
	}
}

// BenchmarkStorm reports what the view of 10,000 agents weighs, alone and with the
// full health of all that they serve, and how long it takes to build it anew, to
// hear it confirmed, and to go through 10,000 agents that leave and come back in
// batches of 20.
func BenchmarkStorm(b *testing.B) {
	now := time.Unix(1_790_000_000, 0)
	b.Run("rebuild", func(b *testing.B) {
		messages := newStorm().report(b)
		var v *presence.View
		before := heap()
		for b.Loop() {
			v = presence.New(func(string) {})
			take(b, v, messages, now)
		}
		b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms")
		b.ReportMetric(float64(heap()-before)/stormSessions, "bytes/session")
		runtime.KeepAlive(v)
	})
	b.Run("health", func(b *testing.B) {
		messages := newStorm().report(b)
		var v *presence.View
		var known *health.Registry
		before := heap()
		for b.Loop() {
			v, known = presence.New(func(string) {}), health.New()
			take(b, v, messages, now)
			for _, model := range v.Models() {
				for _, seat := range v.Seats(model) {
					rec := known.Get(health.Pair{Provider: seat.Session.Provider, Model: model})
					for range window.MaxSamples {
						rec.Window.Record(window.Sample{At: now, Served: true, FirstContent: time.Second, TokensPerSecond: 40})
					}
				}
			}
		}
		b.ReportMetric(float64(heap()-before)/stormSessions, "bytes/session")
		runtime.KeepAlive(v)
		runtime.KeepAlive(known)
	})
	b.Run("confirm", func(b *testing.B) {
		s, v := newStorm(), presence.New(func(string) {})
		take(b, v, s.report(b), now)
		for b.Loop() {
			b.StopTimer()
			messages := s.report(b)
			b.StartTimer()
			take(b, v, messages, now)
		}
		b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms")
	})
	b.Run("churn", func(b *testing.B) {
		s, v := newStorm(), presence.New(func(string) {})
		take(b, v, s.report(b), now)
		for b.Loop() {
			b.StopTimer()
			messages := s.churn(b, stormSessions)
			b.StartTimer()
			take(b, v, messages, now)
		}
		b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms")
	})
}
