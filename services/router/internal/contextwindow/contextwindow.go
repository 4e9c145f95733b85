// Package contextwindow decides how large the context window of a model at a provider is,
// and where that is known from. Windows are in tokens.
//
// The effective window is the smallest of these: the window that the provider reports, or
// the catalog's window where the provider reports none, and the window that the verifier
// has measured. While nobody has measured it, a reported window above the catalog's counts
// as the catalog's. A measurement replaces this rule, so a provider whose larger window
// was measured has that window.
//
// A measurement says how large the window is also where it lowers nothing, and then the
// source is Measured and the window is what it was.
package contextwindow

// Source says where a window is known from.
type Source uint8

// The sources of a window.
const (
	Reported Source = iota
	Catalog
	Measured
)

// Effective returns the window of a model at a provider, and its source. Each of the
// arguments is 0 where it is not known. The window is 0 where none of them is known.
func Effective(reported, catalog, measured int64) (int64, Source) {
	claimed, source := reported, Reported
	if reported <= 0 {
		claimed, source = catalog, Catalog
	}
	switch {
	case measured > 0 && claimed > 0:
		return min(claimed, measured), Measured
	case measured > 0:
		return measured, Measured
	case catalog > 0 && claimed > catalog:
		return catalog, Catalog
	default:
		return claimed, source
	}
}
