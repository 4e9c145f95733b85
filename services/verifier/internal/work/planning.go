package work

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/cover"
	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/offers"
	"svc.internal/services/verifier/internal/plan"
	"svc.internal/services/verifier/internal/probe"
	"svc.internal/services/verifier/internal/quant"
	"svc.internal/services/verifier/internal/store"
	"svc.internal/services/verifier/internal/traffic"
)

// planInterval is the pause between two looks for offers whose hour is not planned. An offer
// that is new gets its first probes within it.
const planInterval = 20 * time.Second

// Cover is the cover of probes by organic requests. It is safe for concurrent use.
type Cover struct {
	mu   sync.Mutex
	week *cover.Week
}

// NewCover returns a cover without requests.
func NewCover() *Cover { return &Cover{week: cover.NewWeek()} }

// Report adds the requests of an hour.
func (c *Cover) Report(hour time.Time, counts map[cover.Shape]int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.week.Report(hour, counts)
}

// Load reads requests and probes of the last week, from which a replica begins.
func (c *Cover) Load(ctx context.Context, s *store.Store) error {
	requests, err := s.Shapes(ctx)
	if err != nil {
		return err
	}
	probes, err := s.ProbedShapes(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.week = cover.NewWeek()
	for _, r := range requests {
		if err := c.week.Report(r.Hour, map[cover.Shape]int64{r.Shape: r.Count}); err != nil {
			return err
		}
	}
	for _, p := range probes {
		for range p.Count {
			c.week.Probed(p.Hour, p.Shape)
		}
	}
	return nil
}

// Planning plans each offer's probes of the hour.
type Planning struct {
	Store   *store.Store
	Planner *plan.Planner
	Mover   *Mover
	Offers  *offers.View
	Prices  func(model string) money.Rates
	Traffic *traffic.Counter
	Cover   *Cover
	Clock   clock.Clock
	Log     *slog.Logger
	// BudgetADay is what all probes of a UTC day may cost.
	BudgetADay money.NanoUSD
	Ratios     *Ratios
	Haste      Haste
	// Sibling returns the smaller model of the same series; empty for none.
	Sibling func(model string) string
	Enabled func(ctx context.Context) bool

	pasts map[probe.Offer]plan.Past
	top   map[probe.Offer]bool
	hour  int64
}

// Run plans until ctx ends.
func (p *Planning) Run(ctx context.Context) {
	for range clock.Every(ctx, p.Haste.Of(planInterval)) {
		if p.Enabled(ctx) {
			warn(ctx, p.Log, "probes could not be planned", p.Pass(ctx))
		}
	}
}

// Pass plans the rest of the hour for the offers of which it is not planned yet. An offer
// that cannot be planned keeps no other waiting.
func (p *Planning) Pass(ctx context.Context) error {
	now, err := p.Store.Now(ctx)
	if err != nil {
		return err
	}
	var bad faults
	if hour := now.Unix() / 3600; hour != p.hour {
		if err := p.load(ctx, &bad); err != nil {
			return err
		}
		p.hour, p.top = hour, p.Traffic.TopEarners(p.Clock.Now())
	}
	var due []plan.Offer
	for _, o := range p.Offers.Known() {
		if p.pasts[o.Offer].Hour >= p.hour {
			continue
		}
		offer, ok, err := p.offer(ctx, o, now)
		if err := bad.add(ctx, err); err != nil {
			return err
		}
		if ok {
			due = append(due, offer)
		}
	}
	if len(due) > 0 {
		if err := p.plan(ctx, now, due, &bad); err != nil {
			return err
		}
	}
	return bad.err()
}

// load reads what was planned, by whichever replica. An offer whose past cannot be read is
// planned as if it had none.
func (p *Planning) load(ctx context.Context, bad *faults) error {
	pasts := map[probe.Offer]plan.Past{}
	var after probe.Offer
	for {
		list, err := p.Store.Pasts(ctx, after, store.MaxBatch)
		if err != nil {
			return err
		}
		for _, one := range list {
			if err := bad.add(ctx, one.Fault); err != nil {
				return err
			}
			pasts[one.Offer], after = one.Past, one.Offer
		}
		if len(list) < store.MaxBatch {
			break
		}
	}
	p.pasts = pasts
	return nil
}

// plan plans offers and puts their probes into the queue. An offer whose probes are refused
// waits for the next hour like one without a probe, because the cover and the budget have
// counted them.
func (p *Planning) plan(ctx context.Context, now time.Time, due []plan.Offer, bad *faults) error {
	day := now.Truncate(24 * time.Hour)
	spent, err := p.Store.SpentNanoUSD(ctx, day)
	if err != nil {
		return err
	}
	p.Cover.mu.Lock()
	fleet := plan.Fleet{Week: p.Cover.week, Prior: plan.Prior(), BudgetADay: p.BudgetADay, Spent: money.NanoUSD(spent)}
	hours := p.Planner.Plan(&fleet, now, due)
	p.Cover.mu.Unlock()
	planned := map[probe.Offer]bool{}
	for _, h := range hours {
		probes := make([]store.QueuedProbe, len(h.Probes))
		for i, one := range h.Probes {
			probes[i] = store.QueuedProbe{Plan: one.Plan, Shape: shapeOf(one.Plan), CostNanoUSD: int64(one.Cost)}
		}
		_, err := p.Store.PutHour(ctx, h, probes...)
		if err := bad.add(ctx, err); err != nil {
			return err
		}
		if err == nil {
			p.pasts[h.Offer], planned[h.Offer] = h.Past, true
		}
	}
	for _, o := range due { // an hour without a probe is planned, too
		if !planned[o.Offer] {
			past := p.pasts[o.Offer]
			past.Hour = p.hour
			p.pasts[o.Offer] = past
		}
	}
	return nil
}

// shapeOf is what a provider sees of a hidden probe beside its text.
func shapeOf(p probe.Plan) cover.Shape {
	return cover.Shape{Streamed: p.Streamed, Greedy: p.Greedy, Logprobs: p.TopLogprobs > 0,
		Length: cover.LengthOf(p.PromptTokens)}
}

// offer gathers what is known of an offer. It reports false while the offer has no
// standing, or its model left the catalog.
func (p *Planning) offer(ctx context.Context, o offers.Offer, now time.Time) (plan.Offer, bool, error) {
	model, ok := p.Mover.Models.Find(o.Model)
	if !ok || !model.Active || len(o.Seats) == 0 {
		return plan.Offer{}, false, nil
	}
	st, err := p.Store.Standing(ctx, o.Offer)
	if isNone(err) {
		return plan.Offer{}, false, nil
	}
	if err != nil {
		return plan.Offer{}, false, err
	}
	stated, err := p.Store.Offering(ctx, o.Offer)
	if err != nil {
		return plan.Offer{}, false, err
	}
	avoid, err := accountsOf(ctx, p.Store, p.Offers.AllReferences(), st.State.AvoidHost)
	if err != nil {
		return plan.Offer{}, false, err
	}
	seat, refs := o.Seats[0], p.Offers.References(o.Model)
	week := p.Traffic.Of(o.Offer, p.Clock.Now())
	window := p.Mover.Stated(o)
	if window == 0 {
		window = model.Window
	}
	effective := window
	if c := st.State.CapTokens; c > 0 && c < effective {
		effective = c
	}
	return plan.Offer{
		Offer: o.Offer, FirstSeen: stated.FirstSeen, Active: o.Active(), Level: st.State.Level,
		Embeddings: model.Embeddings, Logprobs: seat.Has(offers.Logprobs), Fingerprint: seat.Has(offers.Fingerprints),
		StatedTokens: int(window), EffectiveTokens: int(effective), BytesPerToken: p.Ratios.Of(o.Model), Files: model.Files,
		MaxOutput: int(model.MaxOutput), Quantization: seat.Model.Quantization, Engine: seat.Model.Engine, GPU: seat.GPU,
		References: References(refs), Alternatives: p.alternatives(o.Model, refs), Hours: week.Hours,
		RequestsADay: week.RequestsADay, PayoutADay: week.PayoutADay, ChangedAt: changedAt(stated),
		TopEarner: p.top[o.Offer], Observations: st.State.Taken.Year(now),
		AvoidHost: st.State.AvoidHost, AvoidAccounts: avoid, Measurement: st.State.Measurement,
		Rates: p.Prices(o.Model), Past: p.pasts[o.Offer],
	}, true, nil
}

// changedAt is when an offer's statement became another, the zero time for an offer whose
// statement never did.
func changedAt(o store.Offering) time.Time {
	if o.ChangedAt.After(o.FirstSeen) {
		return o.ChangedAt
	}
	return time.Time{}
}

// cheaper are the alternatives that references of cheaper classes stand for.
var cheaper = map[quant.Class]evidence.Alternative{
	quant.Bits8: evidence.Class8, quant.Bits6: evidence.Class6, quant.Bits5: evidence.Class5,
	quant.Bits4: evidence.Class4, quant.Bits3: evidence.Class3, quant.Bits2: evidence.Class2,
}

// alternatives are what answers can be weighed against with the references that there are.
func (p *Planning) alternatives(model string, refs []offers.Seat) []evidence.Alternative {
	found := map[evidence.Alternative]bool{}
	for _, r := range refs {
		if g, ok := cheaper[r.Model.Class]; ok {
			found[g] = true
		}
	}
	if sibling := p.Sibling(model); sibling != "" && len(p.Offers.References(sibling)) > 0 {
		found[evidence.Sibling] = true
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b evidence.Alternative) int {
		return strings.Compare(a.String(), b.String())
	})
}
