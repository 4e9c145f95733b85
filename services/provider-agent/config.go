package provideragent

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/config"
	"svc.internal/services/provider-agent/internal/endpoint"
	"svc.internal/services/provider-agent/internal/engine"
	"svc.internal/services/provider-agent/internal/guard"
	"svc.internal/services/provider-agent/internal/node"
)

// Config is the configuration of an agent.
type Config struct {
	// WSURL is the hub's address, ws://… or wss://…; /ws is added to its path unless the
	// path ends in it.
	WSURL string
	// AllowPlaintext lets WSURL be a ws:// address off this machine. Anybody on the way
	// can then read the provider key, prompts and answers.
	AllowPlaintext bool
	// Key is the provider key. It may be left out with a wallet.
	Key config.Secret
	// WalletKeyFile holds the private key of the owner's wallet, in hexadecimal
	// digits, readable by its owner alone. With it the agent signs in at the service
	// instead of showing Key.
	WalletKeyFile string
	// ServiceURL is the marketplace's HTTP API, at which a wallet signs in. Empty stands
	// for the address that follows from WSURL by custom. WalletDomain is the domain that
	// the wallet signs in at; empty stands for the host of ServiceURL.
	ServiceURL, WalletDomain string
	// StateDir keeps the node id, and the work receipts until they are acknowledged.
	// Without it the node has a new id at every start, and receipts end with the process.
	StateDir string
	// NodeName and Region are shown to the owner and to the router. Both may be empty,
	// and have at most 64 and 32 characters.
	NodeName, Region string
	// Models are what is offered: 1 to 256.
	Models []Model
	// Version of the program, for the hub's records.
	Version string
	// ReportHardware reports the machine's GPUs and the kind of its engine to hubs.
	ReportHardware bool
	// Capabilities are declared to hubs: endpoints that the engines have (chat,
	// embeddings, images, transcriptions) and features (stream, cancel, logprobs,
	// warmup). Nil declares all but images and transcriptions, and logprobs only if the
	// engines return them, for which they are asked. The capability fingerprint follows
	// from the models' folders.
	Capabilities []string
	// RefusedMembers are members of a JSON body that are answered as not supported here,
	// because engines may act on them. Nil stands for guard.Members().
	RefusedMembers []string
	// Stores are the engines' folders in which the agent looks for the files of models without a
	// WeightsDir; the zero value is none. StoresOf returns the usual ones.
	Stores Stores
	// FetchMedia has the agent fetch the pictures and other media that messages name by
	// address, and pass them to the engine as data URLs. Without it the engine fetches
	// them itself, from within this network.
	FetchMedia bool
	// MaxRequestBytes bounds one request's body, at most 26 MiB. Zero is
	// 10 MiB, with transcriptions 26 MiB.
	MaxRequestBytes int64
	// MaxBufferedBytes bounds the bodies of all requests under way. A request beyond it
	// is answered busy.
	MaxBufferedBytes int64
	// DrainTimeout is how long requests under way may take to end once Run's context has
	// ended.
	DrainTimeout time.Duration
	// ProbeInterval is the pause between probes of a healthy engine.
	ProbeInterval time.Duration
}

// DefaultConfig has every default. The hub's address, the key and the models have none.
func DefaultConfig() Config {
	return Config{
		Version:          "dev",
		ReportHardware:   true,
		FetchMedia:       true,
		MaxBufferedBytes: 256 << 20,
		DrainTimeout:     30 * time.Second,
		ProbeInterval:    10 * time.Second,
	}
}

// The largest bodies: of requests, and of a transcription's form.
const (
	maxBody = 10 << 20
	maxForm = 26 << 20
)

func (c Config) withDefaults() Config {
	if c.Capabilities == nil {
		c.Capabilities = endpoint.Capabilities()
	}
	if c.RefusedMembers == nil {
		c.RefusedMembers = guard.Members()
	}
	if c.MaxRequestBytes == 0 {
		c.MaxRequestBytes = maxBody
		if endpoint.Transcriptions.Declared(c.Capabilities) {
			c.MaxRequestBytes = maxForm
		}
	}
	return c
}

