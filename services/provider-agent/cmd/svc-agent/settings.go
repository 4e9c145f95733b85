package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"

	"svc.internal/pkg/config"
)

// environment are the agent's settings. Variables of the environment win over config.yaml,
// and flags win over both.
type environment struct {
	// Config is the path of config.yaml, which config.yaml cannot name.
	Config string        `yaml:"-" env:"SVC_CONFIG"`
	WSURL  string        `yaml:"ws_url" env:"SVC_WS_URL"`
	Key    config.Secret `yaml:"provider_key" env:"SVC_PROVIDER_KEY"`
	// AllowPlaintext lets WSURL be a ws:// address off this machine.
	AllowPlaintext bool `yaml:"allow_plaintext" env:"SVC_ALLOW_PLAINTEXT"`
	// ServiceURL is the marketplace's HTTP API. Empty stands for the address that follows
	// from WSURL by custom.
	ServiceURL string `yaml:"service_url" env:"SVC_SERVICE_URL"`
	// WalletKeyFile and WalletDomain are for signing in with a wallet instead of the key.
	WalletKeyFile string `yaml:"wallet_key_file" env:"SVC_WALLET_KEY_FILE"`
	WalletDomain  string `yaml:"wallet_domain" env:"SVC_WALLET_DOMAIN"`
	Models        string `yaml:"models" env:"SVC_MODELS"`
	StateDir      string `yaml:"state_dir" env:"SVC_STATE_DIR"`
	NodeName      string `yaml:"node_name" env:"SVC_NODE_NAME"`
	Region        string `yaml:"region" env:"SVC_REGION"`
	// Capabilities are what the engines can do; empty for the usual ones.
	Capabilities []string `yaml:"capabilities" env:"SVC_CAPABILITIES"`
	// RefuseMembers are members of requests that are not supported here. The word none
	// stands for no member. An empty list stands for the members that guard.Members
	// lists.
	RefuseMembers []string `yaml:"refuse_members" env:"SVC_REFUSE_MEMBERS"`
	// FetchMedia has the agent fetch the media that messages name by address, instead of
	// the engine.
	FetchMedia bool `yaml:"fetch_media" env:"SVC_FETCH_MEDIA"`
	// FindFiles makes the agent look for the files of models in the stores of the engines.
	FindFiles bool `yaml:"find_files" env:"SVC_FIND_FILES"`
	// Hardware reports this machine's GPUs to the hub.
	Hardware  bool   `yaml:"hardware" env:"SVC_HARDWARE"`
	LogLevel  string `yaml:"log_level" env:"SVC_LOG_LEVEL"`
	LogFormat string `yaml:"log_format" env:"SVC_LOG_FORMAT"`
	// OTLPEndpoint is a trace collector of the owner's; empty for none. Hubs decide which
	// requests are recorded.
	OTLPEndpoint string `yaml:"otlp_endpoint" env:"SVC_OTLP_ENDPOINT"`
	OTLPInsecure bool   `yaml:"otlp_insecure" env:"SVC_OTLP_INSECURE"`
}

// defaults are the settings that neither a file nor the environment changes.
func defaults() environment {
	return environment{
		Models: "models.json", FetchMedia: true, FindFiles: true, Hardware: true, LogLevel: "info", LogFormat: "text",
	}
}

// configName is the name of the file of settings in the folder of the agent's state.
const configName = "config.yaml"

// home is the folder of the agent's settings and state unless the owner names another:
// svc-agent in the user's folder for configuration. It is empty where the environment does
// not say.
func (c invocation) home() string {
	if dir := c.variable("SVC_STATE_DIR"); dir != "" {
		return dir
	}
	user := c.variable("HOME")
	switch {
	case filepath.IsAbs(c.variable("XDG_CONFIG_HOME")):
		return filepath.Join(c.variable("XDG_CONFIG_HOME"), "svc-agent")
	case user == "":
		return ""
	case runtime.GOOS == "darwin":
		return filepath.Join(user, "Library", "Application Support", "svc-agent")
	}
	return filepath.Join(user, ".config", "svc-agent")
}

// configFile is the path of the file of settings: SVC_CONFIG, else config.yaml in home. It
// is empty where there is no such file and none was asked for.
func (c invocation) configFile() string {
	if path := c.variable("SVC_CONFIG"); path != "" {
		return path
	}
	home := c.home()
	if home == "" {
		return ""
	}
	path := filepath.Join(home, configName)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return path
}

// nameAPI returns a sentence that says how the owner sets the API's address, where it cannot be derived
// from the hub's.
func (cfg environment) nameAPI() string {
	file := cfg.Config
	if file == "" {
		file = filepath.Join(cfg.StateDir, configName)
	}
	return "the API's host or port may differ from the hub's: set service_url in " + file +
		" (svc-agent setup writes it), or SVC_SERVICE_URL, or -service"
}

// settings reads the file of settings, and the environment over it.
func (c invocation) settings() (environment, error) {
	cfg := defaults()
	if c.describe != nil { // a fault of the settings does not matter to completion
		return cfg, nil
	}
	err := config.Read(&cfg, c.configFile(), c.environ)
	if cfg.StateDir == "" {
		cfg.StateDir = c.home()
	}
	return cfg, err
}
