package rpc

import (
	"fmt"
	"testing"
	"time"

	routerv1 "svc.internal/proto/svc/router/v1"
	"svc.internal/services/router/internal/breaker"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/tag"
)

// still is a clock that stands.
type still struct{ at time.Time }

func (s still) Now() time.Time { return s.at }

func TestBreakersThatAreNotClosedAreListedTheWorstFirstWithinABound(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	known := health.New()
	known.Get(health.Pair{Provider: "closed", Model: "m"})
	for range breaker.Threshold {
		known.Get(health.Pair{Provider: "a-suspected", Model: "m"}).Breaker.Failed(1, false, now)
	}
	for n := range maxBreakers + 1 {
		rec := known.Get(health.Pair{Provider: fmt.Sprintf("b-%04d", n), Model: "m"})
		for i := range breaker.Accounts {
			rec.Breaker.Failed(tag.Account(i+1), false, now)
		}
	}
	r := &Router{Parts: Parts{Health: known, Clock: still{now}}}
	resp, err := r.ListBreakers(t.Context(), &routerv1.ListBreakersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(resp.GetList()); got != maxBreakers {
		t.Fatalf("the list: got %d, want %d", got, maxBreakers)
	}
	if got := resp.GetTotal(); got != maxBreakers+2 {
		t.Errorf("the total: got %d, want %d", got, maxBreakers+2)
	}
	if got := resp.GetList()[0]; got.GetProviderId() != "b-0000" {
		t.Errorf("the first: got %s, want b-0000", got.GetProviderId())
	}
	for _, b := range resp.GetList() {
		if b.GetState() != "open" {
			t.Errorf("%s: got %q, want open", b.GetProviderId(), b.GetState())
		}
	}
	r.Health = health.New()
	for range breaker.Threshold {
		r.Health.Get(health.Pair{Provider: "a", Model: "m"}).Breaker.Failed(1, false, now)
	}
	if resp, err = r.ListBreakers(t.Context(), &routerv1.ListBreakersRequest{}); err != nil {
		t.Fatal(err)
	}
	if got := resp.GetList()[0].GetState(); got != "suspected" {
		t.Errorf("the state: got %q, want suspected", got)
	}
}

func TestHubsAreListedWithTheirSessions(t *testing.T) {
	now := time.Unix(1_790_000_000, 0)
	view := presence.New(func(string) {})
	for hub, sessions := range map[string]int{"hub-2": 1, "hub-1": 2} {
		report := presence.Report{Hub: hub, Incarnation: 1, Revision: 1, Full: true, Parts: 1}
		for n := range sessions {
			report.Sessions = append(report.Sessions,
				presence.Session{Provider: "p", Node: fmt.Sprint(hub, n), Epoch: int64(n + 1)})
		}
		view.Apply(report, now)
	}
	resp, err := (&Router{Parts: Parts{View: view}}).ListHubs(t.Context(), &routerv1.ListHubsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for _, h := range resp.GetList() {
		said += fmt.Sprintf("%s %d %d; ", h.GetHubId(), h.GetSessions(), h.GetHeardAt().GetSeconds()-now.Unix())
	}
	if want := "hub-1 2 0; hub-2 1 0; "; said != want {
		t.Errorf("got %q, want %q", said, want)
	}
}
