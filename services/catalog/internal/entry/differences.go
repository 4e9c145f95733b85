package entry

import (
	"slices"

	"svc.internal/pkg/money"
)

// Differences names the fields in which two models differ, prices included, as operators write
// them.
func Differences(a, b Model) []string {
	var fields []string
	for _, f := range []struct {
		name string
		same bool
	}{
		{"slug", a.Slug == b.Slug},
		{"name", a.Name == b.Name},
		{"category", a.Category == b.Category},
		{"kind", a.Kind == b.Kind},
		{"tier", a.Tier == b.Tier},
		{"active", a.Active == b.Active},
		{"context_length", a.ContextTokens == b.ContextTokens},
		{"max_output_tokens", a.MaxOutputTokens == b.MaxOutputTokens},
		{"min_vram_gb", a.MinVRAMGB == b.MinVRAMGB},
		{"capabilities", slices.Equal(a.Capabilities, b.Capabilities)},
		{"supported_parameters", slices.Equal(a.Parameters, b.Parameters)},
		{"deprecated_at", a.DeprecatedAt.Equal(b.DeprecatedAt)},
		{"successor", a.Successor == b.Successor},
	} {
		if !f.same {
			fields = append(fields, f.name)
		}
	}
	return append(fields, differentRates(a.Price.Rates, b.Price.Rates)...)
}

func differentRates(a, b money.Rates) []string {
	var fields []string
	for _, f := range []struct {
		name string
		same bool
	}{
		{"input_price", a.Input == b.Input},
		{"output_price", a.Output == b.Output},
		{"payout_input_price", a.PayoutInput == b.PayoutInput},
		{"payout_output_price", a.PayoutOutput == b.PayoutOutput},
		{"payout_cached_input_price", a.PayoutCachedInput == b.PayoutCachedInput},
	} {
		if !f.same {
			fields = append(fields, f.name)
		}
	}
	return fields
}
