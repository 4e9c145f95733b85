package quote_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/pkg/money"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/quote"
)

var now = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func nano(dollars float64) money.NanoUSD { return money.NanoUSD(math.Round(dollars * 1e9)) }

func said(source string, dollars float64, ago time.Duration) quote.Said {
	return quote.Said{Source: source, Rate: nano(dollars), At: now.Add(-ago)}
}

func TestAPriceNeedsTwoSourcesThatAgreeAndAreNew(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		said []quote.Said
		want float64 // 0: none
	}{
		"two that agree":                  {[]quote.Said{said("a", 2, 0), said("b", 2.06, time.Minute)}, 2.03},
		"two that differ by more than 3%": {[]quote.Said{said("a", 2, 0), said("b", 2.0601, 0)}, 0},
		"one":                             {[]quote.Said{said("a", 2, 0), said("a", 2, time.Minute)}, 0},
		"none":                            {nil, 0},
		"one that is too old":             {[]quote.Said{said("a", 2, 0), said("b", 2, 5*time.Minute+1)}, 0},
		"as old as may be":                {[]quote.Said{said("a", 2, 0), said("b", 2, 5*time.Minute)}, 2},
		"20% up within an hour": {[]quote.Said{said("a", 2.4, 0), said("b", 2.4, 0),
			said("a", 2, 59*time.Minute)}, 2.4},
		"more than 20% up within an hour": {[]quote.Said{said("a", 2.41, 0), said("b", 2.41, 0),
			said("a", 2, 59*time.Minute)}, 0},
		"more than 20% down within an hour": {[]quote.Said{said("a", 2, 0), said("b", 2, 0),
			said("a", 2.41, 30*time.Minute)}, 0},
	} {
		got, err := quote.Judge(c.said, now)
		if want := nano(c.want); got.Rate != want {
			t.Errorf("%s: got %d and the error %v, want %d", name, got.Rate, err, want)
		}
		if none := errors.Is(err, quote.ErrNone); none != (c.want == 0) {
			t.Errorf("%s: got the error %v, want it only without a price", name, err)
		}
	}
	got, err := quote.Judge([]quote.Said{said("b", 2, 0), said("a", 2, time.Minute)}, now)
	if err != nil {
		t.Fatal(err)
	}
	if got.Source != "a+b" {
		t.Errorf("source: got %q, want both names", got.Source)
	}
	if want := now.Add(-time.Minute); !got.At.Equal(want) {
		t.Errorf("time: got %v, want that of the older one, %v", got.At, want)
	}
}

// kept is a store in memory.
type kept []quote.Said

func (k *kept) Add(_ context.Context, _, source string, rate money.NanoUSD) error {
	*k = append(kept{{Source: source, Rate: rate, At: now}}, *k...)
	return nil
}

func (k *kept) Said(context.Context, string, time.Duration) ([]quote.Said, time.Time, error) {
	return *k, now, nil
}

func TestSourcesOnTheWebAreReadByTheirPath(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a":
			fmt.Fprint(w, `{"data": {"price": "1.23"}}`)
		case "/b":
			fmt.Fprint(w, `{"usd": 1.24}`)
		default:
			http.Error(w, "no", http.StatusTeapot)
		}
	}))
	defer server.Close()
	cfg := quote.Config{Sources: []quote.SourceConfig{
		{Token: "254:native", Name: "a", URL: config.NewSecret(server.URL + "/a?key=secret"), Path: "data.price"},
		{Token: "254:native", Name: "down", URL: config.NewSecret(server.URL + "/c?key=secret"), Path: "x"},
		{Token: "254:native", Name: "away", URL: config.NewSecret("http://127.0.0.1:1/secret"), Path: "x"},
		{Token: "254:native", Name: "b", URL: config.NewSecret(server.URL + "/b"), Path: "usd"}}}
	if err := cfg.Validate(true); err != nil {
		t.Fatal(err)
	}
	if err := cfg.Validate(false); err == nil {
		t.Error("http outside of development: got no error, want one")
	}
	keeper, err := cfg.Keeper(&kept{})
	if err != nil {
		t.Fatal(err)
	}
	if err := keeper.Fetch(t.Context()); err == nil {
		t.Error("got no error, want one")
	} else if strings.Contains(err.Error(), "secret") {
		t.Errorf("got the error %v, want one that shows no key", err)
	}
	got, err := keeper.Quote(t.Context(), chain.SVC)
	if err != nil {
		t.Fatal(err)
	}
	if want := money.NanoUSD(1_235_000_000); got.Rate != want {
		t.Errorf("got %d, want %d", got.Rate, want)
	}
	if last := keeper.Last(chain.SVC); last != got.Rate {
		t.Errorf("last: got %d, want %d", last, got.Rate)
	}
}

func TestFixedPricesAreForDevelopment(t *testing.T) {
	t.Parallel()
	var cfg quote.Config
	if err := cfg.UnmarshalText([]byte(`{"fixed": {"254:native": "0.5"}}`)); err != nil {
		t.Fatal(err)
	}
	if err := cfg.Validate(false); err == nil {
		t.Error("elsewhere: got no error, want one")
	}
	keeper, err := cfg.Keeper(&kept{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := keeper.Quote(t.Context(), chain.SVC)
	if err != nil {
		t.Fatal(err)
	}
	if got.Rate != 500_000_000 {
		t.Errorf("got %+v, want half a dollar", got)
	} else if got.Source != "fixed" {
		t.Errorf("got the source %q, want fixed", got.Source)
	}
	if _, err := keeper.Quote(t.Context(), chain.Base); !errors.Is(err, quote.ErrNone) {
		t.Errorf("another coin: got the error %v, want %v", err, quote.ErrNone)
	}
}

func FuzzAPriceIsAboveZeroAndBelowABillion(f *testing.F) {
	for _, seed := range []string{`{"a":1}`, `{"a":"1e99"}`, `{"a":-1}`, `{"a":{"a":0}}`, `[]`, `{"a":"0x1p5"}`,
		`{"a":1e-9}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		rate, err := quote.Find([]byte(text), "a")
		if err == nil && (rate <= 0 || rate > 1_000_000_000*1_000_000_000) {
			t.Errorf("%s: got %d", text, rate)
		}
	})
}
