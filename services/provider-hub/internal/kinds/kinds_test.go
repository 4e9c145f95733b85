package kinds

import "testing"

func TestVendorsServeGatewayModelsAndNobodyElseDoes(t *testing.T) {
	m := &Models{}
	for _, vendor := range []bool{false, true} {
		if got := m.Refusal(vendor, "openai/x"); got != "" {
			t.Errorf("before the catalog was heard, of a vendor %t: got %q, want nothing", vendor, got)
		}
	}
	m.Set(map[string]bool{"openai/x": true, "acme/open": false})
	for _, c := range []struct {
		vendor bool
		model  string
		want   string
	}{
		{true, "openai/x", ""},
		{true, "acme/open", "it is an open model, and a vendor serves gateway models alone"},
		{true, "nobodys", "the catalog has no such model, and a vendor serves its gateway models alone"},
		{false, "openai/x", "it is a gateway model, which its vendor alone serves"},
		{false, "acme/open", ""}, {false, "nobodys", ""},
	} {
		if got := m.Refusal(c.vendor, c.model); got != c.want {
			t.Errorf("%s, of a vendor %t: got %q, want %q", c.model, c.vendor, got, c.want)
		}
	}
}

func TestWithoutACatalogNothingIsRefused(t *testing.T) {
	var none *Models
	if none.Known() {
		t.Error("Known: got true, want false")
	}
	if got := none.Refusal(false, "openai/x"); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}
