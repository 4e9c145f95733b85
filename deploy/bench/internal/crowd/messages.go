package crowd

import (
	"bytes"
	"encoding/json"
	"time"

	"svc.internal/pkg/agentwire/frame"
	agentv2 "svc.internal/proto/svc/agent/v2"
)

// message is what matters of a message of the hub.
type message struct {
	// registered acknowledges the registration.
	registered bool
	// refusal is the hub's reason to end the connection, and after how long it
	// asks to stay away.
	refusal string
	after   time.Duration
}

// read looks into a message. What it does not know it takes for nothing.
func read(d Dialect, text []byte) message {
	switch d {
	case V1:
		return readV1(text)
	case V2:
		return readV2(text)
	case Bare:
	}
	return message{}
}

func readV2(b []byte) message {
	f, err := frame.Read(b)
	if err != nil {
		return message{refusal: "a message that is no frame"}
	}
	switch body := f.GetBody().(type) {
	case *agentv2.Frame_RegisterAck:
		return message{registered: true}
	case *agentv2.Frame_Error:
		e := body.Error
		return message{refusal: e.GetCode() + ": " + e.GetMessage(),
			after: time.Duration(e.GetReconnectAfterMs()) * time.Millisecond}
	default:
		return message{}
	}
}

// registeredID is the request id of a v1 registration, by which its answer is
// known among those of heartbeats without decoding them.
const registeredID = "registration"

func readV1(b []byte) message {
	if !bytes.Contains(b, []byte(registeredID)) && !bytes.Contains(b, []byte(`"error"`)) {
		return message{} // the answer to a heartbeat
	}
	var m struct {
		Type    string `json:"type"`
		ID      string `json:"request_id"`
		Payload struct {
			Success bool   `json:"success"`
			Message string `json:"message"`
		} `json:"payload"`
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return message{refusal: "a message that is no JSON"}
	}
	switch {
	case m.Type == "ack" && m.ID == registeredID && m.Payload.Success:
		return message{registered: true}
	case m.Type == "error":
		return message{refusal: "v1: " + m.Payload.Message}
	default:
		return message{}
	}
}

func registerV2(m Member) []byte {
	offers := make([]*agentv2.ModelOffer, 0, len(m.Models))
	for _, id := range m.Models {
		offers = append(offers, &agentv2.ModelOffer{ModelId: id, ContextLength: 8192, Capacity: 8, Healthy: true})
	}
	return encode(&agentv2.Frame{Seq: 1, Body: &agentv2.Frame_Register{Register: &agentv2.Register{
		Token: m.Key, NodeId: m.Node, NodeName: m.Node, AgentVersion: "bench", Models: offers,
		Capabilities: []string{"chat", "stream", "cancel"}, Hardware: hardware(),
	}}})
}

func hardware() *agentv2.Hardware {
	return &agentv2.Hardware{
		GpuType: "RTX 4090", GpuModel: "NVIDIA GeForce RTX 4090", GpuCount: 2, MemoryTotalMb: 49128,
		ComputeCapability: "8.9", DriverVersion: "550.54.14", ServingEngine: "vllm",
	}
}

func heartbeatV2(seq uint32) []byte {
	return encode(&agentv2.Frame{Seq: seq, Body: &agentv2.Frame_Heartbeat{Heartbeat: &agentv2.Heartbeat{}}})
}

func encode(f *agentv2.Frame) []byte {
	b, err := frame.Append(nil, f)
	if err != nil {
		return nil // strings are ours and valid: it cannot be
	}
	return b
}

type object = map[string]any

// v1Machine is what agents of v1 say of a machine with two GPUs.
func v1Machine() object {
	return object{
		"gpu_type": "RTX 4090", "gpu_model": "NVIDIA GeForce RTX 4090", "vram_gb": 23, "gpu_count": 2,
		"compute_capability": "8.9\n8.9", "driver_version": "550.54.14", "cuda_version": "", "serving_engine": "unknown",
	}
}

func registerV1(m Member) []byte {
	hashes := make([]object, 0, len(m.Models))
	for _, id := range m.Models {
		hashes = append(hashes, object{"model_id": id, "format": "fp16", "quantization": "none"})
	}
	return envelope("register", registeredID, object{
		"node_id": m.Node, "provider_id": m.Node, "node_name": m.Node, "worker_addr": m.Node, "owner_addr": "",
		"token": m.Key, "models": m.Models, "model_hashes": hashes, "capabilities": []string{"inference", "verification"},
		"hardware": v1Machine(),
	})
}

func heartbeatV1(m Member) []byte {
	health := map[string]string{}
	for _, id := range m.Models {
		health[id] = "healthy"
	}
	return envelope("heartbeat", "beat", object{
		"node_id": m.Node, "provider_id": m.Node, "timestamp": 1, "models": m.Models, "model_health": health,
		"hardware": v1Machine(),
		"metrics": object{
			"active_requests": 0, "avg_latency_ms": 0, "gpu_utilization": 0, "memory_utilization": 0,
			"requests_per_minute": 0, "tokens_per_second": 0, "total_requests": 0, "gpu_0_memory_total_mb": 24564,
			"gpu_0_memory_used_mb": 10240,
		},
	})
}

func envelope(kind, id string, payload object) []byte {
	b, err := json.Marshal(object{"type": kind, "request_id": id, "payload": payload})
	if err != nil {
		return nil // maps, strings and numbers: it cannot be
	}
	return b
}
