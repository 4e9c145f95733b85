//go:build !crashpoints

package crash

// At marks a step. In ordinary builds it does nothing and costs nothing.
func At(string) {}

// Planted reports whether a fault is planted. In ordinary builds none is.
func Planted(string) bool { return false }
