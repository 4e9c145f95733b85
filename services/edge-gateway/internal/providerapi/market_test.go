package providerapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	billingv1 "svc.internal/proto/svc/billing/v1"
	catalogv1 "svc.internal/proto/svc/catalog/v1"

	"svc.internal/services/edge-gateway/internal/apierror"
)

func TestTrendsHaveThresholds(t *testing.T) {
	for _, c := range []struct {
		day, before int64
		trend       string
		pct         float64
	}{
		{0, 0, "stable", 0}, {100, 100, "stable", 0}, {110, 100, "up", 10}, {109, 100, "stable", 9}, {90, 100, "down", -10},
		{91, 100, "stable", -9}, {100, 0, "up", 100}, {0, 100, "down", -100}, {10, 1, "stable", 900}, {19, 1, "up", 1800},
		{1000, 3, "up", 33233.3}, {math.MaxInt64 / 2, 1, "up", float64(math.MaxInt64/2-1) * 100},
	} {
		trend, pct := trendOf(c.day, c.before)
		if trend != c.trend {
			t.Errorf("%d after %d: trend: got %q, want %q", c.day, c.before, trend, c.trend)
		} else if math.Abs(pct-c.pct) > 1e-9*math.Abs(c.pct) {
			t.Errorf("%d after %d: math.Abs(pct-c.pct): got %v, want at most %v", c.day, c.before, math.Abs(pct-c.pct),
				1e-9*math.Abs(c.pct))
		}
	}
}

func openModel(id, category string, online int32) *catalogv1.PublicModel {
	return &catalogv1.PublicModel{Id: id, Name: "Name", Category: category, Kind: "open", Active: true,
		OnlineProviders: online, InputPrice: 0.15, MinVramGb: 24, PricingUnit: "per_1m_tokens"}
}

type demandBody struct {
	Code int
	Msg  string
	Data struct {
		Models []json.RawMessage
		Total  int
	}
}

