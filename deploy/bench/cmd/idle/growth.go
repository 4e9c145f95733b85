package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"inference-bench/internal/proc"
)

// memory is what a product takes now, in bytes, by the name of its processes.
func memory(group proc.Group) map[string]int64 {
	by := map[string]int64{}
	for name, pids := range group.ByName() {
		by[name] = proc.Memory(pids)
	}
	return by
}

// growth is what each socket added, in KiB, by the name of the process.
type growth map[string]float64

// kibEach divides what was taken between two readings by a number of sockets.
func kibEach(before, after map[string]int64, sockets int) growth {
	g := growth{}
	for name, bytes := range after {
		g[name] = float64(bytes-before[name]) / 1024 / float64(sockets)
	}
	return g
}

func (g growth) sum() (kib float64) {
	for _, each := range g {
		kib += each
	}
	return kib
}

// String is the sum with its parts.
func (g growth) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(g)) {
		parts = append(parts, fmt.Sprintf("%s %.1f", name, g[name]))
	}
	return fmt.Sprintf("%.1f KiB each (%s)", g.sum(), strings.Join(parts, ", "))
}
