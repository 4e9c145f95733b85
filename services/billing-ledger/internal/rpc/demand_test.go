package rpc_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/clock"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/demand"
	"svc.internal/services/billing-ledger/internal/rpc"
	"svc.internal/services/billing-ledger/internal/stats"
)

// settled is a store of requests that were all settled two hours ago.
type settled struct {
	now time.Time
	sum demand.Sum
}

func (s *settled) Now(context.Context) (time.Time, error) { return s.now, nil }

func (s *settled) FirstSettled(context.Context, time.Time) (time.Time, error) {
	return s.now.Add(-2 * time.Hour), nil
}

func (s *settled) Settled(_ context.Context, from, until time.Time, _ int) (map[string]demand.Sum, error) {
	if at := s.now.Add(-2 * time.Hour); at.Before(from) || !at.Before(until) {
		return nil, nil
	}
	return map[string]demand.Sum{"m": s.sum, "few": {Requests: 4, Tokens: 123, Timed: 1}, "one": s.sum}, nil
}

// used is a store of figures in which enough accounts use some models.
type used struct {
	now    time.Time
	models []string
}

func (u used) FoldedUntil(context.Context) (time.Time, error) { return u.now, nil }

func (u used) Accounts(context.Context, stats.Window) (int, error) { return 0, nil }

func (u used) Groups(_ context.Context, _ stats.Window, _ int, add func(*stats.Group)) error {
	for _, m := range u.models {
		add(&stats.Group{Subject: stats.Subject{Model: m}})
	}
	return nil
}

func (u used) OfService(context.Context, stats.Span, time.Time) (map[time.Time]*stats.Sum, error) {
	return nil, nil
}

func TestDemandTellsWhatFiguresTell(t *testing.T) {
	now := time.Date(2026, 7, 30, 12, 34, 56, 0, time.UTC)
	store := &settled{now: now, sum: demand.Sum{
		Requests: 1234, Tokens: 98_765, Revenue: 1_234_567_890, Payout: 987_654_321, Latency: 1234 * 1278 * time.Millisecond,
		Timed: 1234,
	}}
	figures := stats.NewCache(used{now, []string{"m", "few", "gone"}}, clock.NewManual(now), slog.New(slog.DiscardHandler))
	if err := figures.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	server := &rpc.Demand{Cache: demand.NewCache(store, clock.NewManual(now)), Figures: figures}
	got, err := server.ListModelDemand(t.Context(), &billingv1.ListModelDemandRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := &billingv1.ListModelDemandResponse{Models: []*billingv1.ModelDemand{{
		ModelId: "m", Requests_24H: 1200, Tokens_24H: 99_000, Revenue_24HNanoUsd: 1_200_000_000,
		Payout_24HNanoUsd: 990_000_000, AvgLatencyMs: 1300,
	}, {ModelId: "few", Tokens_24H: 120}}}
	if !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
