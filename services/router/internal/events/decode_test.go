package events

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/router/internal/pick"
	"svc.internal/services/router/internal/presence"
)

const providerID = "0192f0c0-0000-7000-8000-000000000001"

func goodPresence() *eventsv1.Presence {
	return &eventsv1.Presence{
		HubId: "hub", Incarnation: 1, DispatchAddress: "127.0.0.1:1", Revision: 3, Full: true, Parts: 1,
		Sessions: []*eventsv1.Session{{
			ProviderId: providerID, ProviderName: "P", NodeId: "n", Epoch: 7, Active: true,
			ConnectionMode: eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET,
			Models: []*eventsv1.ModelOffer{{ModelId: "m", Healthy: true, ReportedContextLength: 4096, Capacity: 4,
				InFlight: 1}},
			Capabilities: []string{"stream", "chat"}, MaxRequestBytes: 1 << 20,
		}},
	}
}

func TestOneSessionOutOfBoundsIsLeftOutAlone(t *testing.T) {
	for name, spoil := range map[string]func(*eventsv1.Session){
		"provider": func(s *eventsv1.Session) { s.ProviderId = "x" },
		"name":     func(s *eventsv1.Session) { s.ProviderName = strings.Repeat("x", maxText+1) },
		"control":  func(s *eventsv1.Session) { s.NodeId = "a\nb" },
		"epoch":    func(s *eventsv1.Session) { s.Epoch = 0 },
		"mode":     func(s *eventsv1.Session) { s.ConnectionMode = 0 },
		"below":    func(s *eventsv1.Session) { s.ConnectionMode = -1 },
		"body":     func(s *eventsv1.Session) { s.MaxRequestBytes = -1 },
		"twice":    func(s *eventsv1.Session) { s.Models = append(s.Models, s.Models[0]) },

		"in flight":  func(s *eventsv1.Session) { s.Models[0].InFlight = -1 },
		"capability": func(s *eventsv1.Session) { s.Capabilities[0] = "" },
		"models": func(s *eventsv1.Session) {
			s.Models = make([]*eventsv1.ModelOffer, presence.MaxModels+1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := goodPresence()
			bad := proto.CloneOf(m.GetSessions()[0])
			spoil(bad)
			m.Sessions = append(m.Sessions, bad)
			r, refused, err := reportFromProto(m)
			switch {
			case err != nil:
				t.Errorf("got the error %v, want none", err)
			case refused != 1:
				t.Errorf("refused: got %d, want 1", refused)
			case len(r.Sessions) != 1:
				t.Errorf("len(r.Sessions): got %d, want 1", len(r.Sessions))
			}
		})
	}
}

func TestAMessageOutOfBoundsIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*eventsv1.Presence){
		"hub":         func(m *eventsv1.Presence) { m.HubId = strings.Repeat("h", maxHubID+1) },
		"address":     func(m *eventsv1.Presence) { m.DispatchAddress = "" },
		"incarnation": func(m *eventsv1.Presence) { m.Incarnation = 0 },
		"sessions":    func(m *eventsv1.Presence) { m.Sessions = make([]*eventsv1.Session, maxSessions+1) },
		"ended":       func(m *eventsv1.Presence) { m.EndedEpochs = make([]int64, maxEnded+1) },
	} {
		m := goodPresence()
		spoil(m)
		if _, _, err := reportFromProto(m); err == nil {
			t.Errorf("a message with a bad %s was read", name)
		}
	}
}

