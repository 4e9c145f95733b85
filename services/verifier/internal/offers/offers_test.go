package offers_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func provider(n int) ids.ProviderID {
	var id ids.ProviderID
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	id[0] = 1
	return id
}

// on is a session of provider p with models.
func on(p int, node string, epoch int64, models ...string) offers.Session {
	s := offers.Session{Provider: provider(p), Node: node, Epoch: epoch, Active: true}
	for _, m := range models {
		s.Models = append(s.Models, offers.Model{ID: m, Healthy: true, Window: 4096, Quantization: "q4_k_m"})
	}
	return s
}

func reference(p int, node, statement string) offers.Session {
	s := on(p, node, int64(1_000+p), "m")
	s.Reference, s.Models[0].Quantization = true, statement
	return s
}

func delta(hub string, revision uint64, sessions ...offers.Session) offers.Report {
	return offers.Report{Hub: hub, Incarnation: 1, Address: hub + ":9000", Revision: revision, Sessions: sessions}
}

func full(hub string, revision uint64, part, parts uint32, sessions ...offers.Session) offers.Report {
	r := delta(hub, revision, sessions...)
	r.Full, r.Part, r.Parts = true, part, parts
	return r
}

func offer(p int, model string) probe.Offer { return probe.Offer{Provider: provider(p), Model: model} }

func TestAnOfferHasAllNodesAndASessionTheNewestEpoch(t *testing.T) {
	t.Parallel()
	v := offers.New()
	v.Apply(delta("h", 1, on(1, "b", 7, "m"), on(1, "a", 3, "m", "n")), start)
	known := v.Known()
	if len(known) != 2 {
		t.Fatalf("offers: got %d, want 2", len(known))
	}
	if got, want := len(known[0].Seats), 2; got != want {
		t.Errorf("nodes: got %d, want %d", got, want)
	}
	seat, ok := v.Session(offer(1, "m"))
	if !ok {
		t.Fatal("session: got none, want one")
	}
	if got, want := seat.Node, "b"; got != want {
		t.Errorf("node: got %q, want %q", got, want)
	}
	if got, want := seat.Address, "h:9000"; got != want {
		t.Errorf("address: got %q, want %q", got, want)
	}
	if got, want := seat.Model.Class, quant.Bits4; got != want {
		t.Errorf("class: got %v, want %v", got, want)
	}
}

func TestTheNewestEpochOfANodeCounts(t *testing.T) {
	t.Parallel()
	v := offers.New()
	v.Apply(delta("h1", 1, on(1, "a", 9, "new")), start)
	v.Apply(delta("h2", 1, on(1, "a", 4, "old")), start)
	if _, ok := v.Find(offer(1, "old")); ok {
		t.Error("the older session: got its offer, want none")
	}
	ended := delta("h1", 2)
	ended.Ended = []int64{9}
	v.Apply(ended, start)
	if _, ok := v.Find(offer(1, "old")); !ok {
		t.Error("the older session, alone again: got no offer, want one")
	}
	v.Apply(delta("h1", 1, on(1, "a", 9, "new")), start)
	if _, ok := v.Find(offer(1, "new")); ok {
		t.Error("an ended session came back")
	}
}

func TestAReferenceIsInNoOffer(t *testing.T) {
	t.Parallel()
	v := offers.New()
	v.Apply(delta("h", 1, reference(1, "z", "q4_0"), reference(2, "y", "fp16"), reference(3, "x", "fp16")), start)
	if got := v.Known(); len(got) != 0 {
		t.Errorf("offers: got %v, want none", got)
	}
	var hosts []string
	for _, s := range v.References("m") {
		hosts = append(hosts, s.Node)
	}
	if want := []string{"y", "x", "z"}; !slices.Equal(hosts, want) {
		t.Errorf("references: got %v, want %v", hosts, want)
	}
	if _, ok := v.Session(offer(2, "m")); !ok {
		t.Error("the session of a reference: got none, want one")
	}
	if got, want := offers.Owners(v.References("m")).Len(), 3; got != want {
		t.Errorf("owners: got %d, want %d", got, want)
	}
	seat, ok := v.On(v.References("m")[0].Host(), "m")
	if !ok {
		t.Fatal("by host: got none, want one")
	}
	if got, want := seat.Node, "y"; got != want {
		t.Errorf("by host: got the node %q, want %q", got, want)
	}
}

