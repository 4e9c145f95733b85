// Package supply sums up what the providers that are online offer: per model for the
// catalog, per provider for the public.
//
// A provider counts once for a model, however many sessions it has. A provider is online
// for a model if it is active, and one of its sessions is not draining and has an engine
// that serves the model. A provider reports a window if all of its sessions do, and then
// its window is the smallest of them.
package supply

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/window"
)

const (
	// MaxOfferings bounds the providers named for one model.
	MaxOfferings = 1_000
	// MaxQuantizations bounds the quantizations named for one model.
	MaxQuantizations = 16
)

// Model is what is online for one model. Windows are in tokens, and 0 where nobody
// reports one.
type Model struct {
	ID            string
	Online        int
	Reporting     int
	MinWindow     int64
	MaxWindow     int64
	Quantizations []string
}

// Offering is one provider's offer of a model.
type Offering struct {
	Provider     string
	ProviderName string
	Window       int64
	Quantization string
	Region       string
	Probation    bool
	// Uptime is the share of the last 30 days in which the provider was online; it counts
	// if UptimeKnown.
	Uptime      float64
	UptimeKnown bool
	Figures     window.Figures
}

// Models sums up all models for which a provider is online, ordered by id. windows
// returns the catalog's window of a model, or 0. A larger report counts as the catalog's
// window.
func Models(view *presence.View, windows func(model string) int64) []Model {
	var out []Model
	for _, id := range view.Models() {
		providers := merge(view.Seats(id))
		if len(providers) == 0 {
			continue
		}
		m := Model{ID: id, Online: len(providers)}
		kinds, catalog := map[string]struct{}{}, windows(id)
		for _, o := range providers {
			if o.Quantization != "" && len(kinds) < MaxQuantizations {
				kinds[o.Quantization] = struct{}{}
			}
			if o.Window == 0 {
				continue
			}
			if catalog > 0 {
				o.Window = min(o.Window, catalog)
			}
			if m.Reporting++; m.Reporting == 1 {
				m.MinWindow = o.Window
			}
			m.MinWindow, m.MaxWindow = min(m.MinWindow, o.Window), max(m.MaxWindow, o.Window)
		}
		m.Quantizations = slices.Sorted(maps.Keys(kinds))
		out = append(out, m)
	}
	return out
}

// Offerings returns the providers that are online for a model, ordered by id.
func Offerings(view *presence.View, known *health.Registry, model string, now time.Time) []Offering {
	providers := merge(view.Seats(model))
	providers = providers[:min(len(providers), MaxOfferings)]
	for i := range providers {
		if rec := known.Find(health.Pair{Provider: providers[i].Provider, Model: model}); rec != nil {
			providers[i].Figures = rec.Window.Figures(now)
		}
	}
	return providers
}

// merge makes one offering of all sessions of a provider. Name, region and quantization
// come from the provider's newest session.
func merge(seats []*presence.Seat) []Offering {
	sorted := slices.DeleteFunc(slices.Clone(seats), func(s *presence.Seat) bool { return !s.Online() })
	slices.SortFunc(sorted, func(a, b *presence.Seat) int {
		return cmp.Or(cmp.Compare(a.Session.Provider, b.Session.Provider), cmp.Compare(b.Session.Epoch, a.Session.Epoch))
	})
	out := make([]Offering, 0, len(sorted))
	for _, s := range sorted {
		if last := len(out) - 1; last >= 0 && out[last].Provider == s.Session.Provider {
			out[last].Window = min(out[last].Window, s.Offer.Window)
			continue
		}
		out = append(out, Offering{
			Provider: s.Session.Provider, ProviderName: s.Session.ProviderName,
			Window: s.Offer.Window, Quantization: s.Offer.Quantization, Region: s.Session.Region,
			Probation: s.Session.Probation, Uptime: s.Session.Uptime, UptimeKnown: s.Session.UptimeKnown,
		})
	}
	return out
}
