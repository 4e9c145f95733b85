package fleet

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// agentEnvironment is what svc-agent reads. Its key and models are written by
// Seed before it is started.
func (f *Fleet) agentEnvironment(name string) []string {
	n := number(name)
	return []string{
		"SVC_WS_URL=ws://" + f.layout.face(instance(Hub, n)),
		"SVC_PROVIDER_KEY=" + f.secret(agentKeyFile(n)),
		"SVC_MODELS=" + f.dir.Path("config", "models.json"),
		"SVC_STATE_DIR=" + f.dir.Path("agent", strconv.Itoa(n)),
		"SVC_NODE_NAME=" + name,
		"SVC_REGION=local",
		"SVC_LOG_LEVEL=" + f.cfg.LogLevel,
		"SVC_LOG_FORMAT=json",
		"SVC_OTLP_ENDPOINT=" + f.cfg.OTLPEndpoint,
	}
}

func agentKeyFile(number int) string { return "provider-key-" + strconv.Itoa(number) }

// offer is one entry of models.json.
type offer struct {
	ModelID       string `json:"model_id"`
	EngineURL     string `json:"engine_url"`
	LocalModel    string `json:"local_model"`
	ContextLength int32  `json:"context_length"`
	Capacity      int    `json:"capacity"`
}

func (f *Fleet) writeOffers(offers []offer) error {
	text, err := json.MarshalIndent(map[string]any{"models": offers}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the agents' models: %w", err)
	}
	return f.dir.Write(append(text, '\n'), "config", "models.json")
}