func TestWhatDrainsOrIsUnhealthyTakesNoWork(t *testing.T) {
	t.Parallel()
	v := offers.New()
	draining, ill := reference(1, "a", ""), on(2, "b", 5, "m")
	draining.Draining, ill.Models[0].Healthy = true, false
	v.Apply(delta("h", 1, draining, ill), start)
	if got := v.References("m"); len(got) != 0 {
		t.Errorf("references: got %v, want none", got)
	}
	if _, ok := v.Session(offer(2, "m")); ok {
		t.Error("the session of an unhealthy model: got one, want none")
	}
	if _, ok := v.Find(offer(2, "m")); !ok {
		t.Error("the offer of an unhealthy model: got none, want one")
	}
	whose := provider(2).String()
	for _, host := range []string{"", "x/y", whose, whose + "/", provider(9).String() + "/b"} {
		if _, ok := v.On(host, "m"); ok {
			t.Errorf("the host %q: got a seat, want none", host)
		}
	}
}

func TestAFullReportRemovesWhatItDoesNotName(t *testing.T) {
	t.Parallel()
	v := offers.New()
	v.Apply(delta("h", 1, on(1, "a", 1, "m"), on(2, "a", 2, "m")), start)
	if v.Apply(full("h", 5, 1, 2), start) {
		t.Error("half a report: got complete, want not")
	}
	if _, n, _ := v.Size(); n != 2 {
		t.Errorf("offers after half a report: got %d, want 2", n)
	}
	if !v.Apply(full("h", 4, 0, 2, on(2, "a", 2, "m")), start) {
		t.Error("the other half: got not complete, want complete")
	}
	if _, ok := v.Find(offer(1, "m")); ok {
		t.Error("a session that the report does not name: got its offer, want none")
	}
	v.Apply(delta("h", 3, on(1, "a", 1, "m")), start)
	if _, ok := v.Find(offer(1, "m")); ok {
		t.Error("an older message: got its offer, want none")
	}
}

func TestASessionThatNothingConfirmsExpires(t *testing.T) {
	t.Parallel()
	v := offers.New()
	v.Apply(delta("h", 1, on(1, "a", 1, "m")), start)
	v.Expire(start.Add(offers.Expiry - 1))
	if sessions, _, _ := v.Size(); sessions != 1 {
		t.Errorf("before its time: got %d sessions, want 1", sessions)
	}
	v.Confirm(start.Add(offers.Expiry))
	v.Expire(start.Add(2*offers.Expiry - 1))
	if sessions, _, _ := v.Size(); sessions != 1 {
		t.Errorf("confirmed: got %d sessions, want 1", sessions)
	}
	v.Expire(start.Add(2 * offers.Expiry))
	if sessions, _, _ := v.Size(); sessions != 0 {
		t.Errorf("after its time: got %d sessions, want 0", sessions)
	}
}

func TestANewIncarnationReplacesTheOld(t *testing.T) {
	t.Parallel()
	v := offers.New()
	v.Apply(delta("h", 9, on(1, "a", 1, "m")), start)
	next := delta("h", 1, on(2, "a", 2, "m"))
	next.Incarnation = 2
	v.Apply(next, start)
	v.Apply(delta("h", 10, on(1, "a", 1, "m")), start)
	if _, ok := v.Find(offer(1, "m")); ok {
		t.Error("what the old incarnation said: got its offer, want none")
	}
	if _, ok := v.Find(offer(2, "m")); !ok {
		t.Error("what the new incarnation said: got no offer, want one")
	}
}

func TestWhatAReaderHoldsNeverChanges(t *testing.T) {
	t.Parallel()
	v := offers.New()
	v.Apply(delta("h", 1, on(1, "a", 1, "m"), on(1, "b", 2, "m")), start)
	held, _ := v.Find(offer(1, "m"))
	before := slices.Clone(held.Seats)
	changed := on(1, "a", 1, "m")
	changed.Models[0].Window = 99
	v.Apply(delta("h", 2, changed), start)
	v.Apply(full("h", 3, 0, 1), start)
	if !slices.Equal(held.Seats, before) {
		t.Errorf("the seats: got %v, want %v", held.Seats, before)
	}
	if got := held.Seats[0].Model.Window; got != 4096 {
		t.Errorf("the window: got %d, want 4096", got)
	}
}

