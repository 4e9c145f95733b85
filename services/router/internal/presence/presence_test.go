package presence

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newView() *View { return New(func(string) {}) }

// on is a session of a provider's node that serves models.
func on(provider, node string, epoch int64, models ...string) Session {
	s := Session{Provider: provider, Node: node, Epoch: epoch, Active: true}
	for _, m := range models {
		s.Offers = append(s.Offers, Offer{Model: m, Healthy: true, Window: epoch * 100, Capacity: 4})
	}
	return s
}

func delta(hub string, revision uint64, sessions ...Session) Report {
	return Report{Hub: hub, Incarnation: 1, Address: hub, Revision: revision, Sessions: sessions}
}

func full(hub string, revision uint64, sessions ...Session) Report {
	r := delta(hub, revision, sessions...)
	r.Full, r.Parts = true, 1
	return r
}

// seen is the view as a reader has it: per model, who serves where and what.
func seen(v *View) map[string][]string {
	out := map[string][]string{}
	for _, m := range v.Models() {
		for _, s := range v.Seats(m) {
			load, limit := s.Slots.Usage(start)
			out[m] = append(out[m], fmt.Sprint(s.Session.Provider, s.Session.Node, s.Session.Epoch, s.Hub,
				s.Session.Active, s.Session.Draining, s.Offer.Healthy, s.Offer.Window, load, limit))
		}
		slices.Sort(out[m])
	}
	return out
}

func expect(t *testing.T, v *View, model string, epochs ...int64) {
	t.Helper()
	var got []int64
	for _, s := range v.Seats(model) {
		got = append(got, s.Session.Epoch)
	}
	slices.Sort(got)
	if !slices.Equal(got, epochs) {
		t.Errorf("model %s is served: got %v, want %v", model, got, epochs)
	}
}

func TestTheNewestEpochOfANodeServes(t *testing.T) {
	v := newView()
	v.Apply(delta("a", 1, on("p", "n", 7, "m")), start)
	v.Apply(delta("b", 1, on("p", "n", 5, "m")), start)
	v.Apply(delta("b", 2, on("p", "other", 6, "m")), start)
	expect(t, v, "m", 6, 7)
	v.Apply(Report{Hub: "a", Incarnation: 1, Revision: 2, Ended: []int64{7}}, start)
	expect(t, v, "m", 5, 6)
}

func TestTheSeatsOfAProviderAreThoseInTheList(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	v := newView()
	for revision := range uint64(2_000) {
		epoch := int64(revision)/50*10 + random.Int64N(40) // a session that has ended never comes back
		provider := fmt.Sprint("p", epoch%5)
		r := delta(fmt.Sprint("h", epoch%3), revision+1, on(provider, fmt.Sprint("n", epoch%7), epoch,
			[]string{"m", "k"}[:1+random.IntN(2)]...))
		if random.IntN(4) == 0 {
			r.Sessions, r.Ended = nil, []int64{epoch}
		}
		v.Apply(r, start)
		for _, model := range []string{"m", "k", "none"} {
			var want []*Seat
			for _, s := range v.Seats(model) {
				if s.Session.Provider == "p1" || s.Session.Provider == "p3" {
					want = append(want, s)
				}
			}
			got := v.Of(model, "p3", "p1", "p3", "nobody")
			if len(got) != len(want) || slices.ContainsFunc(got, func(s *Seat) bool { return !slices.Contains(want, s) }) {
				t.Fatalf("revision %d, model %s: %d seats, want %d", revision, model, len(got), len(want))
			}
		}
	}
}

func TestAFullReportRemovesWhatItDoesNotName(t *testing.T) {
	v := newView()
	v.Apply(full("a", 1, on("p", "1", 1, "m"), on("p", "2", 2, "m")), start)
	v.Apply(delta("a", 5, on("p", "3", 3, "m")), start)
	part := full("a", 3, on("p", "1", 1, "m"))
	part.Parts = 2
	if v.Apply(part, start) {
		t.Fatal("complete after one part of two")
	}
	expect(t, v, "m", 1, 2, 3)
	part = full("a", 4, on("p", "4", 4, "m"))
	part.Part, part.Parts = 1, 2
	if !v.Apply(part, start) {
		t.Fatal("not complete after both parts")
	}
	expect(t, v, "m", 1, 3, 4) // 3 was named by something newer
	v.Apply(delta("a", 2, on("p", "2", 2, "m")), start)
	expect(t, v, "m", 1, 3, 4) // older than the report: says nothing
}

