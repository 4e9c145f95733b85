package session

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
	"strings"

	"svc.internal/services/provider-hub/internal/gpu"
)

// v1Capabilities are what agents of v1 can do, whatever they say: they take
// every request to the chat endpoint of their engine.
func v1Capabilities() []string { return []string{"chat", "stream", "logprobs"} }

// v1Register is the payload of register.
type v1Register struct {
	NodeID     string `json:"node_id"`
	ProviderID string `json:"provider_id"`
	NodeName   string `json:"node_name"`
	OwnerAddr  string `json:"owner_addr"`
	Token      string `json:"token"`
	Signature  string `json:"signature"`
	AuthNonce  string `json:"auth_nonce"`
	v1Models
	Hardware *v1Hardware `json:"hardware"`
}

// v1Heartbeat is the payload of heartbeat, and of model_health_update.
type v1Heartbeat struct {
	Metrics map[string]number `json:"metrics"`
	v1Models
	Hardware *v1Hardware `json:"hardware"`
}

// v1Models is what messages say of models. An absent list says nothing.
type v1Models struct {
	Models []string          `json:"models"`
	Hashes []v1Hash          `json:"model_hashes"`
	Health map[string]string `json:"model_health"`
}

// v1Hash describes a model's files.
type v1Hash struct {
	ModelID       string `json:"model_id"`
	Format        string `json:"format"`
	Quantization  string `json:"quantization"`
	ContextLength number `json:"context_length"`
}

// v1Hardware describes the machine.
type v1Hardware struct {
	GPUType           string `json:"gpu_type"`
	GPUModel          string `json:"gpu_model"`
	VRAMGB            number `json:"vram_gb"`
	GPUCount          number `json:"gpu_count"`
	ComputeCapability string `json:"compute_capability"`
	DriverVersion     string `json:"driver_version"`
	CUDAVersion       string `json:"cuda_version"`
	ServingEngine     string `json:"serving_engine"`
}

// register takes a registration: the first, or one that replaces the models.
// Needs the mutex.
func (d *v1) register(id string, r *v1Register) *Closing {
	s := d.s
	d.registration = id
	if len(r.Models) > maxModels {
		return s.refused(CodeTooManyModels, "at most 256 models can be registered")
	}
	if s.phase != phaseNew {
		if changed := d.models(&r.v1Models, true); s.phase == phaseLive {
			d.push(v1Ack(id, true, v1Welcome(s.cuts())))
			d.touch(d.hardware(r.Hardware, nil) || changed)
		}
		return nil
	}
	node, ok := v1Node(r)
	if !ok {
		return s.refused(CodeProtocolError, "node_id is missing")
	}
	if r.Token == "" && r.Signature == "" {
		return s.refused(CodeInvalidKey, "authentication required")
	}
	s.identity = Identity{NodeID: node, NodeName: Clean(r.NodeName, maxName)}
	s.caps, s.maxBody = v1Capabilities(), v1MaxFrame-v1Envelope
	d.hardware(r.Hardware, nil)
	d.models(&r.v1Models, true)
	signature, err := hex.DecodeString(strings.TrimPrefix(r.Signature, "0x"))
	if err != nil {
		signature = nil // it then proves nothing
	}
	s.enrol(Credential{Key: r.Token, Owner: r.OwnerAddr, Signature: signature, Nonce: r.AuthNonce}, nil)
	return nil
}

// v1Node is the name of the machine. Agents give a public key, which is longer
// than a name may be; what stands for it tells as much.
func v1Node(r *v1Register) (node string, ok bool) {
	node = r.NodeID
	if node == "" {
		node = r.ProviderID
	}
	switch {
	case node == "":
		return "", false
	case validNodeID(node):
		return node, true
	}
	digest := sha256.Sum256([]byte(node))
	return "v1-" + hex.EncodeToString(digest[:16]), true
}

