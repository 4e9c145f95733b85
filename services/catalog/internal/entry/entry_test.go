package entry

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
)

func draft(id string) Draft { return Draft{ID: id, ContextTokens: 8192, Active: true} }

func TestWhatIsLeftOutIsFilledIn(t *testing.T) {
	d := draft("vendor/Model-1:latest")
	d.Capabilities = []string{"tools", "chat", "tools"}
	got, err := d.Normalize()
	want := Draft{ID: d.ID, Slug: "vendor-Model-1:latest", Name: d.ID, Category: LLM, Kind: Open, Tier: Standard,
		Active:        true,
		ContextTokens: 8192, MaxOutputTokens: 8192, Capabilities: []string{"chat", "tools"}}
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if !got.Equal(want) {
		t.Errorf("d.Normalize(): got %+v, want %+v", got, want)
	}
	if again, err := got.Normalize(); err != nil {
		t.Errorf("a second time: got the error %v, want none", err)
	} else if !again.Equal(got) {
		t.Errorf("a second time: again: got %+v, want %+v", again, got)
	}
	for _, d.Category = range []Category{Embedding, Image, Audio} {
		if got, err := d.Normalize(); err != nil {
			t.Errorf("a model of category %s: got the error %v, want none", d.Category, err)
		} else if got.MaxOutputTokens != 0 {
			t.Errorf("a model of category %s: MaxOutputTokens: got %d, want 0", d.Category, got.MaxOutputTokens)
		}
	}
	if !slices.Equal(d.Capabilities, []string{"tools", "chat", "tools"}) {
		t.Errorf("the caller's list was changed: got %q, want %q", d.Capabilities, []string{"tools", "chat", "tools"})
	}
}

func TestABadFieldIsRefusedByName(t *testing.T) {
	for _, c := range []struct {
		field string
		spoil func(*Draft)
	}{
		{"model_id", func(d *Draft) { d.ID = "" }},
		{"model_id", func(d *Draft) { d.ID = strings.Repeat("x", 129) }},
		{"slug", func(d *Draft) { d.Slug = "a/b" }},
		{"slug", func(d *Draft) { d.Slug = ".." }},
		{"slug", func(d *Draft) { d.Slug = strings.Repeat("x", 129) }},
		{"name", func(d *Draft) { d.Name = "two\nlines" }},
		{"name", func(d *Draft) { d.Name = "\xff" }},
		{"name", func(d *Draft) { d.Name = strings.Repeat("ü", 129) }},
		{"category", func(d *Draft) { d.Category = "video" }},
		{"kind", func(d *Draft) { d.Kind = "closed" }},
		{"tier", func(d *Draft) { d.Tier = "gold" }},
		{"context_length", func(d *Draft) { d.ContextTokens = 0 }},
		{"context_length", func(d *Draft) { d.ContextTokens = maxContextTokens + 1 }},
		{"max_output_tokens", func(d *Draft) { d.MaxOutputTokens = -1 }},
		{"max_output_tokens", func(d *Draft) { d.MaxOutputTokens = 8193 }},
		{"model_id", func(d *Draft) { d.ID = "catalog" }},
		{"model_id", func(d *Draft) { d.ID = "a/files" }},
		{"min_vram_gb", func(d *Draft) { d.MinVRAMGB = -1 }},
		{"successor", func(d *Draft) { d.Successor = "a//b" }},
		{"successor", func(d *Draft) { d.Successor = d.ID }},
		{"min_vram_gb", func(d *Draft) { d.MinVRAMGB = maxVRAMGB + 1 }},
		{"capabilities", func(d *Draft) { d.Capabilities = []string{"Chat"} }},
		{"capabilities", func(d *Draft) { d.Capabilities = make([]string, maxCapabilities+1) }},
		{"supported_parameters", func(d *Draft) { d.Parameters = []string{""} }},
		{"supported_parameters", func(d *Draft) { d.Parameters = []string{strings.Repeat("x", maxWordBytes+1)} }},
		{"supported_parameters", func(d *Draft) { d.Parameters = make([]string, maxParameters+1) }},
	} {
		d := draft("m")
		c.spoil(&d)
		_, err := d.Normalize()
		switch f, ok := fault.As(err); {
		case !ok:
			t.Errorf("a bad %s: got the error %v, want a fault", c.field, err)
		case f.Kind != fault.Invalid:
			t.Errorf("a bad %s: f.Kind: got %d, want %d", c.field, f.Kind, fault.Invalid)
		case f.Reason != fault.InvalidValue:
			t.Errorf("a bad %s: f.Reason: got %q, want %q", c.field, f.Reason, fault.InvalidValue)
		case f.Param != c.field:
			t.Errorf("a bad %s: f.Param: got %q, want %q", c.field, f.Param, c.field)
		}
	}
}

