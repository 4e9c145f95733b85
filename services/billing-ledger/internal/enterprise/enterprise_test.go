package enterprise_test

import (
	"strings"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/services/billing-ledger/internal/enterprise"
	"svc.internal/services/billing-ledger/internal/limit"
)

func TestTermsWithoutAMeaningAreRefused(t *testing.T) {
	t.Parallel()
	of := func(class limit.Class, c enterprise.Category) enterprise.Terms {
		return enterprise.Terms{Note: "n", Categories: map[limit.Class]enterprise.Category{class: c}}
	}
	for field, terms := range map[string]enterprise.Terms{
		"note":                             {},
		"note ":                            {Note: strings.Repeat("x", 201)},
		"note  ":                           {Note: "line\nbreak"},
		"requests_per_minute":              {Note: "n", RequestsPerMinute: -1},
		"requests_per_minute ":             {Note: "n", RequestsPerMinute: enterprise.MaxPerMinute + 1},
		"discount_basis_points":            {Note: "n", Discount: -1},
		"discount_basis_points ":           {Note: "n", Discount: enterprise.MaxDiscount + 1},
		"discount_basis_points  ":          {Note: "n", Discount: 10_000},
		"categories.category":              of(limit.ZeroPriced, enterprise.Category{}),
		"categories.requests_per_minute":   of(limit.LLM, enterprise.Category{RequestsPerMinute: -2}),
		"categories.concurrent_requests":   of(limit.LLM, enterprise.Category{ConcurrentRequests: -1}),
		"categories.tokens_per_day":        of(limit.LLM, enterprise.Category{TokensPerDay: -1}),
		"categories.tokens_per_day ":       of(limit.LLM, enterprise.Category{TokensPerDay: enterprise.MaxTokens + 1}),
		"categories.tokens_per_day  image": of(limit.Image, enterprise.Category{TokensPerDay: 1}),
	} {
		want, _, _ := strings.Cut(field, " ")
		err := terms.Validate()
		got := ""
		if f, ok := fault.As(err); ok && f.Reason == fault.InvalidValue {
			got = f.Param
		}
		if got != want {
			t.Errorf("%q: got %v, want %s on %s", field, err, fault.InvalidValue, want)
		}
	}
	good := of(limit.Image, enterprise.Category{RequestsPerMinute: limit.Unlimited, ConcurrentRequests: 4})
	if err := good.Validate(); err != nil {
		t.Errorf("terms of images: %v", err)
	}
}
