package plan_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/internal/plan"
)

func TestAnOfferCoversWhatAdmissionCovers(t *testing.T) {
	both := []plan.Tier{plan.Free, plan.Standard}
	all := []plan.Tier{plan.Free, plan.Standard, plan.Premium}
	tokens := plan.Limit{Kind: plan.Tokens, Tiers: both}
	images := plan.Limit{Kind: plan.Images, Tiers: all}
	price := plan.Limit{Kind: plan.ListPrice, Tiers: both}
	requests := plan.Limit{Kind: plan.Requests, Tiers: all}
	for name, tc := range map[string]struct {
		limits                []plan.Limit
		tokens, images, audio []plan.Tier
	}{
		"tokens alone":       {limits: []plan.Limit{requests, tokens}, tokens: both},
		"tokens and images":  {limits: []plan.Limit{requests, tokens, images}, tokens: both, images: both},
		"a list price":       {limits: []plan.Limit{requests, price}, tokens: both, images: both, audio: both},
		"no allowance":       {limits: []plan.Limit{requests, images}},
		"nothing that is on": {},
	} {
		o := plan.Offer{Limits: tc.limits}
		for unit, want := range map[money.Unit][]plan.Tier{
			money.Token: tc.tokens, money.Image: tc.images, money.AudioMinute: tc.audio,
		} {
			if got := o.Covers(unit); !slices.Equal(got, want) {
				t.Errorf("%s: unit %d: got %v, want %v", name, unit, got, want)
			}
		}
	}
}

func TestANameIsTheIDAsATitle(t *testing.T) {
	for id, want := range map[string]string{"pro": "Pro", "team-2": "Team 2", "-": " "} {
		if got := (plan.Offer{Plan: id}).Name(); got != want {
			t.Errorf("%q: got %q, want %q", id, got, want)
		}
	}
}

// sold counts how often it is asked.
type sold struct {
	mu    sync.Mutex
	asked int
	err   error
}

func (s *sold) Offers(ctx context.Context, _ int) ([]plan.Offer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return []plan.Offer{{Plan: "pro"}}, cmp.Or(s.err, ctx.Err())
}

func TestACallerWhoLeavesDoesNotEndTheReadingForOthers(t *testing.T) {
	left, leave := context.WithCancel(t.Context())
	leave()
	store := &sold{}
	offers := plan.NewOffers(store, clock.System)
	for store.asked == 0 { // of a turn that is free and a caller who has left, either may come first
		if _, err := offers.List(left); err == nil {
			break
		}
	}
	if _, err := offers.List(t.Context()); err != nil {
		t.Errorf("after a caller who left: got the error %v, want none", err)
	}
	if store.asked != 1 {
		t.Errorf("asked: got %d times, want once, by the caller who left", store.asked)
	}
}

func TestStrangersHaveTheDatabaseAskedOnceAMinute(t *testing.T) {
	store, now := &sold{}, clock.NewManual(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	offers := plan.NewOffers(store, now)
	var callers sync.WaitGroup
	for range 50 {
		callers.Go(func() {
			list, err := offers.List(t.Context())
			if err != nil {
				t.Error(err)
			}
			if len(list) != 1 {
				t.Errorf("got %v, want one plan", list)
			}
		})
	}
	callers.Wait()
	if store.asked != 1 {
		t.Errorf("asked by 50 callers: got %d times, want 1", store.asked)
	}
	store.err = errors.New("away")
	now.Advance(time.Minute)
	list, err := offers.List(t.Context())
	if err != nil {
		t.Errorf("a store that is away: got the error %v, want none", err)
	}
	if len(list) != 1 {
		t.Errorf("a store that is away: got %v, want what was read last", list)
	}
	for range 20 {
		if _, err := offers.List(t.Context()); err != nil {
			t.Errorf("right after a reading failed: got the error %v, want none", err)
		}
	}
	if store.asked != 2 {
		t.Errorf("asked right after a reading failed: got %d times, want 2", store.asked)
	}
	now.Advance(time.Hour)
	if _, err := offers.List(t.Context()); !errors.Is(err, store.err) {
		t.Errorf("an hour later: got the error %v, want %v", err, store.err)
	}
}
