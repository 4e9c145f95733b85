package session

import (
	"fmt"
	"strings"

	"svc.internal/services/provider-hub/internal/gpu"
)

// MaxModels bounds the models of a session.
const MaxModels = 256

const (
	defaultCapacity = 10
	// maxCapacity is how many requests at once are believed of a model, and
	// maxContext how many tokens of context: more than any engine takes.
	maxCapacity = 1024
	maxContext  = 1 << 24
	// maxCuts is how many of the models whose claims were cut are named.
	maxCuts = 3
	// maxLoad bounds the load that is believed of engines.
	maxLoad = 1 << 20
)

// Bounds of what an agent says of its machine.
const (
	maxHardwareText = 64
	maxGPUs         = 1024
	maxGPULines     = 64
	maxVRAMGB       = 1 << 20
	maxMemoryMB     = 1 << 30
)

// Offer is one model that a session serves.
type Offer struct {
	Model string
	// ContextLength in tokens, 0 when not reported.
	ContextLength int64
	Quantization  string
	// Capacity is how many requests are taken at once.
	Capacity int
	Healthy  bool
	// InFlight is how many are under way.
	InFlight int
	// EngineModel is what the engine is said to call the model; empty for Model.
	EngineModel string

	// What was claimed beyond bounds, 0 for nothing.
	claimedContext  int64
	claimedCapacity int
}

// normal brings what an agent says of a model into bounds, and keeps what it
// claimed beyond them.
func (o Offer) normal() Offer {
	o.Quantization = Clean(o.Quantization, maxQuantization)
	o.EngineModel = Clean(o.EngineModel, MaxModelID)
	o.ContextLength = max(o.ContextLength, 0)
	if o.Capacity <= 0 {
		o.Capacity = defaultCapacity
	}
	if o.ContextLength > maxContext {
		o.claimedContext, o.ContextLength = o.ContextLength, maxContext
	}
	if o.Capacity > maxCapacity {
		o.claimedCapacity, o.Capacity = o.Capacity, maxCapacity
	}
	return o
}

// cut says in words what of the claims was not taken; empty for nothing.
func (o Offer) cut() string {
	var all []string
	if o.claimedContext > 0 {
		all = append(all, fmt.Sprintf("a context of %d tokens as %d", o.claimedContext, o.ContextLength))
	}
	if o.claimedCapacity > 0 {
		all = append(all, fmt.Sprintf("a capacity of %d as %d", o.claimedCapacity, o.Capacity))
	}
	if len(all) == 0 {
		return ""
	}
	return "of " + Clean(o.Model, MaxModelID) + " " + strings.Join(all, " and ")
}

// Cuts says in words which claims of models were cut to bounds: 16,777,216 tokens of
// context and 1,024 requests at once. It is empty for none. The agent hears of it when it
// registers, and the owner in the warning of GetOwnStatus.
func Cuts(offers []Offer) string {
	var all []string
	for _, o := range offers {
		if c := o.cut(); c != "" {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return ""
	}
	more := ""
	if n := len(all) - maxCuts; n > 0 {
		more = fmt.Sprintf("; and of %d more models", n)
		all = all[:maxCuts]
	}
	return "claims beyond what is believed are cut: " + strings.Join(all, "; ") + more
}

// warned joins what the owner should look at.
func warned(texts ...string) string {
	var all []string
	for _, t := range texts {
		if t != "" {
			all = append(all, t)
		}
	}
	return strings.Join(all, "; ")
}

func inRange(n int) int { return min(max(n, 0), maxLoad) }

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

// cleanLines is Clean for each line, of which there is one for each GPU.
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
