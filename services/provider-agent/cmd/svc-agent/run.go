package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"svc.internal/pkg/telemetry"
	provideragent "svc.internal/services/provider-agent"
)

func run(ctx context.Context, c invocation) error {
	cfg, err := options(c)
	if err != nil {
		return err
	}
	tell := telemetry.Config{
		LogLevel: cfg.LogLevel, LogFormat: cfg.LogFormat,
		Service: "provider-agent", OTLPEndpoint: cfg.OTLPEndpoint, OTLPInsecure: cfg.OTLPInsecure,
	}
	log, err := telemetry.NewLog(tell, c.diagnostics)
	if err != nil {
		return err
	}
	traces, stopTraces, err := telemetry.NewTraces(tell, log)
	if err != nil {
		return err
	}
	models, err := offered(ctx, cfg, log)
	if err != nil {
		return err
	}
	agentConfig := provideragent.DefaultConfig()
	agentConfig.WSURL, agentConfig.Key, agentConfig.StateDir = cfg.WSURL, cfg.Key, cfg.StateDir
	agentConfig.AllowPlaintext = cfg.AllowPlaintext
	agentConfig.NodeName, agentConfig.Region = cfg.NodeName, cfg.Region
	agentConfig.ServiceURL, agentConfig.WalletKeyFile, agentConfig.WalletDomain = cfg.ServiceURL, cfg.WalletKeyFile,
		cfg.WalletDomain
	agentConfig.RefusedMembers, agentConfig.FetchMedia = members(cfg.RefuseMembers), cfg.FetchMedia
	agentConfig.ReportHardware = cfg.Hardware
	if cfg.FindFiles {
		agentConfig.Stores = provideragent.StoresOf(c.variable)
	}
	agentConfig.Models, agentConfig.Version, agentConfig.Capabilities = models, version(), cfg.Capabilities
	agent, err := provideragent.New(agentConfig, provideragent.Deps{Log: log, Traces: traces})
	if err != nil {
		return err
	}
	log.Info("agent starts", "version", version(), "node_id", agent.NodeID(), "hub", cfg.WSURL, "models", len(models))
	follows, unfollow := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() {
		agent.Follow(follows, cfg.Models, func(ctx context.Context) ([]provideragent.Model, error) {
			return offered(ctx, cfg, log)
		})
	})
	err = agent.Run(ctx)
	unfollow()
	work.Wait()
	log.Info("agent stops", "receipts_kept", agent.Receipts().Kept)
	return errors.Join(err, stopTraces(context.WithoutCancel(ctx)))
}

// catalogPatience bounds how long the catalog may delay the start.
const catalogPatience = 5 * time.Second

// offered reads models.json and leaves out the models that the catalog does not have. When the
// catalog cannot be asked, all models are offered, because hubs refuse such models as well.
func offered(ctx context.Context, cfg environment, log *slog.Logger) ([]provideragent.Model, error) {
	models, err := provideragent.LoadModels(cfg.Models)
	if err != nil {
		return nil, err
	}
	if provideragent.ExposedKeys(cfg.Models, models) {
		log.Warn("others may read the keys of engines in models.json: run chmod 600 on it", "file", cfg.Models)
	}
	asking, cancel := context.WithTimeout(ctx, catalogPatience)
	defer cancel()
	refused, err := strangers(asking, cfg, models)
	if err != nil {
		log.Info("the catalog was not asked for the models", "reason", err)
		return models, nil
	}
	var kept []provideragent.Model
	for _, m := range models {
		if why := refused[m.ModelID]; why != "" {
			log.Error("a model of models.json is refused", "model", m.ModelID, "reason", why)
			continue
		}
		kept = append(kept, m)
	}
	if len(kept) == 0 {
		return nil, fmt.Errorf("%s: no model is one of the catalog that providers serve; svc-agent check says why",
			cfg.Models)
	}
	return kept, nil
}

