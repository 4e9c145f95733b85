package admission

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"

	"svc.internal/services/edge-gateway/internal/openaiapi"
)

// Whatever headers and body say: a pin of the headers stands and is not shut
// out by the body, and nobody serves whom the body excludes.
func TestAHeaderWinsAndTheBodyIsKept(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	ids := []string{
		"01890000-0000-7000-8000-00000000000a", "01890000-0000-7000-8000-00000000000b",
		"01890000-0000-7000-8000-00000000000c", "01890000-0000-7000-8000-00000000000d",
	}
	some := func(from []string) []string {
		var out []string
		for _, id := range from {
			if r.IntN(2) == 0 {
				out = append(out, id)
			}
		}
		return out
	}
	for range 20_000 {
		body := openaiapi.Routing{NoFallbacks: r.IntN(2) == 0}
		wanted := some(ids)
		if body.Order = some(wanted); r.IntN(2) == 0 {
			body.Only = wanted
		}
		body.Ignore = some(slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(wanted, id) }))
		before := slices.Concat(body.Order, body.Only, body.Ignore)
		h := http.Header{}
		if r.IntN(2) == 0 {
			h.Set(ProviderHeader, ids[r.IntN(len(ids))])
		}
		if r.IntN(2) == 0 {
			h.Set(FallbacksHeader, []string{"true", "false"}[r.IntN(2)])
		}
		said, err := ParsePin(h)
		if err != nil {
			t.Fatal(err)
		}
		pin, p := Choose(said, body)
		may := func(id string) bool {
			return (len(p.Only) == 0 || slices.Contains(p.Only, id)) && !slices.Contains(p.Ignore, id)
		}
		switch {
		case said.ProviderID != "" && (pin.ProviderID != said.ProviderID || !may(pin.ProviderID) || len(p.Order) > 0),
			h.Get(FallbacksHeader) != "" && said.ProviderID != "" && pin.AllowFallbacks != said.AllowFallbacks,
			said.ProviderID == "" && pin.ProviderID != "" &&
				!slices.Contains(slices.Concat(body.Order, body.Only), pin.ProviderID):
			t.Fatalf("headers %v, body %+v: %+v, %+v", h, body, pin, p)
		}
		for _, id := range ids {
			excluded := slices.Contains(body.Ignore, id) || len(body.Only) > 0 && !slices.Contains(body.Only, id)
			bound := pin.ProviderID != "" && !pin.AllowFallbacks
			if excluded && id != said.ProviderID && may(id) && (!bound || id == pin.ProviderID) {
				t.Fatalf("headers %v, body %+v: %s may serve by %+v, %+v", h, body, id, pin, p)
			}
		}
		if !slices.Equal(before, slices.Concat(body.Order, body.Only, body.Ignore)) {
			t.Fatalf("the request afterwards: got %q, want %q", slices.Concat(body.Order, body.Only, body.Ignore), before)
		}
	}
}

// The router takes no more ids than a body's list may have.
func TestAPinDoesNotMakeAListTooLong(t *testing.T) {
	const pinned = "01890000-0000-7000-8000-00000000000a"
	full := make([]string, openaiapi.MaxProviders)
	for i := range full {
		full[i] = fmt.Sprintf("01890000-0000-7000-8001-%012x", i)
	}
	pin, p := Choose(Pin{ProviderID: pinned, AllowFallbacks: true}, openaiapi.Routing{Only: full})
	switch {
	case len(p.Only) != openaiapi.MaxProviders:
		t.Errorf("len(p.Only): got %d, want %d, in %v", len(p.Only), openaiapi.MaxProviders, p.Only)
	case !slices.Contains(p.Only, pin.ProviderID):
		t.Errorf("p.Only: got %q, want %q in it", p.Only, pin.ProviderID)
	case !slices.Equal(p.Only[:len(full)-1], full[:len(full)-1]):
		t.Errorf("p.Only[:len(full)-1]: got %q, want %q", p.Only[:len(full)-1], full[:len(full)-1])
	}
	full[3] = pinned
	_, p = Choose(Pin{ProviderID: pinned, AllowFallbacks: true}, openaiapi.Routing{Only: full})
	if !slices.Equal(p.Only, full) {
		t.Errorf("with the pin among them: got %q, want %q", p.Only, full)
	}
	if _, p := Choose(Pin{ProviderID: pinned}, openaiapi.Routing{Only: full, NoFallbacks: true}); len(p.Only) != 0 {
		t.Errorf("without fallbacks: got %d, want 0, in %v", len(p.Only), p.Only)
	}
}