// onHeartbeat needs the mutex.
func (d *v1) onHeartbeat(id string, h *v1Heartbeat) *Closing {
	s := d.s
	if s.phase != phaseLive {
		return nil // an answer would make the agent believe that it is registered
	}
	if len(h.Models) > maxModels {
		return s.refused(CodeTooManyModels, "at most 256 models can be offered")
	}
	s.heartbeat.Reset(s.terms.silence)
	d.push(v1Ack(id, true, "heartbeat"))
	changed := d.models(&h.v1Models, h.Models != nil)
	changed = d.hardware(h.Hardware, h.Metrics) || changed
	if active, ok := h.Metrics["active_requests"]; ok {
		changed = s.reports(load{active: whole(active)}) || changed
	}
	d.touch(changed)
	return nil
}

// onHealth needs the mutex.
func (d *v1) onHealth(h *v1Heartbeat) *Closing {
	d.touch(d.models(&v1Models{Health: h.Health}, false))
	return nil
}

// touch tells of a change, once somebody knows of the session. Needs the mutex.
func (d *v1) touch(changed bool) {
	if changed && d.s.phase == phaseLive {
		d.s.house.registrar.Touch(d.s)
	}
}

// models takes what a message says of models, and reports whether that is new.
// replaces tells that its list is all there are. Needs the mutex.
func (d *v1) models(m *v1Models, replaces bool) (changed bool) {
	s := d.s
	list := s.order
	if replaces {
		list = v1List(m.Models)
	}
	described := make(map[string]v1Hash, len(m.Hashes))
	for _, h := range m.Hashes {
		described[h.ModelID] = h
	}
	offers := make([]Offer, 0, len(list))
	for _, id := range list {
		o := Offer{Model: id, Healthy: true}
		if old := s.models[id]; old != nil {
			o = old.offer
		}
		if h, ok := described[id]; ok {
			o.Quantization = v1Quantization(h)
			o.ContextLength = int64(whole(h.ContextLength))
		}
		if health, ok := m.Health[id]; ok {
			o.Healthy = health != "unhealthy"
		}
		offers = append(offers, o.normal())
	}
	return s.offer(offers)
}

// v1List is what of a list of models can be served: those that are ids, each
// once. There is no way to tell the agent of the others.
func v1List(models []string) []string {
	list := make([]string, 0, len(models))
	seen := make(map[string]struct{}, len(models))
	for _, id := range models {
		if _, twice := seen[id]; twice || !validModelID(id) {
			continue
		}
		seen[id] = struct{}{}
		list = append(list, id)
	}
	return list
}

// v1Quantization is that of the weights, or their format where they are not
// quantized.
func v1Quantization(h v1Hash) string {
	if h.Quantization == "" || h.Quantization == "none" {
		return h.Format
	}
	return h.Quantization
}

// hardware takes what a message says of the machine, and reports whether that is
// new. What metrics measured of memory is more exact. Needs the mutex.
func (d *v1) hardware(h *v1Hardware, metrics map[string]number) (changed bool) {
	var now gpu.Report
	if old := d.s.hardware; old != nil {
		now = *old
	} else if h == nil {
		return false
	}
	if h != nil {
		now = gpu.Report{
			Type: h.GPUType, Model: h.GPUModel, Count: whole(h.GPUCount), VRAMGB: whole(h.VRAMGB), MemoryMB: now.MemoryMB,
			ComputeCapability: h.ComputeCapability, Driver: h.DriverVersion, CUDA: h.CUDAVersion, Engine: h.ServingEngine,
		}
	}
	if mb := leastMemory(metrics); mb > 0 {
		now.MemoryMB = mb
	}
	return d.s.machine(bounded(now))
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

// number is a number of an agent. What is none counts as 0: nothing that an
// agent measures is worth its connection.
type number float64

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(raw []byte) error {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		f = 0
	}
	*n = number(f)
	return nil
}

// whole is a number as one that can be counted with.
func whole(n number) int { return int(min(max(n, 0), math.MaxInt32)) }