func TestBoundsAreReachable(t *testing.T) {
	d := draft(strings.Repeat("x", 128))
	d.Name, d.ContextTokens, d.MaxOutputTokens = strings.Repeat("ü", maxNameChars), maxContextTokens, maxContextTokens
	for i := range maxParameters {
		word := fmt.Sprintf("%0*d", maxWordBytes, i)
		d.Parameters = append(d.Parameters, word)
		if i < maxCapabilities {
			d.Capabilities = append(d.Capabilities, word)
		}
	}
	if _, err := d.Normalize(); err != nil {
		t.Error(err)
	}
}

func TestReplaceKeepsAgeAndPrice(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	rates := money.Rates{Input: 2, PayoutInput: 1}
	first := replace(t, draft("m"), nil, rates, now, ids.PriceVersionID{1})
	switch {
	case first.CreatedAt != now:
		t.Fatalf("a new model: now: got %v, want %v", now, first.CreatedAt)
	case first.Price.ID != (ids.PriceVersionID{1}):
		t.Fatalf("a new model: first.Price.ID: got %v, want %v", first.Price.ID, ids.PriceVersionID{1})
	case first.Price.Rates != rates:
		t.Fatalf("a new model: rates: got %+v, want %+v", rates, first.Price.Rates)
	}
	first.DeprecatedAt = now.Add(30 * 24 * time.Hour)
	renamed := draft("m")
	renamed.Name = "another"
	second := replace(t, renamed, &first, rates, now.Add(time.Hour), ids.PriceVersionID{2})
	switch {
	case second.Name != "another":
		t.Errorf(`a renamed model: second.Name: got %q, want "another"`, second.Name)
	case second.CreatedAt != now:
		t.Errorf("a renamed model: second.CreatedAt: got %v, want %v", second.CreatedAt, now)
	case second.DeprecatedAt != first.DeprecatedAt:
		t.Errorf("a renamed model: second.DeprecatedAt: got %v, want %v", second.DeprecatedAt, first.DeprecatedAt)
	case second.Price != first.Price:
		t.Errorf("a renamed model: second.Price: got %+v, want %+v", second.Price, first.Price)
	}
	third := replace(t, renamed, &first, money.Rates{}, now.Add(time.Hour), ids.PriceVersionID{2})
	if third.Price.ID != (ids.PriceVersionID{2}) {
		t.Errorf("a model that became free: got %v, want %v", third.Price.ID, ids.PriceVersionID{2})
	}
}

// The ledger tells vendors from providers by price versions, which a change of the kind keeps.
func TestTheKindOfAModelDoesNotChange(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	rates := money.Rates{Input: 2, PayoutInput: 1}
	for _, kinds := range [][2]Kind{{Open, Gateway}, {Gateway, Open}} {
		was, wanted := draft("m"), draft("m")
		was.Kind, wanted.Kind = kinds[0], kinds[1]
		current := replace(t, was, nil, rates, now, ids.PriceVersionID{1})
		_, err := wanted.Replace(&current, rates, now, ids.PriceVersionID{2})
		if f, ok := fault.As(err); !ok {
			t.Errorf("%s becomes %s: got the error %v, want a fault", kinds[0], kinds[1], err)
		} else if f.Param != "kind" {
			t.Errorf(`%s becomes %s: f.Param: got %q, want "kind"`, kinds[0], kinds[1], f.Param)
		}
	}
}

