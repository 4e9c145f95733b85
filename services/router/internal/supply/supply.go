// Package supply sums up what the providers that are online offer: per model for the
// catalog, per provider for the public, and who is online at all.
//
// A provider counts once for a model, however many sessions it has. A provider is online
// for a model if it is active, one of its sessions is not draining and has an engine that
// serves the model, and the verifier has not shut the model, because what nobody can be
// sent to is no supply. References are never active. A provider reports a window if all of
// its sessions do, and then its window is the smallest of them. What counts is the
// effective window (package contextwindow). A measured window is known as well as a
// reported one, so its provider counts as reporting.
package supply

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"svc.internal/services/router/internal/contextwindow"
	"svc.internal/services/router/internal/health"
	"svc.internal/services/router/internal/presence"
	"svc.internal/services/router/internal/trust"
	"svc.internal/services/router/internal/window"
)

const (
	// MaxOfferings bounds the providers named for one model.
	MaxOfferings = 1_000
	// MaxProviders bounds the providers that are named for all models together.
	MaxProviders = 5_000
	// MaxQuantizations bounds the quantizations named for one model.
	MaxQuantizations = 16
)

// Sources are what supply is summed up from.
type Sources struct {
	View   *presence.View
	Health *health.Registry
	Trust  *trust.Registry
	// Windows returns the catalog's window of a model in tokens; 0 where it is not known.
	Windows func(model string) int64
}

// Model is what is online for one model. Windows are effective windows in tokens, and 0
// where no provider reports one or had it measured.
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
	Mode         presence.Mode
	// Reported is the smallest window that its sessions report; 0 where one reports none.
	Reported int64
	// Window is the effective window; 0 where it is not known.
	Window       int64
	Source       contextwindow.Source
	Quantization string
	Region       string
	Probation    bool
	// Uptime is the share of the last 30 days in which the provider was online; it counts
	// if UptimeKnown.
	Uptime      float64
	UptimeKnown bool
	Figures     window.Figures
	// Trust is what the verifier says; 0 while it has said nothing, or lets the provider
	// have probes only.
	Trust float64

	vendor bool
}

// Provider is a provider that is online for some models. Name, region and mode are those of
// its offer of the first of these models.
type Provider struct {
	ID     string
	Name   string
	Mode   presence.Mode
	Region string
	Models int
	Vendor bool
}

// Providers names the providers that are online for at least one model, ordered by id.
func (s Sources) Providers() []Provider {
	byID := map[string]*Provider{}
	for _, model := range s.View.Models() {
		for _, o := range s.merge(model) {
			p := byID[o.Provider]
			if p == nil {
				p = &Provider{ID: o.Provider, Name: o.ProviderName, Mode: o.Mode, Region: o.Region, Vendor: o.vendor}
				byID[o.Provider] = p
			}
			p.Models++
		}
	}
	out := make([]Provider, 0, min(len(byID), MaxProviders))
	for _, id := range slices.Sorted(maps.Keys(byID))[:cap(out)] {
		out = append(out, *byID[id])
	}
	return out
}

// Models sums up all models for which a provider is online, ordered by id.
func (s Sources) Models() []Model {
	var out []Model
	for _, id := range s.View.Models() {
		providers := s.merge(id)
		if len(providers) == 0 {
			continue
		}
		m := Model{ID: id, Online: len(providers)}
		kinds := map[string]struct{}{}
		for i := range providers {
			o := &providers[i]
			if o.Quantization != "" && len(kinds) < MaxQuantizations {
				kinds[o.Quantization] = struct{}{}
			}
			if o.Reported == 0 && o.Source != contextwindow.Measured {
				continue
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
func (s Sources) Offerings(model string, now time.Time) []Offering {
	providers := s.merge(model)
	providers = providers[:min(len(providers), MaxOfferings)]
	for i := range providers {
		if rec := s.Health.Find(health.Pair{Provider: providers[i].Provider, Model: model}); rec != nil {
			providers[i].Figures = rec.Window.Figures(now)
		}
	}
	return providers
}

// merge makes one offering of all sessions of a provider. Name, region and quantization
// come from the provider's newest session. Its mode is the mode in which it is tried first.
func (s Sources) merge(model string) []Offering {
	sorted := slices.DeleteFunc(slices.Clone(s.View.Seats(model)), func(s *presence.Seat) bool { return !s.Online() })
	slices.SortFunc(sorted, func(a, b *presence.Seat) int {
		return cmp.Or(cmp.Compare(a.Session.Provider, b.Session.Provider), cmp.Compare(b.Session.Epoch, a.Session.Epoch))
	})
	out := make([]Offering, 0, len(sorted))
	for _, seat := range sorted {
		if last := len(out) - 1; last >= 0 && out[last].Provider == seat.Session.Provider {
			out[last].Reported = min(out[last].Reported, seat.Offer.Window)
			if seat.Session.Tier() == presence.FirstTier {
				out[last].Mode = seat.Session.Mode
			}
			continue
		}
		out = append(out, Offering{
			Provider: seat.Session.Provider, ProviderName: seat.Session.ProviderName,
			Mode: seat.Session.Mode, vendor: seat.Session.Vendor,
			Reported: seat.Offer.Window, Quantization: seat.Offer.Quantization, Region: seat.Session.Region,
			Probation: seat.Session.Probation, Uptime: seat.Session.Uptime, UptimeKnown: seat.Session.UptimeKnown,
		})
	}
	return s.judge(model, out)
}

// judge adds what the verifier says, and leaves out who is shut.
func (s Sources) judge(model string, providers []Offering) []Offering {
	catalog, kept := s.Windows(model), providers[:0]
	for _, o := range providers {
		opinion := s.Trust.OfMember(o.Provider, model, o.vendor)
		if opinion.Lane == trust.Shut {
			continue
		}
		o.Window, o.Source = contextwindow.Effective(o.Reported, catalog, opinion.Window)
		if opinion.Known() && opinion.Lane == trust.Main {
			o.Trust = opinion.Trust
		}
		kept = append(kept, o)
	}
	return kept
}
