// Package guarantee works out which context window the providers that are online can
// guarantee for a model, and what that guarantee rests on.
//
// Windows are in tokens. While some providers report a window, the smallest report is the
// guarantee, and providers that report none do not lower it. While no provider reports a
// window, the catalog's window is the guarantee.
//
// A window that the verifier has measured counts as a report, and takes the place of a
// larger report of its provider, because it is known at least as well. The router has
// done both already.
package guarantee

import (
	"slices"
	"unicode/utf8"
)

// Basis says what a guaranteed context rests on.
type Basis uint8

// The bases.
const (
	// NoOnlineProviders says that nobody is online, so nothing is guaranteed.
	NoOnlineProviders Basis = iota
	// Reported says that every provider that is online reports its window, or has had it
	// measured.
	Reported
	// Partial says that some report, and that the smallest report is taken.
	Partial
	// Unknown says that nobody reports, and that the catalog's window is taken.
	Unknown
)

// String is the basis as the public catalog writes it.
func (b Basis) String() string {
	switch b {
	case Reported:
		return "reported"
	case Partial:
		return "partial"
	case Unknown:
		return "unknown"
	default:
		return "no_online_providers"
	}
}

// The bounds of the quantizations that one model's supply names.
const (
	maxQuantizations     = 8
	maxQuantizationBytes = 16
)

// Supply is what is online for one model.
type Supply struct {
	// Online counts providers, and Reporting the providers among them that report a
	// window or have had it measured.
	Online    int32
	Reporting int32
	// MinReported and MaxReported are the smallest and the largest report.
	MinReported   int64
	MaxReported   int64
	Quantizations []string
}

// Guarantee is what a model's supply guarantees.
type Guarantee struct {
	Online int32
	// Tokens is 0 if and only if Basis is NoOnlineProviders.
	Tokens int64
	Basis  Basis
	// MaxReported is 0 when no provider reports a window.
	MaxReported int64
	// Quantizations are sorted, each once, and at most 8.
	Quantizations []string
}

// Of returns the guarantee that s gives for a model with the catalog's window. Counts that
// contradict each other are read as if fewer providers reported.
func Of(s Supply, catalogTokens int64) Guarantee {
	if s.Online <= 0 {
		return Guarantee{}
	}
	g := Guarantee{Online: s.Online, Quantizations: quantizations(s.Quantizations)}
	if s.Reporting <= 0 || s.MinReported <= 0 {
		g.Basis, g.Tokens = Unknown, catalogTokens
		return g
	}
	g.Basis, g.Tokens, g.MaxReported = Reported, s.MinReported, max(s.MinReported, s.MaxReported)
	if s.Reporting < s.Online {
		g.Basis = Partial
	}
	return g
}

// quantizations sorts the names that providers gave and keeps as many as there is room
// for. A name may be any text.
func quantizations(names []string) []string {
	kept := make([]string, 0, min(len(names), maxQuantizations))
	for _, name := range names {
		if name != "" && len(name) <= maxQuantizationBytes && utf8.ValidString(name) {
			kept = append(kept, name)
		}
	}
	slices.Sort(kept)
	kept = slices.Compact(kept)
	return slices.Clip(kept[:min(len(kept), maxQuantizations)])
}

// Equal reports whether the two guarantees are the same.
func (g Guarantee) Equal(other Guarantee) bool {
	return g.Online == other.Online && g.Tokens == other.Tokens && g.Basis == other.Basis &&
		g.MaxReported == other.MaxReported && slices.Equal(g.Quantizations, other.Quantizations)
}

// Effective returns the window of one provider, and reports whether it is the provider's
// own report instead of the catalog's value, where nobody has measured the window. A
// report above the catalog's value counts as the catalog's value then.
func Effective(reportedTokens, catalogTokens int64) (tokens int64, reported bool) {
	if reportedTokens > 0 && (catalogTokens <= 0 || reportedTokens <= catalogTokens) {
		return reportedTokens, true
	}
	return catalogTokens, false
}
