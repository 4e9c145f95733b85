package rpc_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/clock"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/demand"
	"svc.internal/services/billing-ledger/internal/rpc"
)

// settled is a store of requests that were all settled a minute ago.
type settled struct {
	now time.Time
	sum demand.Sum
}

func (s *settled) Now(context.Context) (time.Time, error) { return s.now, nil }

func (s *settled) FirstSettled(context.Context, time.Time) (time.Time, error) {
	return s.now.Add(-time.Minute), nil
}

func (s *settled) Settled(_ context.Context, from, until time.Time, _ int) (map[string]demand.Sum, error) {
	if at := s.now.Add(-time.Minute); at.Before(from) || !at.Before(until) {
		return nil, nil
	}
	return map[string]demand.Sum{"m": s.sum}, nil
}

func TestDemandHasTwoSignificantDigits(t *testing.T) {
	now := time.Date(2026, 7, 30, 12, 34, 56, 0, time.UTC)
	store := &settled{now: now, sum: demand.Sum{
		Requests: 1234, Tokens: 98_765, Revenue: 1_234_567_890, Payout: 987_654_321, Latency: 1234 * 1278 * time.Millisecond,
		Timed: 1234,
	}}
	server := &rpc.Demand{Cache: demand.NewCache(store, clock.NewManual(now))}
	got, err := server.ListModelDemand(t.Context(), &billingv1.ListModelDemandRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := &billingv1.ListModelDemandResponse{Models: []*billingv1.ModelDemand{{
		ModelId: "m", Requests_24H: 1200, Tokens_24H: 99_000, Revenue_24HNanoUsd: 1_200_000_000,
		Payout_24HNanoUsd: 990_000_000, AvgLatencyMs: 1300,
	}}}
	if !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
