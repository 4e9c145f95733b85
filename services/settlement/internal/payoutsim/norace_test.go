//go:build !race

package payoutsim

// raced reports whether the race detector is on, which makes everything slower.
const raced = false