func TestANewIncarnationReplacesTheOldOne(t *testing.T) {
	v := newView()
	v.Apply(delta("a", 9, on("p", "1", 1, "m")), start)
	restarted := delta("a", 1, on("p", "2", 2, "m"))
	restarted.Incarnation = 2
	v.Apply(restarted, start)
	expect(t, v, "m", 2)
	v.Apply(delta("a", 10, on("p", "1", 1, "m")), start)
	expect(t, v, "m", 2)
}

func TestAnEndedSessionNeverComesBack(t *testing.T) {
	v := newView()
	v.Apply(Report{Hub: "a", Incarnation: 1, Revision: 2, Ended: []int64{1}}, start)
	v.Apply(delta("a", 1, on("p", "1", 1, "m")), start)
	expect(t, v, "m")
	if v.Knows("p") {
		t.Error("a provider without sessions is known")
	}
}

func TestUnconfirmedSessionsExpire(t *testing.T) {
	v := newView()
	v.Apply(delta("a", 1, on("p", "1", 1, "m"), on("p", "2", 2, "m")), start)
	v.Apply(delta("a", 2, on("p", "2", 2, "m")), start.Add(Expiry/2))
	v.Expire(start.Add(Expiry - 1))
	expect(t, v, "m", 1, 2)
	v.Expire(start.Add(Expiry))
	expect(t, v, "m", 2)
	v.Expire(start.Add(2 * Expiry))
	if n, hubs, _ := v.Size(); n != 0 {
		t.Errorf("%d sessions of %d hubs are left: v.Size(): got %d, want 0", n, hubs, n)
	} else if hubs != 0 {
		t.Errorf("%d sessions of %d hubs are left: hubs: got %d, want 0", n, hubs, hubs)
	} else if got := len(v.Models()); got != 0 {
		t.Errorf("%d sessions of %d hubs are left: len(v.Models()): got %d, want 0", n, hubs, got)
	}
}

func TestWhatCouldNotBeHeardDoesNotExpire(t *testing.T) {
	v := newView()
	v.Apply(delta("a", 1, on("p", "1", 1, "m")), start)
	v.Confirm(start.Add(5 * Expiry)) // the bus was away until now
	v.Expire(start.Add(6*Expiry - 1))
	expect(t, v, "m", 1)
	v.Expire(start.Add(6 * Expiry))
	expect(t, v, "m")
}

func TestAReportOfLoadAloneReplacesNoSeat(t *testing.T) {
	v := newView()
	s := on("p", "1", 1, "m")
	v.Apply(delta("a", 1, s), start)
	before := v.Seats("m")[0]
	s.Offers[0].InFlight = 3
	v.Apply(delta("a", 2, s), start)
	if v.Seats("m")[0] != before {
		t.Error("a seat was replaced although only its load changed")
	}
	if load, _ := before.Slots.Usage(start); load != 3 {
		t.Errorf("load: got %d, want 3", load)
	}
}

func TestModelsComeAndGoWithinASession(t *testing.T) {
	v := newView()
	v.Apply(delta("a", 1, on("p", "1", 1, "m", "gone")), start)
	v.Seats("m")[0].Slots.Book("r", start)
	v.Apply(delta("a", 2, on("p", "1", 1, "new", "m")), start)
	expect(t, v, "gone")
	expect(t, v, "new", 1)
	if load, _ := v.Seats("m")[0].Slots.Usage(start); load != 1 {
		t.Errorf("bookings after another model changed: got %d, want 1", load)
	}
	if got, want := v.Find("p", "1", 1, "m"), v.Seats("m")[0]; got != want {
		t.Errorf(`seats that Find tells apart: v.Find("p", "1", 1, "m"): got %p, want %p`, got, want)
	} else if got := v.Find("p", "1", 1, "gone"); got != nil {
		t.Errorf(`seats that Find tells apart: v.Find("p", "1", 1, "gone"): got %+v, want nil`, got)
	} else if got := v.Find("p", "1", 2, "m"); got != nil {
		t.Errorf(`seats that Find tells apart: v.Find("p", "1", 2, "m"): got %+v, want nil`, got)
	}
}

func TestTheViewIsBounded(t *testing.T) {
	v := newBounded(func(string) {}, 3)
	for i := range 5 {
		v.Apply(delta("a", uint64(i+1), on("p", fmt.Sprint(i), int64(i+1), "m")), start)
	}
	if n, _, dropped := v.Size(); n != 3 {
		t.Errorf("v.Size(): got %d, want 3", n)
	} else if dropped != 2 {
		t.Errorf("dropped: got %d, want 2", dropped)
	}
	for i := range MaxHubs + 5 {
		v.Apply(full(fmt.Sprint("hub", i), 1), start)
	}
	if _, hubs, _ := v.Size(); hubs != MaxHubs {
		t.Errorf("hubs: got %d, want %d", hubs, MaxHubs)
	}
}