func TestHubsAndModelsAreBounded(t *testing.T) {
	t.Parallel()
	v := offers.New()
	for n := range offers.MaxHubs + 3 {
		v.Apply(delta(fmt.Sprintf("h%d", n), 1), start)
	}
	if _, _, dropped := v.Size(); dropped != 3 {
		t.Errorf("dropped: got %d, want 3", dropped)
	}
	many := on(1, "a", 1)
	many.Models = make([]offers.Model, offers.MaxModels+1)
	v.Apply(delta("h0", 2, many), start)
	if sessions, _, _ := v.Size(); sessions != 0 {
		t.Errorf("a session of too many models: got %d sessions, want 0", sessions)
	}
}

// Messages of two hubs in any order, some twice, end in the view that they end in in
// order.
func TestOrderAndRepetitionDoNotMatter(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var messages []offers.Report
		for h := range 2 {
			revision := uint64(0)
			for range 12 {
				revision++
				messages = append(messages, message(r, fmt.Sprintf("h%d", h), int64(100*h), revision))
			}
			revision++
			messages = append(messages, full(fmt.Sprintf("h%d", h), revision, 0, 2, on(1, "n", int64(100*h+1), "m")))
			messages = append(messages, full(fmt.Sprintf("h%d", h), revision+1, 1, 2, on(2, "n", int64(100*h+2), "k")))
		}
		want := offers.New()
		for _, m := range messages {
			want.Apply(m, start)
		}
		got, again := offers.New(), slices.Concat(messages, messages[:r.IntN(len(messages))])
		r.Shuffle(len(again), func(i, j int) { again[i], again[j] = again[j], again[i] })
		for _, m := range again {
			got.Apply(m, start)
		}
		if a, b := shown(got), shown(want); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: got %v, want %v", seed, a, b)
		}
	}
}

// message is a change of some of a hub's sessions 1 to 4, or the end of 3 or 4.
func message(r *rand.Rand, hub string, base int64, revision uint64) offers.Report {
	m := delta(hub, revision)
	for range r.IntN(3) {
		n := 1 + r.IntN(4)
		s := on(n, "n", base+int64(n), "m", "k")
		s.Models[0].Window = int64(r.IntN(3))
		if r.IntN(2) == 0 {
			s.Models = s.Models[:1]
		}
		if !slices.ContainsFunc(m.Sessions, func(o offers.Session) bool { return o.Epoch == s.Epoch }) {
			m.Sessions = append(m.Sessions, s)
		}
	}
	if r.IntN(4) == 0 {
		m.Ended = []int64{base + 3 + int64(r.IntN(2))}
	}
	return m
}

func shown(v *offers.View) []string {
	var all []string
	for _, o := range v.Known() {
		for _, s := range o.Seats {
			all = append(all, fmt.Sprint(o.String(), s.Host(), s.Epoch, s.Hub, *s.Model))
		}
	}
	return all
}

// BenchmarkFullReport takes over a full report of 10,000 offers on 2,500 nodes that says
// nothing new, as it comes every 10 seconds.
func BenchmarkFullReport(b *testing.B) {
	v := offers.New()
	var parts []offers.Report
	for n := range 2_500 {
		if n%500 == 0 {
			parts = append(parts, full("h", 0, uint32(n/500), 5))
		}
		last := &parts[len(parts)-1].Sessions
		s := on(n, "node-0001", int64(n+1), "acme/a", "acme/b", "acme/c", "acme/d")
		s.Capabilities = []string{"cancel", "chat", "fingerprint", "logprobs", "stream"}
		*last = append(*last, s)
	}
	revision := uint64(0)
	apply := func() {
		for i := range parts {
			revision++
			parts[i].Revision = revision
			v.Apply(parts[i], start)
		}
	}
	apply()
	b.ReportAllocs()
	for b.Loop() {
		apply()
	}
	if _, n, _ := v.Size(); n != 10_000 {
		b.Fatalf("offers: got %d, want 10000", n)
	}
}

// BenchmarkMemory reports the memory of a view of 10,000 offers.
func BenchmarkMemory(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		v := offers.New()
		for n := range 2_500 {
			s := on(n, "node-0001", int64(n+1), "acme/a", "acme/b", "acme/c", "acme/d")
			v.Apply(delta("h", uint64(n+1), s), start)
		}
	}
}