// options reads the flags over the settings.
func options(c invocation) (environment, error) {
	cfg, err := c.settings()
	if err != nil {
		return cfg, err
	}
	flags := c.flags("run")
	flags.StringVar(&cfg.Models, "models", cfg.Models, "`file` that lists the models (SVC_MODELS)")
	flags.StringVar(&cfg.WSURL, "ws", cfg.WSURL, "`URL` of the hub, ws:// or wss:// (SVC_WS_URL)")
	flags.BoolVar(&cfg.AllowPlaintext, "allow-plaintext", cfg.AllowPlaintext,
		"let the hub's URL be ws:// although it is not this machine's: key,"+
			" prompts and answers travel in the clear (SVC_ALLOW_PLAINTEXT)")
	flags.StringVar(&cfg.StateDir, "state", cfg.StateDir,
		"`folder` that keeps this machine's node id (SVC_STATE_DIR; default: svc-agent in the user's configuration)")
	flags.StringVar(&cfg.NodeName, "name", cfg.NodeName,
		"this machine's `name`, as you want to see it (SVC_NODE_NAME; default: the host's name)")
	flags.StringVar(&cfg.Region, "region", cfg.Region, "where this machine is (SVC_REGION)")
	flags.BoolVar(&cfg.Hardware, "hardware", cfg.Hardware, "tell the hub of this machine's GPUs (SVC_HARDWARE)")
	flags.StringVar(&cfg.ServiceURL, "service", cfg.ServiceURL,
		"`URL` of the marketplace's API, https:// (SVC_SERVICE_URL; default: from the hub's)")
	flags.StringVar(&cfg.WalletKeyFile, "wallet-key-file", cfg.WalletKeyFile,
		"`file` with the private key of your wallet, to sign in with instead of a provider key (SVC_WALLET_KEY_FILE)")
	flags.BoolVar(&cfg.FetchMedia, "fetch-media", cfg.FetchMedia,
		"fetch pictures that requests name by address here, from public addresses only,"+
			" instead of having the engine do it (SVC_FETCH_MEDIA)")
	flags.BoolVar(&cfg.FindFiles, "find-files", cfg.FindFiles,
		"look for the files of models without a weights_dir in the stores of Ollama and Hugging Face"+
			" (SVC_FIND_FILES)")
	flags.Func("refuse-members",
		"members of requests that are not supported here, as a `list` with commas,"+
			" or none (SVC_REFUSE_MEMBERS; default: kv_transfer_params, chat_template, lora_request,"+
			" extra_args)", func(list string) error {
			cfg.RefuseMembers = strings.Split(list, ",")
			return nil
		})
	flags.Func("capabilities",
		"what the engines have, of chat, embeddings, images, transcriptions, stream, cancel, logprobs and warmup,"+
			" as a `list` with commas (SVC_CAPABILITIES; default: all but images and transcriptions,"+
			" and logprobs if the engines return them)", func(list string) error {
			cfg.Capabilities = strings.Split(list, ",")
			return nil
		})
	keyFile := flags.String("key-file", "", "`file` that holds the provider key (instead of SVC_PROVIDER_KEY)")
	if err := c.parse(flags); err != nil {
		return cfg, err
	}
	if *keyFile != "" {
		if err := cfg.Key.UnmarshalText([]byte("file:" + *keyFile)); err != nil {
			return cfg, err
		}
	}
	return fillFromHost(cfg)
}

// members are the members to refuse; nil for the usual ones.
func members(list []string) []string {
	if len(list) == 1 && list[0] == "none" {
		return []string{}
	}
	return list
}

// fillFromHost fills missing settings from the machine.
func fillFromHost(cfg environment) (environment, error) {
	if cfg.StateDir == "" {
		home, err := os.UserConfigDir()
		if err != nil {
			return cfg, errors.Join(errors.New("give -state: this user has no folder for configuration"), err)
		}
		cfg.StateDir = filepath.Join(home, "svc-agent")
	}
	if cfg.NodeName == "" {
		if name, err := os.Hostname(); err == nil {
			cfg.NodeName = name[:min(len(name), 64)]
		}
	}
	return cfg, nil
}

// release is the version that deploy/images links in; empty in other builds.
var release string

// version is the version of the build, at most 32 characters.
func version() string {
	if release != "" {
		return release[:min(len(release), 32)]
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	text := info.Main.Version
	if text == "" || text == "(devel)" {
		text = "dev"
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && s.Value != "" {
				text = "dev-" + s.Value[:min(len(s.Value), 12)]
			}
		}
	}
	return text[:min(len(text), 32)]
}
