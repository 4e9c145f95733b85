// Package guarantee works out which context window the providers now online
// can promise for a model, and what that promise rests on.
//
// Windows are in tokens. A provider that reports no window is taken to have
// the catalog's.
package guarantee

import (
	"slices"
	"unicode/utf8"
)

// Basis says what a guaranteed context rests on.
type Basis uint8

// The bases.
const (
	// NoOnlineProviders: nobody is online, so nothing is guaranteed.
	NoOnlineProviders Basis = iota
	// Reported: every provider online reports its window.
	Reported
	// Partial: some report, and the smallest of these is taken.
	Partial
	// Unknown: nobody reports, and the catalog's window is taken.
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

// Bounds of what one model's supply names.
const (
	maxQuantizations     = 8
	maxQuantizationBytes = 16
)

// Supply is what is online for one model.
type Supply struct {
	// Online counts providers, Reporting those of them that report a window.
	Online    int32
	Reporting int32
	// MinReported and MaxReported are over the reporting ones.
	MinReported   int64
	MaxReported   int64
	Quantizations []string
}

// Guarantee is what a model's supply comes to.
type Guarantee struct {
	Online int32
	// Tokens is 0 exactly with NoOnlineProviders.
	Tokens int64
	Basis  Basis
	// MaxReported is 0 when no provider reports a window.
	MaxReported int64
	// Quantizations are sorted and each named once; at most 8.
	Quantizations []string
}

// Of is the guarantee that s gives for a model with the catalog's window.
// Counts that contradict each other are read as if fewer providers reported.
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

// quantizations sorts names that providers gave, which may be anything, and
// keeps as many as there is room for.
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

// Equal reports whether both say the same.
func (g Guarantee) Equal(other Guarantee) bool {
	return g.Online == other.Online && g.Tokens == other.Tokens && g.Basis == other.Basis &&
		g.MaxReported == other.MaxReported && slices.Equal(g.Quantizations, other.Quantizations)
}

// Effective is the window of one provider, and whether it is the provider's
// own report and not the catalog's value. A report above the catalog's value counts
// as that, because nobody has measured it.
func Effective(reportedTokens, catalogTokens int64) (tokens int64, reported bool) {
	if reportedTokens > 0 && (catalogTokens <= 0 || reportedTokens <= catalogTokens) {
		return reportedTokens, true
	}
	return catalogTokens, false
}
