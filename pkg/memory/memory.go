// Package memory fits the garbage collector to the memory of the machine or the container,
// and to the rate at which the process allocates.
//
// By default Go collects when the heap has doubled. A process with a small heap that allocates for
// each request then collects many times a second. With a limit it need not: while it is busy it
// collects when the heap has grown threefold, and more often only as the process comes near the
// limit. A process that allocates little does not need so much room, and would only keep it from
// others: it gets room for what it allocates in 3 s, and for 16 MiB at least.
//
// Go's own variables win where they are set: GOMEMLIMIT is then the limit, and GOGC leaves all to Go.
package memory

import (
	"bytes"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// share is the part of the memory that the process may use: one in share. The rest is for
// what runs beside it, a database for example, and for the system's caches.
const share = 2

// Fit sets the limit to half of the memory, and has the room for garbage set anew after each
// collection. It does neither without a limit, which is missing where the system does not say how
// much memory there is.
func Fit() { fit(os.Getenv, os.ReadFile, debug.SetMemoryLimit, pace) }

// pace gives the process the largest room until its first collection, and then what the pacer finds.
func pace() {
	debug.SetGCPercent(maxGrowth)
	newPacer(func(percent int) { debug.SetGCPercent(percent) }).arm()
}

func fit(getenv func(string) string, read func(name string) ([]byte, error), limit func(int64) int64, pace func()) {
	if getenv("GOGC") != "" {
		return
	}
	if getenv("GOMEMLIMIT") == "" {
		available := available(read)
		if available <= 0 {
			return
		}
		limit(available / share)
	}
	pace()
}

// available returns the memory of the machine, or of the control group of this process (of version
// 2) where that is less, in bytes; 0 if neither is known. read reads a file.
func available(read func(name string) ([]byte, error)) int64 {
	least := int64(math.MaxInt64)
	if text, err := read("/proc/meminfo"); err == nil {
		least = min(least, total(text))
	}
	const groups = "/sys/fs/cgroup"
	own, err := read("/proc/self/cgroup")
	if group, ok := strings.CutPrefix(strings.TrimSpace(string(own)), "0::/"); err == nil && ok {
		// The groups above it have limits too. In a container the first of them is the root.
		for dir := path.Join(groups, group); len(dir) >= len(groups); dir = path.Dir(dir) {
			if text, err := read(path.Join(dir, "memory.max")); err == nil {
				least = min(least, bound(text))
			}
		}
	}
	if least == math.MaxInt64 {
		return 0
	}
	return least
}

// total returns the machine's memory, as /proc/meminfo has it in KiB.
func total(meminfo []byte) int64 {
	for line := range bytes.Lines(meminfo) {
		if fields := strings.Fields(string(line)); len(fields) == 3 && fields[0] == "MemTotal:" {
			if kib, err := strconv.ParseInt(fields[1], 10, 53); err == nil {
				return kib << 10
			}
		}
	}
	return math.MaxInt64
}

// bound returns the limit of a control group; it is "max" where there is none.
func bound(text []byte) int64 {
	if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
		return n
	}
	return math.MaxInt64
}