func TestTouchedModelsAreToldAfterTheyCanBeRead(t *testing.T) {
	var v *View
	told := map[string]int{}
	v = New(func(m string) { told[m] = len(v.Seats(m)) })
	v.Apply(delta("a", 1, on("p", "1", 1, "x", "y")), start)
	if !maps.Equal(told, map[string]int{"x": 1, "y": 1}) {
		t.Errorf("told: got %v, want %v", told, map[string]int{"x": 1, "y": 1})
	}
}

// world plays hubs whose sessions come, change and go, and records all that
// they say in order.
type world struct {
	random  *rand.Rand
	epoch   int64
	hubs    []*played
	reports []Report
}

type played struct {
	id          string
	incarnation int64
	revision    uint64
	sessions    map[int64]Session
}

func (w *world) say(h *played, r Report) {
	h.revision++
	r.Hub, r.Incarnation, r.Address, r.Revision = h.id, h.incarnation, h.id, h.revision
	r.Sessions = slices.Clone(r.Sessions)
	for i := range r.Sessions {
		r.Sessions[i].Offers = slices.Clone(r.Sessions[i].Offers)
	}
	w.reports = append(w.reports, r)
}

func (w *world) report(h *played) {
	all := slices.SortedFunc(maps.Values(h.sessions), func(a, b Session) int { return int(a.Epoch - b.Epoch) })
	parts := slices.Collect(slices.Chunk(all, 2))
	if len(parts) == 0 {
		parts = [][]Session{nil}
	}
	for i, part := range parts {
		w.say(h, Report{Full: true, Part: uint32(i), Parts: uint32(len(parts)), Sessions: part})
	}
}

func (w *world) step() {
	h := w.hubs[w.random.IntN(len(w.hubs))]
	epochs := slices.Sorted(maps.Keys(h.sessions))
	switch n := w.random.IntN(20); {
	case n == 0: // the hub restarts
		h.incarnation, h.revision = h.incarnation+1, 0
		clear(h.sessions)
		w.report(h)
	case n < 4:
		w.report(h)
	case n < 10 || len(epochs) == 0:
		w.epoch++
		s := on(fmt.Sprint("p", w.random.IntN(3)), fmt.Sprint("n", w.random.IntN(4)), w.epoch, "m",
			fmt.Sprint("m", w.random.IntN(3)))
		h.sessions[s.Epoch] = s
		w.say(h, Report{Sessions: []Session{s}})
	case n < 14:
		epoch := epochs[w.random.IntN(len(epochs))]
		delete(h.sessions, epoch)
		w.say(h, Report{Ended: []int64{epoch}})
	default:
		s := h.sessions[epochs[w.random.IntN(len(epochs))]]
		s.Draining = w.random.IntN(2) == 0
		s.Offers = slices.Clone(s.Offers)
		s.Offers[0].Healthy = w.random.IntN(2) == 0
		s.Offers[0].InFlight = w.random.IntN(4)
		h.sessions[s.Epoch] = s
		w.say(h, Report{Sessions: []Session{s}})
	}
}

func TestAnyOrderOfMessagesEndsInTheViewOfTheRightOrder(t *testing.T) {
	for seed := range uint64(300) {
		w := &world{random: rand.New(rand.NewPCG(seed, 1))}
		for _, id := range []string{"a", "b", "c"} {
			w.hubs = append(w.hubs, &played{id: id, incarnation: 1, sessions: map[int64]Session{}})
		}
		for range 40 {
			w.step()
		}
		ordered, shuffled := newView(), newView()
		for _, r := range w.reports {
			ordered.Apply(r, start)
		}
		messages := slices.Concat(w.reports, w.reports[:len(w.reports)/4]) // some arrive twice
		w.random.Shuffle(len(messages), func(i, j int) { messages[i], messages[j] = messages[j], messages[i] })
		for _, r := range messages {
			shuffled.Apply(r, start)
		}
		want, got := seen(ordered), seen(shuffled)
		if !maps.EqualFunc(want, got, slices.Equal) {
			t.Fatalf("seed %d:\n in order: %v\n shuffled: %v", seed, want, got)
		}
		if a, _, _ := ordered.Size(); a != w.count() {
			t.Fatalf("seed %d: got %d, want %d", seed, a, w.count())
		}
	}
}

func (w *world) count() int {
	n := 0
	for _, h := range w.hubs {
		n += len(h.sessions)
	}
	return n
}

func BenchmarkApplyFullReport(b *testing.B) {
	v := newView()
	var sessions []Session
	for i := range 500 {
		sessions = append(sessions, on(fmt.Sprint("p", i), "n", int64(i+1), "m", "x", "y"))
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		v.Apply(full("a", uint64(i+1), sessions...), start)
	}
}