func (b *bundle) wanted(t testing.TB, category string) (demandBody, Answer) {
	t.Helper()
	c := with("", "")
	c.Query.Set("category", category)
	a, err := b.ModelDemand(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	var got demandBody
	b.decode(t, a, &got)
	return got, a
}

func TestDemandJoinsCatalogAndLedger(t *testing.T) {
	b := setup(t)
	gateway, retired := openModel("vendor/x", "llm", 1), openModel("old", "llm", 1)
	gateway.Kind, retired.Active = "gateway", false
	b.models.list = []*catalogv1.PublicModel{openModel("a", "llm", 2), openModel("b", "image", 0),
		openModel("c", "llm", 0), gateway, retired}
	b.ledger.demand = []*billingv1.ModelDemand{
		{ModelId: "c", Requests_24H: 40, RequestsBefore: 10, Tokens_24H: 9, Revenue_24HNanoUsd: 2_500_000_000,
			Payout_24HNanoUsd: 2_000_000_000, AvgLatencyMs: 12.6},
		{ModelId: "a", Requests_24H: 5, Payout_24HNanoUsd: 3_000_000_001}, {ModelId: "gone", Requests_24H: 999},
		{ModelId: "vendor/x", Requests_24H: 7},
	}
	all, _ := b.wanted(t, "")
	switch {
	case all.Code != 0:
		t.Fatalf("all.Code: got %d, want 0", all.Code)
	case all.Msg != "success":
		t.Fatalf(`all.Msg: got %q, want "success"`, all.Msg)
	case all.Data.Total != 3:
		t.Fatalf("all.Data.Total: got %d, want 3", all.Data.Total)
	case len(all.Data.Models) != 3:
		t.Fatalf("len(all.Data.Models): got %d, want 3, in %+v", len(all.Data.Models), all)
	}
	want := []string{
		`{"model_id":"c","model_name":"Name","category":"llm","pricing_unit":"per_1m_tokens","input_price":0.15,` +
			`"output_price":0,"online_providers":0,` +
			`"requests_24h":40,"tokens_24h":9,"revenue_24h":2.5,"avg_latency_ms":13,"demand_trend":"up",` +
			`"demand_change_pct":300,"est_daily_earnings":2,"min_vram_gb":24}`,
		`"est_daily_earnings":1.5,`, `"model_id":"b"`,
	}
	for i, part := range want {
		if !strings.Contains(string(all.Data.Models[i]), part) {
			t.Errorf("row %d is %s, want %s", i, all.Data.Models[i], part)
		}
	}
	if llm, _ := b.wanted(t, "llm"); llm.Data.Total != 2 {
		t.Errorf("llm: got %d, want 2", llm.Data.Total)
	}
	if _, a := b.wanted(t, "text-generation"); !strings.Contains(string(a.JSON), `"models":[],"total":0`) {
		t.Errorf("an unknown category: got %q, want %q in it", string(a.JSON), `"models":[],"total":0`)
	}
}

// A provider cannot serve a gateway model, however many requests there are for it.
func TestGatewayModelsAreNoDemand(t *testing.T) {
	b := setup(t)
	gateway := openModel("openai/x", "llm", 1)
	gateway.Kind = "gateway"
	b.models.list = []*catalogv1.PublicModel{gateway, openModel("openai/open", "llm", 1)}
	b.ledger.demand = []*billingv1.ModelDemand{{ModelId: "openai/x", Requests_24H: 1000, Revenue_24HNanoUsd: 1 << 40},
		{ModelId: "openai/open", Requests_24H: 1}}
	for _, category := range []string{"", "llm"} {
		got, a := b.wanted(t, category)
		if got.Data.Total != 1 {
			t.Errorf("category %q: got %d models, want 1", category, got.Data.Total)
		}
		if strings.Contains(string(a.JSON), `"openai/x"`) {
			t.Errorf("category %q: got %s, want it without the gateway model", category, a.JSON)
		}
	}
}

func TestDemandIsKeptAndOutlivesItsPeers(t *testing.T) {
	synctest.Test(t, demandOutlivesItsPeers)
}

func demandOutlivesItsPeers(t *testing.T) {
	b := setup(t)
	b.models.list = []*catalogv1.PublicModel{openModel("a", "llm", 1)}
	b.wanted(t, "")
	b.clock.Advance(59 * time.Second)
	b.wanted(t, "llm")
	if b.ledger.asked != 1 {
		t.Errorf("the ledger was asked within a minute: got %d times, want 1", b.ledger.asked)
	}
	b.ledger.err = errors.New("away")
	b.clock.Advance(time.Minute)
	for range 10 {
		synctest.Wait()
		if got, a := b.wanted(t, ""); got.Data.Total != 1 {
			t.Errorf("while the ledger is away: Data.Total: got %d, want 1", got.Data.Total)
		} else if a.Header.Get("Age") != "119" {
			t.Errorf(`while the ledger is away: a.Header.Get("Age"): got %q, want "119"`, a.Header.Get("Age"))
		}
	}
	if b.ledger.asked != 2 {
		t.Errorf("a ledger that is away was asked: got %d, want 2", b.ledger.asked)
	}
	b.clock.Advance(time.Hour)
	if _, err := b.ModelDemand(t.Context(), with("", "")); apierror.Of(err).Status != 503 {
		t.Errorf("an hour later: %v", err)
	}
	b.ledger.err = nil
	b.clock.Advance(refreshRetry)
	if _, a := b.wanted(t, ""); a.Header.Get("Age") != "0" {
		t.Errorf(`the ledger is back: got %q, want "0"`, a.Header.Get("Age"))
	}
}

// stuck is an API whose ledger answers once and then hangs until its callers give up.
func stuck(t *testing.T) *bundle {
	b := setup(t)
	b.models.list = []*catalogv1.PublicModel{openModel("a", "llm", 1)}
	b.wanted(t, "")
	b.ledger.hangs = true
	b.clock.Advance(testConfig.DemandFor)
	return b
}

func TestTheOldDemandIsGivenWhileANewOneIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := stuck(t)
		began := time.Now()
		for range 10 {
			if got, a := b.wanted(t, ""); got.Data.Total != 1 {
				t.Errorf("Data.Total: got %d, want 1", got.Data.Total)
			} else if a.Header.Get("Age") != "60" {
				t.Errorf(`a.Header.Get("Age"): got %q, want "60"`, a.Header.Get("Age"))
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("callers waited: got %v, want 0", took)
		}
		// The pause is counted from when the failure was known.
		synctest.Wait()
		b.clock.Advance(refreshRetry)
		time.Sleep(testConfig.CallTimeout) //nolint:forbidigo // the bubble's time
		synctest.Wait()
		b.wanted(t, "")
		synctest.Wait()
		if b.ledger.asked != 2 {
			t.Errorf("the ledger was asked: got %d, want 2", b.ledger.asked)
		}
	})
}

func TestOnlyWhoFindsNoDemandWaitsAndNoLongerThanItLikes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := stuck(t)
		b.clock.Advance(testConfig.DemandKept)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), testConfig.CallTimeout/4)
		defer cancel()
		if _, err := b.ModelDemand(ctx, with("", "")); err == nil {
			t.Error("a demand of an hour ago is given")
		}
		if took := time.Since(began); took != testConfig.CallTimeout/4 {
			t.Errorf("who gave up waited: got %v, want %v", took, testConfig.CallTimeout/4)
		}
		if _, err := b.ModelDemand(t.Context(), with("", "")); apierror.Of(err).Status != 503 {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != testConfig.CallTimeout {
			t.Errorf("it took: got %v, want %v", took, testConfig.CallTimeout)
		} else if b.ledger.asked != 2 {
			t.Errorf("b.ledger.asked: got %d, want 2", b.ledger.asked)
		}
	})
}

func TestDemandIsBounded(t *testing.T) {
	b := setup(t)
	for n := range 2500 {
		b.models.list = append(b.models.list, openModel(fmt.Sprintf("m%04d", n), "llm", 1))
	}
	b.ledger.demand = []*billingv1.ModelDemand{{ModelId: "m2499", Requests_24H: 1}}
	got, _ := b.wanted(t, "llm")
	if got.Data.Total != demandRows {
		t.Errorf("Data.Total: got %d, want %d", got.Data.Total, demandRows)
	} else if !strings.Contains(string(got.Data.Models[0]), "m2499") {
		t.Errorf(`got.Data.Models[0]: got %q, want "m2499" in it`, string(got.Data.Models[0]))
	}
}
