package session

import (
	"strings"

	"svc.internal/services/provider-hub/internal/gpu"
)

// Bounds of what an agent says of its machine.
const (
	maxHardwareText = 64
	maxGPUs         = 1024
	maxGPULines     = 64
	maxVRAMGB       = 1 << 20
	maxMemoryMB     = 1 << 30
)

// bounded cuts a report to what others may see.
func bounded(r gpu.Report) *gpu.Report {
	r.Type, r.Model = Clean(r.Type, maxHardwareText), Clean(r.Model, maxHardwareText)
	r.Driver, r.CUDA = Clean(r.Driver, maxHardwareText), Clean(r.CUDA, maxHardwareText)
	r.Engine = Clean(r.Engine, maxHardwareText)
	r.Count = min(max(r.Count, 0), maxGPUs)
	r.VRAMGB = min(max(r.VRAMGB, 0), maxVRAMGB)
	r.MemoryMB = min(max(r.MemoryMB, 0), maxMemoryMB)
	r.ComputeCapability = cleanLines(r.ComputeCapability)
	return &r
}

// cleanLines is clean for each line, of which there is one for each GPU.
func cleanLines(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		if len(lines) == maxGPULines {
			break
		}
		if line = Clean(line, maxCapability); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// machine notes what an agent says of its machine, and reports whether that is
// new. Needs the mutex.
func (s *Session) machine(r *gpu.Report) (changed bool) {
	if s.hardware != nil && *s.hardware == *r {
		return false
	}
	s.hardware = r
	return true
}
