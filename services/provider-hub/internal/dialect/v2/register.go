package v2

import (
	"crypto/ed25519"

	"svc.internal/pkg/agentwire"
	agentv2 "svc.internal/proto/svc/agent/v2"
	"svc.internal/services/provider-hub/internal/gpu"
	"svc.internal/services/provider-hub/internal/session"
)

// maxCapabilities bounds the capabilities that an agent declares.
const maxCapabilities = 32

func decodeRegister(r *agentv2.Register) *session.Register {
	models, refused := decodeModels(r.GetModels())
	models.Replaces = true
	return &session.Register{
		Node: r.GetNodeId(), NodeName: r.GetNodeName(), AgentVersion: r.GetAgentVersion(), Region: r.GetRegion(),
		Credential: session.Credential{
			Key: r.GetToken(), Owner: r.GetOwnerAddress(), Signature: r.GetSignature(), Nonce: r.GetAuthNonce(),
		},
		Capabilities: r.GetCapabilities(), MaxRequestBytes: r.GetMaxRequestBytes(), ReceiptKey: r.GetReceiptKey(),
		Hardware: decodeHardware(r.GetHardware()), Models: models, Refused: refused, Fault: faultOf(r),
	}
}

// faultOf says why a registration is refused; nil where it is not.
func faultOf(r *agentv2.Register) *session.Fault {
	what := ""
	switch {
	case len(r.GetCapabilities()) > maxCapabilities:
		what = "at most 32 capabilities can be declared"
	case !session.ValidNodeID(r.GetNodeId()):
		what = "node_id must be 8 to 64 of letters, digits, dot, underscore and hyphen"
	case len(r.GetReceiptKey()) != 0 && len(r.GetReceiptKey()) != ed25519.PublicKeySize:
		what = "receipt_key must be the 32 bytes of an Ed25519 public key"
	default:
		return nil
	}
	return &session.Fault{Code: agentwire.CodeProtocolError, Text: what}
}

func decodeHeartbeat(h *agentv2.Heartbeat) *session.Heartbeat {
	models, _ := decodeModels(h.GetModels())
	models.Replaces = len(h.GetModels()) > 0
	return &session.Heartbeat{
		Models: models, Loaded: true, Active: int(h.GetActiveRequests()), Queued: int(h.GetQueuedRequests()),
	}
}

func decodeHardware(h *agentv2.Hardware) *gpu.Report {
	if h == nil {
		return nil
	}
	return &gpu.Report{
		Type: h.GetGpuType(), Model: h.GetGpuModel(), Count: int(h.GetGpuCount()), MemoryMB: h.GetMemoryTotalMb(),
		ComputeCapability: h.GetComputeCapability(), Driver: h.GetDriverVersion(), CUDA: h.GetCudaVersion(),
		Engine: h.GetServingEngine(),
	}
}

// decodeModels reads a list of models, and returns which of them are refused.
func decodeModels(list []*agentv2.ModelOffer) (models session.Models, refused map[string]string) {
	if len(list) > session.MaxModels {
		return session.Models{TooMany: true}, nil
	}
	refused = map[string]string{}
	models.List = make([]session.ModelNews, 0, len(list))
	seen := make(map[string]struct{}, len(list))
	for _, o := range list {
		id := o.GetModelId()
		if !session.ValidModelID(id) {
			refused[session.Clean(id, session.MaxModelID)] = "not a model id"
			continue
		}
		if _, twice := seen[id]; twice {
			refused[id] = "registered twice"
			continue
		}
		seen[id] = struct{}{}
		models.List = append(models.List, session.ModelNews{Whole: true, Offer: session.Offer{
			Model: id, ContextLength: o.GetContextLength(), Quantization: o.GetQuantization(),
			Capacity: int(o.GetCapacity()), Healthy: o.GetHealthy(), EngineModel: o.GetEngineModel(),
			Engine: o.GetEngine(), Revision: o.GetRevision(),
		}})
	}
	return models, refused
}