func TestOutcomesThatSayNothingOfHealthAreNeutral(t *testing.T) {
	for outcome := range eventsv1.AttemptOutcome_name {
		want := pick.Neutral
		switch eventsv1.AttemptOutcome(outcome) {
		case eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_SERVED:
			want = pick.Served
		case eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_FAILED:
			want = pick.Failed
		case eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_BUSY:
			want = pick.TurnedAway
		default:
		}
		a, ok := attemptFromProto(&eventsv1.Attempt{RequestId: "r", ProviderId: providerID, ModelId: "m",
			Outcome: eventsv1.AttemptOutcome(outcome), DurationMs: -5, FirstContentMs: 1 << 60})
		switch {
		case !ok:
			t.Errorf("outcome %d: ok of attemptFromProto(…): got false, want true", outcome)
		case a.Outcome != want:
			t.Errorf("outcome %d: a.Outcome: got %d, want %d", outcome, a.Outcome, want)
		case a.Duration != 0:
			t.Errorf("outcome %d: a.Duration: got %v, want 0", outcome, a.Duration)
		case a.FirstContent != 0:
			t.Errorf("outcome %d: a.FirstContent: got %v, want 0", outcome, a.FirstContent)
		}
	}
}

func TestWhatASessionSaysOfItselfIsTakenOver(t *testing.T) {
	m := goodPresence()
	s, up := m.GetSessions()[0], 0.875
	s.Capacity, s.ReportedActive, s.ReportedQueued, s.Probation, s.TakesWarmups, s.Uptime_30D = 50, 3, 4, true, true, &up
	r, _, err := reportFromProto(m)
	if err != nil {
		t.Fatal(err)
	}
	switch got := r.Sessions[0]; {
	case got.Capacity != 50:
		t.Errorf("Capacity: got %d, want 50", got.Capacity)
	case got.Said != 7:
		t.Errorf("Said: got %d, want 7", got.Said)
	case !got.Probation:
		t.Error("Probation: got false, want true")
	case !got.TakesWarmups:
		t.Error("TakesWarmups: got false, want true")
	case !got.UptimeKnown:
		t.Error("UptimeKnown: got false, want true")
	case got.Uptime != up:
		t.Errorf("Uptime: got %v, want %v", got.Uptime, up)
	}
}

// A later hub may know modes that this release does not.
func TestNoModeOfASessionIsDropped(t *testing.T) {
	for mode, tier := range map[eventsv1.ConnectionMode]presence.Tier{
		eventsv1.ConnectionMode_CONNECTION_MODE_WEBSOCKET: presence.FirstTier,
		eventsv1.ConnectionMode_CONNECTION_MODE_EXTERNAL:  presence.SecondTier,
		9: presence.SecondTier, math.MaxInt32: presence.SecondTier,
	} {
		m := goodPresence()
		m.GetSessions()[0].ConnectionMode, m.GetSessions()[0].Vendor = mode, true
		r, refused, err := reportFromProto(m)
		if err != nil {
			t.Fatalf("mode %d: got the error %v, want none", mode, err)
		}
		if refused != 0 {
			t.Fatalf("mode %d: refused: got %d, want 0", mode, refused)
		}
		if got := r.Sessions[0].Mode; got != presence.Mode(mode) {
			t.Errorf("mode %d: got %d, want it kept", mode, got)
		}
		if got := r.Sessions[0].Tier(); got != tier {
			t.Errorf("mode %d: tier: got %d, want %d", mode, got, tier)
		}
		if !r.Sessions[0].Vendor {
			t.Errorf("mode %d: vendor: got false, want true", mode)
		}
	}
}

func TestAbsurdNumbersAreBroughtToWhatCanBe(t *testing.T) {
	for _, tc := range []struct {
		active, queued int32
		uptime         float64
		said           int
	}{
		{math.MaxInt32, math.MaxInt32, math.NaN(), 2 * maxSaid},
		{math.MinInt32, -1, -0.1, 0},
		{-7, 2, math.Inf(1), 2},
	} {
		m := goodPresence()
		s := m.GetSessions()[0]
		s.Capacity, s.ReportedActive, s.ReportedQueued, s.Uptime_30D = -1, tc.active, tc.queued, &tc.uptime
		r, refused, err := reportFromProto(m)
		if err != nil {
			t.Fatalf("got the error %v, want none", err)
		}
		if refused != 0 {
			t.Fatalf("refused: got %d, want 0", refused)
		}
		switch got := r.Sessions[0]; {
		case got.Said != tc.said:
			t.Errorf("%+v: Said: got %d, want %d", tc, got.Said, tc.said)
		case got.Capacity != 0:
			t.Errorf("%+v: Capacity: got %d, want 0", tc, got.Capacity)
		case got.UptimeKnown:
			t.Errorf("%+v: UptimeKnown: got true, want false", tc)
		case got.Uptime != 0:
			t.Errorf("%+v: Uptime: got %v, want 0", tc, got.Uptime)
		}
	}
}

