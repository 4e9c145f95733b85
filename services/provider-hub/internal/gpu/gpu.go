// Package gpu decides whether a provider's machine fulfils the GPU rule: an NVIDIA GPU
// with at least 8 GB of memory and compute capability 8.0, or Apple Silicon with at least
// 16 GB of unified memory that serves with Ollama.
//
// A report proves nothing, because it is only what an agent says. Benchmarks show the
// rest. Memory is compared within the rounding of agents: a card sold with 8 GB has 8,188
// MiB, which agents that divide by 1,024 report as 7.
package gpu

import (
	"strconv"
	"strings"
)

// The rule.
const (
	minMemoryMB     = 8000 // a card sold with 8 GB
	minVRAMGB       = 7    // the same in GiB, rounded down
	minCapability   = 8    // the major number; every minor one of it suffices
	minUnifiedMB    = 16_000
	minUnifiedGB    = 16
	appleEngine     = "ollama"
	maxCapabilities = 64
	maxCapability   = 8 // characters of one line
)

// Report is what an agent says of its machine, cut to bounded, printable text. It proves
// nothing.
type Report struct {
	// Type and Model name the GPU, for example m3_max and NVIDIA GeForce RTX 4090.
	Type, Model string
	// Count is how many GPUs there are.
	Count int
	// VRAMGB is the memory of one GPU in GB as agents of dialect v1 report it: MiB
	// divided by 1,024 and rounded down. MemoryMB is exact, in MiB, of the smallest GPU.
	// 0 is not known.
	VRAMGB   int
	MemoryMB int64
	// ComputeCapability is as reported: with several GPUs, one to a line.
	ComputeCapability string
	Driver, CUDA      string
	// Engine is sglang, vllm, ollama, llamacpp, tgi or unknown.
	Engine string
}

// Shortfall says why the machine does not fulfil the rule; empty for a machine that does.
// A nil report falls short.
func (r *Report) Shortfall() string {
	switch {
	case r == nil:
		return "the machine reports no GPU"
	case strings.TrimSpace(r.ComputeCapability) != "":
		return r.nvidiaShortfall()
	case isApple(r.Type):
		return r.appleShortfall()
	case r.Type == "" && r.Model == "" && r.VRAMGB == 0 && r.MemoryMB == 0:
		return "the machine reports no GPU"
	default:
		return "the GPU reports no compute capability and is not Apple Silicon"
	}
}

func (r *Report) nvidiaShortfall() string {
	lowest, ok := LowestCapability(r.ComputeCapability)
	switch {
	case !ok:
		return "the compute capability cannot be read"
	case lowest.major < minCapability:
		return "the lowest compute capability is " + lowest.String() + ", 8.0 is needed"
	case !r.holds(minMemoryMB, minVRAMGB):
		return "the GPU has less than 8 GB of memory"
	}
	return ""
}

func (r *Report) appleShortfall() string {
	switch {
	case !r.holds(minUnifiedMB, minUnifiedGB):
		return "the machine has less than 16 GB of unified memory"
	case !strings.EqualFold(r.Engine, appleEngine):
		return "on Apple Silicon the engine must be Ollama"
	}
	return ""
}

// holds reports whether the memory suffices, by the exact number where there is one.
func (r *Report) holds(mb int64, gb int) bool {
	if r.MemoryMB > 0 {
		return r.MemoryMB >= mb
	}
	return r.VRAMGB >= gb
}

// GB is the memory of one GPU in GB, rounded down; 0 is not known.
func (r *Report) GB() int {
	if r.VRAMGB > 0 {
		return r.VRAMGB
	}
	return int(r.MemoryMB >> 10)
}

// Class is the name by which machines are compared: the GPU's model, else its type; empty
// where neither is known. A nil report has none.
func (r *Report) Class() string {
	switch {
	case r == nil:
		return ""
	case r.Model != "":
		return r.Model
	}
	return r.Type
}

// isApple reports whether a type is m1, m2_pro, m3_max or the like, in any case.
func isApple(gpuType string) bool {
	digits, ok := strings.CutPrefix(strings.ToLower(gpuType), "m")
	if !ok {
		return false
	}
	digits, variant, _ := strings.Cut(digits, "_")
	n, err := strconv.ParseUint(digits, 10, 8)
	if err != nil || n == 0 {
		return false
	}
	switch variant {
	case "", "pro", "max", "ultra":
		return true
	default:
		return false
	}
}

// Capability is a compute capability, which is compared as two numbers: 10.0 is
// above 8.9.
type Capability struct{ major, minor int }

// String is for example 8.9.
func (c Capability) String() string { return strconv.Itoa(c.major) + "." + strconv.Itoa(c.minor) }

func (c Capability) below(d Capability) bool {
	return c.major < d.major || c.major == d.major && c.minor < d.minor
}

// LowestCapability is the least capability over the lines of a report; blank lines are
// skipped. ok is false when a line cannot be read or none says anything.
func LowestCapability(text string) (lowest Capability, ok bool) {
	lines := strings.Split(text, "\n")
	if len(lines) > maxCapabilities {
		return Capability{}, false
	}
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		c, readable := parseCapability(line)
		if !readable {
			return Capability{}, false
		}
		if !ok || c.below(lowest) {
			lowest, ok = c, true
		}
	}
	return lowest, ok
}

// parseCapability reads 8.9, and 9 as 9.0.
func parseCapability(line string) (c Capability, ok bool) {
	major, minor, dotted := strings.Cut(line, ".")
	if len(line) > maxCapability {
		return Capability{}, false
	}
	if !dotted {
		minor = "0"
	}
	a, err := strconv.ParseUint(major, 10, 16)
	if err != nil {
		return Capability{}, false
	}
	b, err := strconv.ParseUint(minor, 10, 16)
	if err != nil {
		return Capability{}, false
	}
	return Capability{int(a), int(b)}, true
}
