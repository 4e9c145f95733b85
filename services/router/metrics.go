package router

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"svc.internal/services/router/internal/pick"
	"svc.internal/services/router/internal/trust"
)

// measure registers what an operator sees. All is read when it is collected,
// so that selection pays nothing for it.
func (s *Service) measure(meter metric.Meter) error {
	var failed error
	gauge := func(name, text string) metric.Int64ObservableGauge {
		g, err := meter.Int64ObservableGauge(name, metric.WithDescription(text))
		if err != nil {
			failed = fmt.Errorf("make %s: %w", name, err)
		}
		return g
	}
	counter := func(name, text string) metric.Int64ObservableCounter {
		c, err := meter.Int64ObservableCounter(name, metric.WithDescription(text))
		if err != nil {
			failed = fmt.Errorf("make %s: %w", name, err)
		}
		return c
	}
	sessions := gauge("svc.router.sessions", "Provider sessions in the view.")
	models := gauge("svc.router.models", "Models that some session offers.")
	candidates := gauge("svc.router.candidates", "Offers of sessions that consumers may be sent to.")
	bookings := gauge("svc.router.bookings", "Slots booked for attempts that have not been heard to end.")
	breakers := gauge("svc.router.breakers_open",
		"Pairs of provider and model that a breaker keeps from serving, half open ones included.")
	suspected := gauge("svc.router.breakers_suspected",
		"Pairs of provider and model that one account's requests fail on and the platform looks at.")
	hubs := gauge("svc.router.hubs", "Hubs in the view.")
	pairs := gauge("svc.router.known_pairs", "Pairs of provider and model whose health is known.")
	waiting := gauge("svc.router.waiting", "Requests that wait for a free slot.")
	dropped := counter("svc.router.sessions_dropped", "Sessions and hubs that the view had no room for.")
	refused := counter("svc.router.events_refused", "Messages and sessions from the bus that were out of bounds.")
	rejects := counter("svc.router.rejects", "Looks at a provider that passed it over, by reason.")
	warmups := counter("svc.router.warmups", "Warm-ups of a model on a node that this replica has asked for.")
	if failed != nil {
		return failed
	}
	sets := map[pick.Reason]metric.ObserveOption{}
	for reason := range s.stats.Totals() {
		sets[reason] = metric.WithAttributeSet(attribute.NewSet(attribute.String("reason", reason.String())))
	}
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		n, h, d := s.view.Size()
		o.ObserveInt64(sessions, int64(n))
		o.ObserveInt64(hubs, int64(h))
		o.ObserveInt64(dropped, d)
		totals := s.view.Totals(s.trust.ShutSeat)
		o.ObserveInt64(models, int64(totals.Models))
		o.ObserveInt64(candidates, int64(totals.Candidates))
		o.ObserveInt64(bookings, int64(totals.Bookings))
		open, doubted := s.known.Breakers(s.deps.Clock.Now())
		o.ObserveInt64(breakers, int64(open))
		o.ObserveInt64(suspected, int64(doubted))
		o.ObserveInt64(pairs, int64(s.known.Len()))
		o.ObserveInt64(waiting, int64(s.waitlist.Waiting()))
		o.ObserveInt64(refused, s.listener.Refused()+s.reports.Refused()+s.warmer.Refused())
		o.ObserveInt64(warmups, s.warmer.Asked())
		for reason, n := range s.stats.Totals() {
			o.ObserveInt64(rejects, n, sets[reason])
		}
		return nil
	}, sessions, models, candidates, bookings, breakers, suspected, hubs, pairs, waiting, dropped, refused, rejects,
		warmups)
	if err != nil {
		return fmt.Errorf("register the router's metrics: %w", err)
	}
	return s.measureTrust(meter)
}

// measureTrust registers what an operator sees of the verifier's word.
func (s *Service) measureTrust(meter metric.Meter) error {
	pairs, err := meter.Int64ObservableGauge("svc.router.trust_pairs",
		metric.WithDescription("Pairs of provider and model that the verifier has said something of, by lane."))
	if err != nil {
		return fmt.Errorf("make svc.router.trust_pairs: %w", err)
	}
	dropped, err := meter.Int64ObservableCounter("svc.router.trust_dropped",
		metric.WithDescription("Opinions of the verifier that there was no room for."))
	if err != nil {
		return fmt.Errorf("make svc.router.trust_dropped: %w", err)
	}
	full, err := meter.Int64ObservableGauge("svc.router.trust_full",
		metric.WithDescription("1 while a restriction has no room, so that unknown pairs are in the probe lane."))
	if err != nil {
		return fmt.Errorf("make svc.router.trust_full: %w", err)
	}
	sets := map[trust.Lane]metric.ObserveOption{}
	for _, lane := range trust.Lanes() {
		sets[lane] = metric.WithAttributeSet(attribute.NewSet(attribute.String("lane", lane.String())))
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(dropped, s.trust.Dropped())
		o.ObserveInt64(full, map[bool]int64{true: 1}[s.trust.Full()])
		for lane, n := range s.trust.Pairs() {
			o.ObserveInt64(pairs, n, sets[lane])
		}
		return nil
	}, pairs, dropped, full)
	if err != nil {
		return fmt.Errorf("register the metrics of trust: %w", err)
	}
	return nil
}