func TestAWarmUpNamesANodeAProviderOrAll(t *testing.T) {
	for name, tc := range map[string]struct {
		m  *eventsv1.WarmUp
		ok bool
	}{
		"node":      {&eventsv1.WarmUp{ModelId: "m", ProviderId: providerID, NodeId: "n"}, true},
		"provider":  {&eventsv1.WarmUp{ModelId: "m", ProviderId: providerID}, true},
		"all":       {&eventsv1.WarmUp{ModelId: "m"}, true},
		"no model":  {&eventsv1.WarmUp{ProviderId: providerID, NodeId: "n"}, false},
		"no owner":  {&eventsv1.WarmUp{ModelId: "m", NodeId: "n"}, false},
		"malformed": {&eventsv1.WarmUp{ModelId: "m", ProviderId: "x", NodeId: "n"}, false},
		"too long":  {&eventsv1.WarmUp{ModelId: strings.Repeat("m", maxModelID+1)}, false},
	} {
		switch got, ok := targetFromProto(tc.m); {
		case ok != tc.ok:
			t.Errorf("%s: ok: got %t, want %t", name, ok, tc.ok)
		case ok && got.Model != "m":
			t.Errorf(`%s: Model: got %q, want "m"`, name, got.Model)
		case ok && got.Provider != tc.m.GetProviderId():
			t.Errorf("%s: Provider: got %q, want %q", name, got.Provider, tc.m.GetProviderId())
		}
	}
}

func FuzzWarmUp(f *testing.F) {
	seed, err := proto.Marshal(&eventsv1.WarmUp{ModelId: "m", ProviderId: providerID, NodeId: "n"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{0x0a, 0x01})
	f.Fuzz(func(t *testing.T, data []byte) {
		var m eventsv1.WarmUp
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		switch got, ok := targetFromProto(&m); {
		case ok && got.Model == "":
			t.Fatal(`out of bounds: Model: got "", want some text`)
		case ok && len(got.Model) > maxModelID:
			t.Fatalf("out of bounds: len(got.Model): got %d, want at most %d, in %+v", len(got.Model), maxModelID, got)
		case ok && len(got.Node) > maxText:
			t.Fatalf("out of bounds: len(got.Node): got %d, want at most %d, in %+v", len(got.Node), maxText, got)
		}
	})
}

func FuzzPresence(f *testing.F) {
	seed, err := proto.Marshal(goodPresence())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		var m eventsv1.Presence
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		r, _, err := reportFromProto(&m)
		if err != nil {
			return
		}
		v := presence.New(func(string) {})
		now := time.Unix(1, 0)
		v.Apply(r, now)
		v.Apply(r, now)
		for _, s := range r.Sessions {
			switch {
			case s.Said < 0 || s.Said > 2*maxSaid:
				t.Fatalf("numbers out of bounds: s.Said: got %d, want 0 to %d", s.Said, 2*maxSaid)
			case s.Capacity < 0:
				t.Fatalf("numbers out of bounds: s.Capacity: got %d, want at least 0", s.Capacity)
			case !(s.Uptime >= 0 && s.Uptime <= 1):
				t.Fatal("numbers out of bounds: s.Uptime >= 0 && s.Uptime <= 1: got false, want true")
			}
		}
		for _, model := range v.Models() {
			for _, s := range v.Seats(model) {
				switch {
				case s.Session.Provider == "":
					t.Fatal(`a seat out of bounds: s.Session.Provider: got "", want some text`)
				case s.Session.Epoch <= 0:
					t.Fatalf("a seat out of bounds: s.Session.Epoch: got %d, want more than 0", s.Session.Epoch)
				case len(s.Session.Offers) > presence.MaxModels:
					t.Fatalf("a seat out of bounds: len(s.Session.Offers): got %d, want at most %d", len(s.Session.Offers),
						presence.MaxModels)
				}
			}
		}
		v.Expire(now.Add(presence.Expiry))
		if n, _, _ := v.Size(); n != 0 {
			t.Fatalf("sessions left after their time: got %d, want 0", n)
		}
	})
}