func replace(t *testing.T, d Draft, current *Model, rates money.Rates, now time.Time, id ids.PriceVersionID) Model {
	t.Helper()
	m, err := d.Replace(current, rates, now, id)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestTheCategoryDecidesWhatThePriceIsFor(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for category, unit := range map[Category]money.Unit{
		LLM: money.Token, Multimodal: money.Token, Embedding: money.Token, Image: money.Image, Audio: money.AudioMinute,
	} {
		d := draft("m")
		d.Category = category
		replace(t, d, nil, money.Rates{Unit: unit}, now, ids.PriceVersionID{1})
		_, err := d.Replace(nil, money.Rates{Unit: (unit + 1) % 3}, now, ids.PriceVersionID{1})
		if f, ok := fault.As(err); !ok {
			t.Errorf("%s priced otherwise: got the error %v, want a fault", category, err)
		} else if f.Param != "category" {
			t.Errorf(`%s priced otherwise: f.Param: got %q, want "category"`, category, f.Param)
		}
	}
}

func TestAModelIsAnnouncedToGoThirtyDaysBeforeItDoes(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	day := func(n int) time.Time { return now.Add(time.Duration(n) * 24 * time.Hour) }
	var none time.Time
	for name, c := range map[string]struct {
		announced, wanted, want time.Time
		refused                 bool
	}{
		"nothing is said":                      {none, none, none, false},
		"in time":                              {none, day(30), day(30), false},
		"too late":                             {none, day(30).Add(-time.Microsecond), none, true},
		"in the past":                          {none, day(-1), none, true},
		"left out, it stands":                  {day(40), none, day(40), false},
		"said again, it stands":                {day(2), day(2), day(2), false},
		"put off":                              {day(2), day(3), day(3), false},
		"brought forward in time":              {day(90), day(30), day(30), false},
		"brought forward too late":             {day(90), day(29), none, true},
		"brought forward when it is all over":  {day(-1), day(-2), none, true},
		"put off beyond what can be written":   {day(2), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), none, true},
		"announced beyond what can be written": {none, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), none, true},
	} {
		current := replace(t, draft("m"), nil, money.Rates{}, day(-365), ids.PriceVersionID{1})
		current.DeprecatedAt = c.announced
		d := draft("m")
		d.DeprecatedAt = c.wanted
		got, err := d.Replace(&current, money.Rates{}, now, ids.PriceVersionID{2})
		f, ok := fault.As(err)
		switch {
		case ok != c.refused:
			t.Errorf("%s: ok: got %t, want %t", name, ok, c.refused)
		case ok && f.Param != "deprecated_at":
			t.Errorf(`%s: f.Param: got %q, want "deprecated_at"`, name, f.Param)
		case !got.DeprecatedAt.Equal(c.want):
			t.Errorf("%s: DeprecatedAt: got %v, want %v", name, got.DeprecatedAt, c.want)
		}
	}
	d := draft("m")
	d.DeprecatedAt = day(29)
	if _, err := d.Replace(nil, money.Rates{}, now, ids.PriceVersionID{1}); err == nil {
		t.Error("a new model goes without notice")
	}
}

// FuzzIDs compares the check with the rule as it is written down.
func FuzzIDs(f *testing.F) {
	for _, seed := range []string{
		"m", "vendor/model", "a/b/c", "Llama-3.1:8b_q4", "", "/", "a/", "/a", "a//b", "a/./b", "a/../b", ".", "..", "...",
		"files", "catalog", "a/files",
		"providers", "a/providers", "a/providers/b", "a/providers:1", "ä", "a b", "a\n", "a\x00", "a%2Fb", "a'--",
		strings.Repeat("a/", 64),
	} {
		f.Add(seed)
	}
	rule := regexp.MustCompile(`\A[A-Za-z0-9._:-]+(/[A-Za-z0-9._:-]+)*\z`)
	f.Fuzz(func(t *testing.T, id string) {
		segments := strings.Split(id, "/")
		want := len(id) <= 128 && rule.MatchString(id) && !slices.Contains(segments, ".") &&
			!slices.Contains(segments, "..") &&
			!slices.Contains([]string{"providers", "files"}, segments[len(segments)-1]) && id != "catalog"
		_, err := draft(id).Normalize()
		if (err == nil) != want {
			t.Errorf("%q: err == nil: got %t, want %t", id, err == nil, want)
		}
	})
}
