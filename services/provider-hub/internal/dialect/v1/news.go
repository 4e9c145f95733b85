package v1

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
	"strings"

	"svc.internal/pkg/agentwire"
	"svc.internal/services/provider-hub/internal/gpu"
	"svc.internal/services/provider-hub/internal/session"
)

// capabilities are the capabilities of every agent of v1, whatever it declares: it takes
// every request to the chat endpoint of its engine.
func capabilities() []string { return []string{"chat", "stream", "logprobs"} }

// register is the payload of register.
type register struct {
	NodeID     string `json:"node_id"`
	ProviderID string `json:"provider_id"`
	NodeName   string `json:"node_name"`
	OwnerAddr  string `json:"owner_addr"`
	Token      string `json:"token"`
	Signature  string `json:"signature"`
	AuthNonce  string `json:"auth_nonce"`
	models
	Hardware *hardware `json:"hardware"`
}

// heartbeat is the payload of heartbeat, and of model_health_update.
type heartbeat struct {
	Metrics map[string]number `json:"metrics"`
	models
	Hardware *hardware `json:"hardware"`
}

// models is what a message says of models. A missing list says nothing.
type models struct {
	Models []string          `json:"models"`
	Hashes []hash            `json:"model_hashes"`
	Health map[string]string `json:"model_health"`
}

// hash describes a model's files.
type hash struct {
	ModelID       string `json:"model_id"`
	Format        string `json:"format"`
	Quantization  string `json:"quantization"`
	ContextLength number `json:"context_length"`
}

// hardware describes the machine.
type hardware struct {
	GPUType           string `json:"gpu_type"`
	GPUModel          string `json:"gpu_model"`
	VRAMGB            number `json:"vram_gb"`
	GPUCount          number `json:"gpu_count"`
	ComputeCapability string `json:"compute_capability"`
	DriverVersion     string `json:"driver_version"`
	CUDAVersion       string `json:"cuda_version"`
	ServingEngine     string `json:"serving_engine"`
}

// read is the registration: the first registration of a session, or a registration that
// replaces the models.
func (r *register) read(reply string) *session.Register {
	node, named := r.node()
	signature, err := hex.DecodeString(strings.TrimPrefix(r.Signature, "0x"))
	if err != nil {
		signature = nil // it then proves nothing
	}
	out := &session.Register{
		Reply: reply, Node: node, NodeName: r.NodeName,
		Credential:   session.Credential{Key: r.Token, Owner: r.OwnerAddr, Signature: signature, Nonce: r.AuthNonce},
		Capabilities: capabilities(), MaxRequestBytes: maxFrame - envelopeSize,
		Hardware: r.Hardware.report(), Models: r.models.read(true),
	}
	switch {
	case !named:
		out.Fault = &session.Fault{Code: agentwire.CodeProtocolError, Text: "node_id is missing"}
	case r.Token == "" && r.Signature == "":
		out.Fault = &session.Fault{Code: agentwire.CodeInvalidKey, Text: "authentication required"}
	}
	return out
}

// node is the name of the machine. Agents give a public key, which is longer than a name
// may be; its digest identifies the machine as well.
func (r *register) node() (node string, named bool) {
	node = r.NodeID
	if node == "" {
		node = r.ProviderID
	}
	switch {
	case node == "":
		return "", false
	case session.ValidNodeID(node):
		return node, true
	}
	digest := sha256.Sum256([]byte(node))
	return "v1-" + hex.EncodeToString(digest[:16]), true
}

// read is what a heartbeat, or the health of models, says.
func (h *heartbeat) read(reply string) *session.Heartbeat {
	active, loaded := h.Metrics["active_requests"]
	return &session.Heartbeat{
		Reply: reply, Models: h.models.read(h.Models != nil), Hardware: h.Hardware.report(),
		MemoryMB: leastMemory(h.Metrics), Active: whole(active), Loaded: loaded,
	}
}

// read is what a message says of models. replaces reports that its list is all there
// are; otherwise it is of the models that were named before.
func (m *models) read(replaces bool) session.Models {
	if len(m.Models) > session.MaxModels {
		return session.Models{TooMany: true}
	}
	described := make(map[string]hash, len(m.Hashes))
	for _, h := range m.Hashes {
		described[h.ModelID] = h
	}
	list := valid(m.Models)
	if !replaces {
		list = m.mentioned()
	}
	out := session.Models{Replaces: replaces, List: make([]session.ModelNews, 0, len(list))}
	for _, id := range list {
		n := session.ModelNews{Offer: session.Offer{Model: id}}
		if h, ok := described[id]; ok {
			n.Described = true
			n.Offer.Quantization, n.Offer.ContextLength = h.quantization(), int64(whole(h.ContextLength))
		}
		if health, ok := m.Health[id]; ok {
			n.HealthKnown, n.Offer.Healthy = true, health != "unhealthy"
		}
		out.List = append(out.List, n)
	}
	return out
}

// maxMentioned bounds the models that are read of a list that does not replace the
// offers. No session has more than session.MaxModels, so a longer list is no news.
const maxMentioned = 4 * session.MaxModels

// mentioned are the models that the message names, each once. Models without a valid id
// are left out, because no session has one.
func (m *models) mentioned() []string {
	n := min(len(m.Hashes)+len(m.Health), maxMentioned)
	list, seen := make([]string, 0, n), make(map[string]struct{}, n)
	add := func(id string) {
		if len(list) == maxMentioned || !session.ValidModelID(id) {
			return
		}
		if _, twice := seen[id]; !twice {
			seen[id] = struct{}{}
			list = append(list, id)
		}
	}
	for _, h := range m.Hashes {
		add(h.ModelID)
	}
	for id := range m.Health {
		add(id)
	}
	return list
}

// valid are the models of a list that can be served: those with a valid id, each once.
// The agent cannot be informed of the others.
func valid(models []string) []string {
	list := make([]string, 0, len(models))
	seen := make(map[string]struct{}, len(models))
	for _, id := range models {
		if _, twice := seen[id]; twice || !session.ValidModelID(id) {
			continue
		}
		seen[id] = struct{}{}
		list = append(list, id)
	}
	return list
}

// quantization is the quantization of the weights, or their format where they are not
// quantized.
func (h hash) quantization() string {
	if h.Quantization == "" || h.Quantization == "none" {
		return h.Format
	}
	return h.Quantization
}

// report is the report of the machine; nil for none.
func (h *hardware) report() *gpu.Report {
	if h == nil {
		return nil
	}
	return &gpu.Report{
		Type: h.GPUType, Model: h.GPUModel, Count: whole(h.GPUCount), VRAMGB: whole(h.VRAMGB),
		ComputeCapability: h.ComputeCapability, Driver: h.DriverVersion, CUDA: h.CUDAVersion, Engine: h.ServingEngine,
	}
}

// leastMemory is the memory of the smallest GPU in MiB; 0 is not known.
func leastMemory(metrics map[string]number) int64 {
	least := 0
	for name, mb := range metrics {
		if !strings.HasPrefix(name, "gpu_") || !strings.HasSuffix(name, "_memory_total_mb") {
			continue
		}
		if n := whole(mb); n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return int64(least)
}

// number is a number of an agent. A malformed one counts as 0, because nothing that an
// agent measures is worth its connection.
type number float64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(raw []byte) error {
	*n = numberOf(raw)
	return nil
}

// numberOf reads a raw JSON value.
func numberOf(raw []byte) number {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		f = 0
	}
	return number(f)
}

// whole is a number as an integer.
func whole(n number) int { return int(min(max(n, 0), math.MaxInt32)) }