func FuzzAttempt(f *testing.F) {
	seed, err := proto.Marshal(&eventsv1.Attempt{RequestId: "r", ProviderId: providerID, ModelId: "m", DurationMs: 5})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var m eventsv1.Attempt
		if proto.Unmarshal(data, &m) != nil {
			return
		}
		switch a, ok := attemptFromProto(&m); {
		case ok && a.Duration < 0:
			t.Fatalf("out of bounds: a.Duration: got %v, want at least 0", a.Duration)
		case ok && a.Duration > time.Hour:
			t.Fatalf("out of bounds: a.Duration: got %v, want at most %v", a.Duration, time.Hour)
		case ok && len(a.Model) > maxModelID:
			t.Fatalf("out of bounds: len(a.Model): got %d, want at most %d, in %+v", len(a.Model), maxModelID, a)
		case ok && len(a.Request) > maxShortText:
			t.Fatalf("out of bounds: len(a.Request): got %d, want at most %d, in %+v", len(a.Request), maxShortText, a)
		case ok && a.Prompt < 0:
			t.Fatalf("out of bounds: a.Prompt: got %d, want at least 0", a.Prompt)
		case ok && a.Prompt > maxWindow:
			t.Fatalf("out of bounds: a.Prompt: got %d, want at most %d", a.Prompt, maxWindow)
		case ok && a.Blocked < 0:
			t.Fatalf("out of bounds: a.Blocked: got %v, want at least 0", a.Blocked)
		case ok && a.Blocked > time.Hour:
			t.Fatalf("out of bounds: a.Blocked: got %v, want at most %v", a.Blocked, time.Hour)
		case ok && !a.Probe && a.Request == "":
			t.Fatal(`out of bounds: a.Request: got "", want some text, where !a.Probe`)
		}
	})
}

func TestAnAbsurdWindowRemovesNoModel(t *testing.T) {
	m := goodPresence()
	m.GetSessions()[0].Models[0].ReportedContextLength = math.MaxInt64
	r, refused, err := reportFromProto(m)
	if err != nil || refused != 0 {
		t.Fatalf("got %d refused and %v, want the session taken", refused, err)
	}
	if got := r.Sessions[0].Offers[0].Window; got != maxWindow {
		t.Errorf("got a window of %d, want %d", got, maxWindow)
	}
}

func TestAWarmUpsOutcomeNeedsNoRequestAndAnAttemptDoes(t *testing.T) {
	served := eventsv1.AttemptOutcome_ATTEMPT_OUTCOME_SERVED
	if a, ok := attemptFromProto(&eventsv1.Attempt{Probe: true, ProviderId: providerID, ModelId: "m",
		Outcome: served}); !ok || !a.Probe {
		t.Errorf("got %+v and %v, want a probe", a, ok)
	}
	if _, ok := attemptFromProto(&eventsv1.Attempt{ProviderId: providerID, ModelId: "m", Outcome: served}); ok {
		t.Error("got an attempt of no request, want it refused")
	}
}

func TestAnAccountTagHasEightBytesOrNone(t *testing.T) {
	for length, want := range map[int]bool{0: true, 1: false, 7: false, 8: true, 9: false, 1 << 16: false} {
		_, ok := attemptFromProto(&eventsv1.Attempt{RequestId: "r", ProviderId: providerID, ModelId: "m",
			AccountTag: make([]byte, length)})
		if ok != want {
			t.Errorf("%d bytes: got read %v, want %v", length, ok, want)
		}
	}
}