// hubAddress turns the configured address into the address of the upgrade. It refuses an
// address in the clear unless it is this machine's or the owner allows it.
func hubAddress(text string, plaintext bool) (string, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return "", errors.New("the hub's address must be ws://host or wss://host")
	}
	if u.Scheme == "ws" && !plaintext && !loopback(u.Hostname()) {
		return "", errors.New("the hub's address is ws://, by which the provider key and all prompts travel in the clear: " +
			"use wss://, or say -allow-plaintext (SVC_ALLOW_PLAINTEXT=true) where the network is your own")
	}
	if path := strings.TrimRight(u.Path, "/"); !strings.HasSuffix(path, "/ws") {
		u.Path = path + "/ws"
	}
	return u.String(), nil
}

// loopback reports whether a host's name alone shows that it is this machine.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

func checkConfig(cfg Config) error {
	var faults []error
	keyless := cfg.WalletKeyFile != "" && !cfg.Key.IsSet()
	if prefix, ok := apikey.Parse(cfg.Key.Reveal()); !keyless && (!ok || prefix != apikey.Provider) {
		faults = append(faults, errors.New("the provider key is missing or mistyped: it begins with sk-prov-"))
	}
	if !printable(cfg.NodeName, 64) || !printable(cfg.Region, 32) || !printable(cfg.Version, 32) {
		faults = append(faults, errors.New("node name, region and version may have 64, 32 and 32 printable characters"))
	}
	if cfg.MaxRequestBytes < 1 || cfg.MaxRequestBytes > maxForm {
		faults = append(faults, errors.New("the largest request must be 1 byte to 26 MiB"))
	}
	faults = append(faults, endpoint.Check(cfg.Capabilities))
	if cfg.MaxBufferedBytes < cfg.MaxRequestBytes {
		faults = append(faults, errors.New("the memory for requests must hold one of the largest"))
	}
	if cfg.DrainTimeout < 0 || cfg.ProbeInterval <= 0 {
		faults = append(faults, errors.New("the drain time-out and the probe interval must be positive"))
	}
	return errors.Join(faults...)
}

func printable(text string, maxRunes int) bool {
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return false
		}
	}
	return utf8.RuneCountInString(text) <= maxRunes
}

// targetsOf makes the engines' targets, with the keys from their files.
func targetsOf(models []Model) ([]engine.Target, error) {
	var faults []error
	targets := make([]engine.Target, 0, len(models))
	for _, m := range models {
		m = m.WithDefaults()
		t := engine.Target{
			ModelID: m.ModelID, URL: m.EngineURL, LocalModel: m.LocalModel, ContextLength: m.ContextLength, Capacity: m.Capacity,
			APIKey: m.APIKey,
		}
		if m.APIKeyFile != "" {
			if err := t.APIKey.UnmarshalText([]byte("file:" + m.APIKeyFile)); err != nil {
				faults = append(faults, fmt.Errorf("the engine key of %s: %w", m.ModelID, err))
			} else if key := t.APIKey.Reveal(); key == "" || !printable(key, 1024) {
				faults = append(faults, fmt.Errorf("the engine key of %s: %s does not hold a key in one line", m.ModelID,
					m.APIKeyFile))
			}
		}
		targets = append(targets, t)
	}
	return targets, errors.Join(faults...)
}

// HubAddress is the address of the hub's WebSocket that follows from the configured address.
// It refuses a ws:// address unless the address is this machine's or plaintext is set.
func HubAddress(text string, plaintext bool) (string, error) { return hubAddress(text, plaintext) }

// NodeIDIn is the node id in a state folder; empty where there is none yet.
func NodeIDIn(dir string) string { return node.In(dir) }

func nodeID(dir string, random io.Reader) (string, error) {
	if dir == "" {
		return node.New(random)
	}
	return node.Load(dir, random)
}
