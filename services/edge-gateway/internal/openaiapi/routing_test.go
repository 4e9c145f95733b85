package openaiapi

import (
	"encoding/json"
	"slices"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

const (
	anID    = "01890000-0000-7000-8000-00000000000a"
	otherID = "01890000-0000-7000-8000-00000000000b"
)

func TestRoutingIsRead(t *testing.T) {
	r, err := Parse(Chat, []byte(with(`"models":["a","b/c","a"],"provider":{"order":["`+anID+`"],"only":["`+otherID+`","`+
		anID+`"],"ignore":[],`+
		`"allow_fallbacks":false,"quantizations":["fp8"],"sort":"latency","max_price":{"prompt":1.5,"completion":"2",`+
		`"image":0.000000001,"audio":3}}`)))
	if err != nil {
		t.Fatal(err)
	}
	got := r.Routing
	switch {
	case !slices.Equal(got.Order, []string{anID}):
		t.Errorf("Order: got %q, want %q", got.Order, []string{anID})
	case !slices.Equal(got.Only, []string{otherID, anID}):
		t.Errorf("Only: got %q, want %q", got.Only, []string{otherID, anID})
	case len(got.Ignore) != 0:
		t.Errorf("len(got.Ignore): got %d, want 0, in %+v", len(got.Ignore), got)
	case !got.NoFallbacks:
		t.Error("NoFallbacks: got false, want true")
	case !slices.Equal(got.Quantizations, []string{"fp8"}):
		t.Errorf("Quantizations: got %q, want %q", got.Quantizations, []string{"fp8"})
	case got.Sort != ByLatency:
		t.Errorf("Sort: got %q, want %q", got.Sort, ByLatency)
	case !slices.Equal(r.Models, []string{"a", "b/c", "a"}):
		t.Errorf("r.Models: got %q, want %q", r.Models, []string{"a", "b/c", "a"})
	}
	m := got.MaxPrice
	switch {
	case *m.Prompt != 1_500_000:
		t.Errorf("*m.Prompt: got %d, want 1_500_000", *m.Prompt)
	case *m.Completion != 2_000_000:
		t.Errorf("*m.Completion: got %d, want 2_000_000", *m.Completion)
	case *m.Image != 1000:
		t.Errorf("*m.Image: got %d, want 1000", *m.Image)
	case *m.Audio != 3_000_000_000_000:
		t.Errorf("*m.Audio: got %d, want 3_000_000_000_000", *m.Audio)
	}
}

func TestMaxPriceSpeaksOfTheUnit(t *testing.T) {
	price := func(p money.PicoUSD) *money.PicoUSD { return &p }
	for _, c := range []struct {
		bound  MaxPrice
		rates  money.Rates
		within bool
	}{
		{MaxPrice{}, money.Rates{Input: 1 << 60, Output: 1 << 60}, true},
		{MaxPrice{Prompt: price(5)}, money.Rates{Input: 5, Output: 9}, true},
		{MaxPrice{Prompt: price(5)}, money.Rates{Input: 6}, false},
		{MaxPrice{Completion: price(0)}, money.Rates{Output: 1}, false},
		{MaxPrice{Prompt: price(0), Completion: price(0), Audio: price(0)}, money.Rates{Unit: money.Image, Output: 7}, true},
		{MaxPrice{Image: price(6)}, money.Rates{Unit: money.Image, Output: 7}, false},
		{MaxPrice{Image: price(0), Prompt: price(0)}, money.Rates{Unit: money.AudioMinute, Input: 7}, true},
		{MaxPrice{Audio: price(6)}, money.Rates{Unit: money.AudioMinute, Input: 7}, false},
	} {
		if c.bound.Allows(c.rates) != c.within {
			t.Errorf("%+v within %+v: %t", c.rates, c.bound, !c.within)
		}
	}
}

// FuzzRouting: what is accepted holds what its type promises, is what
// encoding/json reads, and is never sent on.
func FuzzRouting(f *testing.F) {
	for _, s := range []string{
		`{}`, `null`, `[]`, `{"order":["` + anID + `"]}`, `{"order":["` + anID + `","` + anID + `"]}`, `{"only":[]}`,
		`{"ignore":["` + anID + `"],"order":["` + anID + `"]}`, `{"sort":"price"}`, `{"sort":{}}`, `{"sort":"pr\u0069ce"}`,
		`{"max_price":{"prompt":0.1,"completion":"1"}}`, `{"max_price":{"prompt":1e-7}}`, `{"max_price":{"image":-0}}`,
		`{"quantizations":["fp8","FP8"]}`, `{"allow_fallbacks":false}`, `{"allow_fallbacks":0}`, `{"x":1}`, `{"Order":[]}`,
		`{"order":[`,
	} {
		f.Add(s, `["a"]`)
		f.Add(`{}`, s)
	}
	f.Add(`{}`, `["a","a","","b"]`)
	f.Fuzz(func(t *testing.T, provider, models string) {
		body := with(`"provider":` + provider + `,"models":` + models)
		r, err := Parse(Chat, []byte(body))
		if err != nil {
			if refused, ok := fault.As(err); !ok {
				t.Fatalf("got the error %v, want a fault", err)
			} else if refused.Kind != fault.Invalid {
				t.Fatalf("refused.Kind: got %d, want %d, with %s", refused.Kind, fault.Invalid, body)
			}
			return
		}
		got := r.Routing
		for _, list := range [][]string{got.Order, got.Only, got.Ignore} {
			seen := map[string]bool{}
			for _, id := range list {
				if p, err := ids.ParseProvider(id); err != nil || p.String() != id || seen[id] || len(list) > MaxProviders {
					t.Fatalf("%s: %v", body, list)
				}
				seen[id] = true
			}
		}
		for _, id := range slices.Concat(got.Order, got.Only) {
			if slices.Contains(got.Ignore, id) {
				t.Fatalf("%s: %s is wanted and ignored", body, id)
			}
		}
		var want struct {
			Provider *struct {
				Order          []string `json:"order"`
				Only           []string `json:"only"`
				Ignore         []string `json:"ignore"`
				AllowFallbacks *bool    `json:"allow_fallbacks"`
				Quantizations  []string `json:"quantizations"`
				Sort           string   `json:"sort"`
			} `json:"provider"`
			Models []string `json:"models"`
		}
		if err := json.Unmarshal([]byte(body), &want); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if !slices.Equal(r.Models, want.Models) {
			t.Fatalf("r.Models: got %q, want %q, with %s", r.Models, want.Models, body)
		}
		if p := want.Provider; p != nil && (len(got.Order) != len(p.Order) || len(got.Only) != len(p.Only) ||
			len(got.Ignore) != len(p.Ignore) ||
			got.NoFallbacks != (p.AllowFallbacks != nil && !*p.AllowFallbacks) ||
			!slices.Equal(got.Quantizations, p.Quantizations) || string(got.Sort) != p.Sort) {
			t.Fatalf("%s: %+v", body, got)
		}
		sent := r.Body("m", 7).Body
		var object map[string]json.RawMessage
		if err := json.Unmarshal(sent, &object); err != nil || object["provider"] != nil || object["models"] != nil {
			t.Fatalf("%s was sent on as %s", body, sent)
		}
	})
}

func TestEveryKindOfBodyIsRouted(t *testing.T) {
	for kind, members := range map[Kind]string{
		Chat: msgs, Completion: `"prompt":"a"`, Embeddings: `"input":"a"`, Images: `"prompt":"a"`,
	} {
		r, err := Parse(kind, []byte(`{"models":["b"],"model":"m",`+members+`,"provider":{"only":["`+anID+`"]}}`))
		if err != nil {
			t.Errorf("kind %d: %v", kind, err)
			continue
		}
		sent := r.Body("m", 7).Body
		var object map[string]json.RawMessage
		switch err := json.Unmarshal(sent, &object); {
		case err != nil:
			t.Errorf("kind %d: got the error %v, want none", kind, err)
		case object["provider"] != nil:
			t.Errorf(`kind %d: object["provider"]: got %q, want nil, with %s`, kind, object["provider"], sent)
		case object["models"] != nil:
			t.Errorf(`kind %d: object["models"]: got %q, want nil, with %s`, kind, object["models"], sent)
		case !slices.Equal(r.Models, []string{"b"}):
			t.Errorf("kind %d: r.Models: got %q, want %q, with %s", kind, r.Models, []string{"b"}, sent)
		case !slices.Equal(r.Routing.Only, []string{anID}):
			t.Errorf("kind %d: r.Routing.Only: got %q, want %q, with %s", kind, r.Routing.Only, []string{anID}, sent)
		}
		if _, err := Parse(kind, []byte(`{"model":"m",`+members+`,"provider":{"x":1}}`)); !fault.Is(err, fault.InvalidValue) {
			t.Errorf("kind %d: got the error %v, want the reason %v", kind, err, fault.InvalidValue)
		}
	}
}
