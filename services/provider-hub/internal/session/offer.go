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
	// maxCapacity is how many requests at once are believed of a model, and maxContext
	// how many tokens of context. Both are more than any engine takes.
	maxCapacity = 1024
	maxContext  = 1 << 24
	// maxCuts is how many models are named of the models whose claims were cut.
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
	// ContextLength is in tokens; 0 where it was not reported.
	ContextLength int64
	Quantization  string
	// Capacity is how many requests are taken at once.
	Capacity int
	Healthy  bool
	// InFlight is how many requests are under way.
	InFlight int
	// EngineModel is the engine's name for the model, as the agent says; empty for Model.
	EngineModel string
	// Engine is the engine that serves the model, and Revision the revision of the model's
	// files, both as the agent says; empty where it says none.
	Engine, Revision string

	// The claims beyond bounds; 0 where the claim was within bounds.
	claimedContext  int64
	claimedCapacity int
}

// normal brings an agent's claims of a model into bounds, and keeps the claims that were
// beyond bounds.
func (o Offer) normal() Offer {
	o.Quantization = Clean(o.Quantization, maxQuantization)
	o.EngineModel = Clean(o.EngineModel, MaxModelID)
	o.Engine, o.Revision = Clean(o.Engine, maxEngine), Clean(o.Revision, maxRevision)
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

// cut says in words which claims were cut; empty where none was.
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
// context and 1,024 requests at once. The text is empty where no claim was cut. The agent
// is told when it registers, and the owner in the warning of GetOwnStatus.
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

// warned joins warnings.
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

// bounded cuts a report to its bounds and to printable characters.
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

// cleanLines is Clean for each line of a text that has a line for each GPU.
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
