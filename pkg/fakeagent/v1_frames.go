package fakeagent

import (
	"bytes"
	"crypto/rand"
	_ "embed" // the captured frames
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// V1Frame is a message of dialect v1.
type V1Frame struct {
	Type      string          `json:"type"`
	RequestID string          `json:"request_id"`
	Payload   json.RawMessage `json:"payload"`
}

// V1Hardware is what an agent says of its machine.
type V1Hardware struct {
	GPUType           string `json:"gpu_type"`
	GPUModel          string `json:"gpu_model"`
	VRAMGB            int    `json:"vram_gb"`
	GPUCount          int    `json:"gpu_count"`
	ComputeCapability string `json:"compute_capability"`
	DriverVersion     string `json:"driver_version"`
	CUDAVersion       string `json:"cuda_version"`
	ServingEngine     string `json:"serving_engine,omitempty"`
}

// V1TwoRTX4090 is the machine of the captured frames.
func V1TwoRTX4090() *V1Hardware {
	return &V1Hardware{
		GPUType: "RTX 4090", GPUModel: "NVIDIA GeForce RTX 4090", VRAMGB: 23, GPUCount: 2,
		ComputeCapability: "8.9\n8.9", DriverVersion: "550.54.14", ServingEngine: "unknown",
	}
}

type v1Hash struct {
	ModelID       string `json:"model_id"`
	Format        string `json:"format,omitempty"`
	Quantization  string `json:"quantization,omitempty"`
	ContextLength int64  `json:"context_length,omitempty"`
}

type v1Register struct {
	NodeID       string      `json:"node_id"`
	ProviderID   string      `json:"provider_id,omitempty"`
	NodeName     string      `json:"node_name,omitempty"`
	WorkerAddr   string      `json:"worker_addr"`
	OwnerAddr    string      `json:"owner_addr"`
	Token        string      `json:"token,omitempty"`
	Models       []string    `json:"models"`
	ModelHashes  []v1Hash    `json:"model_hashes,omitempty"`
	Capabilities []string    `json:"capabilities"`
	Hardware     *V1Hardware `json:"hardware,omitempty"`
}

type v1Heartbeat struct {
	NodeID      string             `json:"node_id"`
	ProviderID  string             `json:"provider_id,omitempty"`
	Timestamp   int64              `json:"timestamp"`
	Metrics     map[string]float64 `json:"metrics,omitempty"`
	Models      []string           `json:"models,omitempty"`
	ModelHashes []v1Hash           `json:"model_hashes,omitempty"`
	ModelHealth map[string]string  `json:"model_health,omitempty"`
	Hardware    *V1Hardware        `json:"hardware,omitempty"`
}

type v1Health struct {
	NodeID      string            `json:"node_id"`
	ProviderID  string            `json:"provider_id,omitempty"`
	ModelHealth map[string]string `json:"model_health"`
	Timestamp   int64             `json:"timestamp"`
}

// v1Served is what the agent counts for its heartbeats.
type v1Served struct{ active, total int }

// V1RegisterPayload is the payload with which an agent of these options
// registers.
func V1RegisterPayload(opts V1Options) any {
	a := V1{opts: opts.withDefaults()}
	return a.registerFrame()
}

func (a *V1) registerFrame() v1Register {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.opts
	r := v1Register{
		NodeID: o.NodeID, ProviderID: o.NodeID, NodeName: o.NodeName, WorkerAddr: o.NodeID, Token: o.Key,
		Models: o.Models, ModelHashes: o.hashes(), Capabilities: []string{"inference", "verification"}, Hardware: o.Hardware,
	}
	if r.Models == nil && !o.NoModels {
		r.Models = []string{}
	}
	return r
}

func (o V1Options) hashes() []v1Hash {
	var all []v1Hash
	for _, m := range o.Models {
		all = append(all, v1Hash{ModelID: m, Format: "fp16", Quantization: "none", ContextLength: o.ContextLength})
	}
	return all
}

func (a *V1) heartbeatFrame() v1Heartbeat {
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.opts
	h := v1Heartbeat{
		NodeID: o.NodeID, ProviderID: o.NodeID, Timestamp: time.Now().Unix(), Models: o.Models,
		ModelHealth: healthy(o.Models), Hardware: o.Hardware,
		Metrics: map[string]float64{
			"active_requests": float64(a.served.active), "total_requests": float64(a.served.total),
			"requests_per_minute": 0, "avg_latency_ms": 0, "tokens_per_second": 0, "gpu_utilization": 0, "memory_utilization": 0,
		},
	}
	if o.ContextLength > 0 {
		h.ModelHashes = o.hashes()
	}
	for name, value := range o.Metrics {
		h.Metrics[name] = value
	}
	return h
}

// health is a model_health_update of all models, but for those given.
func (a *V1) health(but map[string]string) v1Health {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := healthy(a.opts.Models)
	for model, state := range but {
		h[model] = state
	}
	return v1Health{NodeID: a.opts.NodeID, ProviderID: a.opts.NodeID, ModelHealth: h, Timestamp: time.Now().Unix()}
}

func healthy(models []string) map[string]string {
	h := make(map[string]string, len(models))
	for _, m := range models {
		h[m] = "healthy"
	}
	return h
}

// v1ID is a fresh UUIDv4.
func v1ID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

//go:embed testdata/agent-v1-frames.jsonl
var v1Captured string

// V1Capture is a message that the public agent or the hub it spoke to was seen
// to send. In it NODE_ID stands for the node_id.
type V1Capture struct {
	Run string `json:"run"`
	// Seconds is when, since the run began.
	Seconds float64 `json:"t"`
	// Direction is "agent->hub" or "hub->agent".
	Direction string  `json:"dir"`
	Frame     V1Frame `json:"frame"`
}

// V1Captures are the messages captured from the public agent, in order.
func V1Captures() ([]V1Capture, error) {
	var all []V1Capture
	decoder := json.NewDecoder(strings.NewReader(v1Captured))
	for decoder.More() {
		var c V1Capture
		if err := decoder.Decode(&c); err != nil {
			return nil, fmt.Errorf("read a captured message: %w", err)
		}
		c.Frame.Payload = bytes.Clone(c.Frame.Payload)
		all = append(all, c)
	}
	return all, nil
}
