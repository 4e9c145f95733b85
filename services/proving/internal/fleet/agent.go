package fleet

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// agentEnvironment is the environment of svc-agent. Equip writes its key and models
// before it is started.
func (f *Fleet) agentEnvironment(name string) ([]string, error) {
	n := number(name)
	hub := instance(Hub, (n-1)%f.cfg.Replicas[Hub]+1)
	address, err := f.cfg.via(name, hub, f.layout.face(Hub, hub))
	if err != nil {
		return nil, err
	}
	return []string{
		"SVC_WS_URL=ws://" + address,
		"SVC_PROVIDER_KEY=" + f.secret(agentKeyFile(n)),
		"SVC_MODELS=" + f.dir.Path("config", modelsFile(n)),
		"SVC_STATE_DIR=" + f.AgentDir(name),
		"SVC_NODE_NAME=" + name,
		"SVC_REGION=local",
		"SVC_LOG_LEVEL=" + f.cfg.LogLevel,
		"SVC_LOG_FORMAT=json",
		"SVC_OTLP_ENDPOINT=" + f.cfg.OTLPEndpoint,
	}, nil
}

// AgentDir is the folder that an agent keeps between its starts.
func (f *Fleet) AgentDir(name string) string { return f.dir.Path("agent", strconv.Itoa(number(name))) }

func agentKeyFile(number int) string { return "provider-key-" + strconv.Itoa(number) }

func modelsFile(number int) string { return "models-" + strconv.Itoa(number) + ".json" }

// Offer is a model that an agent offers.
type Offer struct {
	ModelID       string `json:"model_id"`
	EngineURL     string `json:"engine_url"`
	LocalModel    string `json:"local_model"`
	ContextLength int32  `json:"context_length"`
	Capacity      int    `json:"capacity"`
}

// Equip gives an agent that does not run its provider's key and its models. Then it can
// be started. Seed does so for the demo.
func (f *Fleet) Equip(name, key string, offers []Offer) error {
	text, err := json.MarshalIndent(map[string]any{"models": offers}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the agents' models: %w", err)
	}
	if err := f.dir.Write([]byte(key+"\n"), "secrets", agentKeyFile(number(name))); err != nil {
		return err
	}
	return f.dir.Write(append(text, '\n'), "config", modelsFile(number(name)))
}
