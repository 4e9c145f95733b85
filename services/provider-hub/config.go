package providerhub

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"time"

	"svc.internal/pkg/address"
	"svc.internal/pkg/apikey"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/config"
	"svc.internal/pkg/serve"
	"svc.internal/services/provider-hub/internal/dispatch"
	"svc.internal/services/provider-hub/internal/external"
	"svc.internal/services/provider-hub/internal/gate"
	"svc.internal/services/provider-hub/internal/proof"
	"svc.internal/services/provider-hub/internal/provider"
	"svc.internal/services/provider-hub/internal/session"
)

// Config says which hub this is and how much it takes. DefaultConfig has the
// defaults; a duration or number that is zero stands for its default too.
type Config struct {
	// HubID names the hub to routers and in subjects: 1 to 32 of [a-z0-9-].
	// It must stay with the journal.
	HubID string `yaml:"id" env:"SVC_HUB_ID"`
	// WSAddr is where agents connect.
	WSAddr string `yaml:"ws_addr" env:"SVC_WS_ADDR"`
	// DispatchAddress is where gateways reach this hub; a process knows its own.
	DispatchAddress string `yaml:"-"`
	// JournalDir is the folder of the journal, used by this hub alone.
	JournalDir string `yaml:"journal_dir" env:"SVC_JOURNAL_DIR"`
	// JournalMaxBytes is the journal's quota, 8 GiB; requests are taken up to
	// 80 % of it. JournalSegmentBytes is the size of a file in it, 64 MiB.
	JournalMaxBytes     int64 `yaml:"journal_max_bytes" env:"SVC_HUB_JOURNAL_MAX_BYTES"`
	JournalSegmentBytes int64 `yaml:"journal_segment_bytes" env:"SVC_HUB_JOURNAL_SEGMENT_BYTES"`
	// JournalMaxAttempts bounds the attempts in the journal that are under way or
	// not settled, 1,048,576: about 200 bytes of memory each.
	JournalMaxAttempts int `yaml:"journal_max_attempts" env:"SVC_HUB_JOURNAL_MAX_ATTEMPTS"`
	// Pepper hides provider keys in the database.
	Pepper apikey.Pepper `yaml:"pepper" env:"SVC_PEPPER"`
	// PepperPrevious is accepted too while the fleet changes its pepper: first it is the next pepper,
	// and after the two were swapped it is the one before. See deploy/runbooks/rotation.md.
	PepperPrevious apikey.Pepper `yaml:"pepper_previous" env:"SVC_PEPPER_PREVIOUS"`
	// WorkReceiptSecret is the secret by which the hubs of a fleet recognize the work
	// receipts of their attempts: 32 bytes or more, the same in all of them. Unset, it is
	// derived from the pepper. Package proof says how a fleet changes it.
	WorkReceiptSecret config.Secret `yaml:"work_receipt_secret" env:"SVC_HUB_WORK_RECEIPT_SECRET"`
	// WorkReceiptSecretPrevious is accepted too while the fleet changes its secret, and
	// as long as receipts of the old one may come, a week: 32 bytes or more, or the word
	// pepper for the secret that is derived from the pepper.
	WorkReceiptSecretPrevious config.Secret `yaml:"work_receipt_secret_previous" env:"SVC_HUB_WORK_RECEIPT_SECRET_PREVIOUS"`

	// EndpointSecret is the secret that the keys of external endpoints are sealed under: 32
	// bytes or more, the same in all hubs. Where it is unset, a secret of the fleet takes its
	// place, which the database keeps sealed under the pepper and which outlives peppers.
	EndpointSecret config.Secret `yaml:"endpoint_secret" env:"SVC_HUB_ENDPOINT_SECRET"`
	// EndpointSecretPrevious opens keys too while the fleet changes its secret: at first it is the
	// next secret, and once the two are swapped it is the old secret. See
	// deploy/runbooks/rotation.md.
	EndpointSecretPrevious config.Secret `yaml:"endpoint_secret_previous" env:"SVC_HUB_ENDPOINT_SECRET_PREVIOUS"`

	// EndpointLease is how long other hubs wait for a sign of life of the hub that calls an
	// external endpoint: 20 s. A hub renews its leases four times in it. EndpointProbeInterval is
	// about the pause between two probes of an endpoint: 30 s.
	EndpointLease         time.Duration `yaml:"endpoint_lease" env:"SVC_HUB_ENDPOINT_LEASE"`
	EndpointProbeInterval time.Duration `yaml:"endpoint_probe_interval" env:"SVC_HUB_ENDPOINT_PROBE_INTERVAL"`
	// EndpointAuthorities sign the certificates of external endpoints; nil means the system's.
	EndpointAuthorities *x509.CertPool `yaml:"-"`

	// MaxSockets bounds the sockets of agents: 10,000. SessionsPerProvider bounds the
	// sessions of one provider: 64.
	MaxSockets          int `yaml:"max_sockets" env:"SVC_HUB_MAX_SOCKETS"`
	SessionsPerProvider int `yaml:"sessions_per_provider" env:"SVC_HUB_SESSIONS_PER_PROVIDER"`
	// DialsPerSecond is how many connections are accepted in a second, 2,000, and at
	// least HandshakesPerSecond; 0 is no bound. Further connections wait, whoever dials;
	// what one network may do must be bounded in front of the hub. HandshakesPerSecond is
	// how fast new sockets are let in, 500: 10,000 agents are back within 20 s.
	DialsPerSecond      int     `yaml:"dials_per_second" env:"SVC_HUB_DIALS_PER_SECOND"`
	HandshakesPerSecond float64 `yaml:"handshakes_per_second" env:"SVC_HUB_HANDSHAKES_PER_SECOND"`
	// TrustedProxies are the addresses and networks, separated by commas, whose
	// X-Forwarded-For is believed: bounds by network then count what is behind them.
	TrustedProxies string `yaml:"trusted_proxies" env:"SVC_HUB_TRUSTED_PROXIES"`
	// RegisterTimeout is how long a socket may stay unregistered, 10 s.
	RegisterTimeout time.Duration `yaml:"register_timeout" env:"SVC_HUB_REGISTER_TIMEOUT"`
	// HeartbeatInterval is the interval that agents are given, 10 s. A session without a
	// heartbeat for SessionTimeout, 30 s, ends.
	HeartbeatInterval time.Duration `yaml:"heartbeat_interval" env:"SVC_HUB_HEARTBEAT_INTERVAL"`
	SessionTimeout    time.Duration `yaml:"session_timeout" env:"SVC_HUB_SESSION_TIMEOUT"`
	// PingInterval and PongTimeout find dead peers: 15 s and 5 s.
	PingInterval time.Duration `yaml:"ping_interval" env:"SVC_HUB_PING_INTERVAL"`
	PongTimeout  time.Duration `yaml:"pong_timeout" env:"SVC_HUB_PONG_TIMEOUT"`
	// CancelGrace is how long a cancelled request keeps its slot when the agent does not
	// end it, 10 s.
	CancelGrace time.Duration `yaml:"cancel_grace" env:"SVC_HUB_CANCEL_GRACE"`
	// CommitWait is how long an answer waits for the gateway's commit, 5 s.
	CommitWait time.Duration `yaml:"commit_wait" env:"SVC_HUB_COMMIT_WAIT"`
	// ContentTimeout is how long a stream may pause once it has begun, 120 s.
	ContentTimeout time.Duration `yaml:"content_timeout" env:"SVC_HUB_CONTENT_TIMEOUT"`
	// ResettleAfter is how long usage may stay unsettled before it is
	// published again, 30 s.
	ResettleAfter time.Duration `yaml:"resettle_after" env:"SVC_HUB_RESETTLE_AFTER"`
	// DrainTimeout is how long streams may take to end once Run's context has ended, 120
	// s.
	DrainTimeout time.Duration `yaml:"drain_timeout" env:"SVC_HUB_DRAIN_TIMEOUT"`

	// WalletDomain is the host, with a port unless it is the usual one, that
	// wallets sign for, localhost; the same in all hubs. WalletChainID is the
	// chain that they sign on, 8453.
	WalletDomain  string `yaml:"wallet_domain" env:"SVC_HUB_WALLET_DOMAIN"`
	WalletChainID int64  `yaml:"wallet_chain_id" env:"SVC_HUB_WALLET_CHAIN_ID"`

	// DevelopmentCollateral is this hub's consent to collateral that nobody holds, which a
	// settlement with the same setting confirms. A process that listens anywhere but on
	// loopback refuses it.
	DevelopmentCollateral bool `yaml:"development_collateral" env:"SVC_HUB_DEVELOPMENT_COLLATERAL"`
	// DevelopmentEndpoints admits external endpoints on this machine and over http. A process
	// that listens anywhere but on loopback refuses it.
	DevelopmentEndpoints bool `yaml:"development_endpoints" env:"SVC_HUB_DEVELOPMENT_ENDPOINTS"`
}

// DefaultConfig has every default; HubID, DispatchAddress, JournalDir and
// Pepper have none.
func DefaultConfig() Config {
	return Config{
		WSAddr:          "127.0.0.1:8081",
		JournalMaxBytes: 8 << 30, JournalSegmentBytes: 64 << 20, JournalMaxAttempts: 1 << 20,
		MaxSockets: 10_000, SessionsPerProvider: 64, DialsPerSecond: 2_000, HandshakesPerSecond: 500,
		RegisterTimeout: 10 * time.Second, HeartbeatInterval: 10 * time.Second, SessionTimeout: 30 * time.Second,
		PingInterval: 15 * time.Second, PongTimeout: 5 * time.Second, CancelGrace: 10 * time.Second,
		CommitWait: 5 * time.Second, ResettleAfter: 30 * time.Second, ContentTimeout: 120 * time.Second,
		DrainTimeout: 120 * time.Second, EndpointLease: 20 * time.Second, EndpointProbeInterval: 30 * time.Second,
		WalletDomain: defaultWalletDomain, WalletChainID: defaultWalletChain,
	}
}

// Validate returns every fault of the configuration.
func (c Config) Validate() error {
	var faults []error
	if _, _, err := net.SplitHostPort(c.WSAddr); err != nil {
		faults = append(faults, fmt.Errorf("%s %q is not host:port", ListenSetting, c.WSAddr))
	}
	if !bus.ValidHubID(c.HubID) {
		faults = append(faults, errors.New("hub id must be 1 to 32 of a-z, 0-9 and hyphen, and neither ledger nor gateway"))
	}
	if c.JournalDir == "" {
		faults = append(faults, errors.New("journal folder is missing"))
	}
	if c.Pepper == (apikey.Pepper{}) {
		faults = append(faults, errors.New("pepper is missing"))
	}
	if !c.PepperPrevious.IsZero() && c.PepperPrevious == c.Pepper {
		faults = append(faults, errors.New("pepper and pepper_previous must differ"))
	}
	if c.WorkReceiptSecret.IsSet() && len(c.WorkReceiptSecret.Reveal()) < minWorkReceiptSecret {
		faults = append(faults, fmt.Errorf("receipt secret has fewer than %d bytes", minWorkReceiptSecret))
	}
	if p := c.WorkReceiptSecretPrevious; p.IsSet() && p.Reveal() != pepperSecret &&
		len(p.Reveal()) < minWorkReceiptSecret {
		faults = append(faults, fmt.Errorf("previous receipt secret has fewer than %d bytes and is not the word %s",
			minWorkReceiptSecret, pepperSecret))
	}
	faults = append(faults, c.endpointFaults()...)
	for name, d := range map[string]time.Duration{
		"register timeout": c.RegisterTimeout, "heartbeat interval": c.HeartbeatInterval, "session timeout": c.SessionTimeout,
		"ping interval": c.PingInterval, "pong timeout": c.PongTimeout, "cancel grace": c.CancelGrace,
		"commit wait": c.CommitWait, "resettle after": c.ResettleAfter, "content timeout": c.ContentTimeout,
		"drain timeout": c.DrainTimeout, "endpoint lease": c.EndpointLease,
		"endpoint probe interval": c.EndpointProbeInterval,
	} {
		if d < 0 {
			faults = append(faults, fmt.Errorf("%s is negative", name))
		}
	}
	if c.MaxSockets < 0 || c.SessionsPerProvider < 0 || c.DialsPerSecond < 0 || c.HandshakesPerSecond < 0 ||
		c.JournalMaxBytes < 0 || c.JournalSegmentBytes < 0 || c.JournalMaxAttempts < 0 {
		faults = append(faults, errors.New("a limit is negative"))
	}
	if c.DialsPerSecond > 0 && float64(c.DialsPerSecond) < c.HandshakesPerSecond {
		faults = append(faults, errors.New("dials per second are fewer than handshakes per second"))
	}
	if _, err := address.ParseProxies(c.TrustedProxies); err != nil {
		faults = append(faults, fmt.Errorf("trusted proxies: %w", err))
	}
	if err := c.site().Validate(); err != nil {
		faults = append(faults, err)
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("provider-hub config: %w", err)
	}
	return nil
}

// endpointFaults are the faults of the settings of external endpoints.
func (c Config) endpointFaults() (faults []error) {
	for name, secret := range map[string]config.Secret{
		"endpoint secret": c.EndpointSecret, "previous endpoint secret": c.EndpointSecretPrevious,
	} {
		if secret.IsSet() && len(secret.Reveal()) < external.MinSecret {
			faults = append(faults, fmt.Errorf("%s has fewer than %d bytes", name, external.MinSecret))
		}
	}
	if c.EndpointSecretPrevious.IsSet() && c.EndpointSecretPrevious == c.EndpointSecret {
		faults = append(faults, errors.New("endpoint_secret and endpoint_secret_previous must differ"))
	}
	return faults
}

// What wallets sign for by default.
const (
	defaultWalletDomain = "localhost"
	defaultWalletChain  = 8453
)

// site is what wallets sign for.
func (c Config) site() provider.Site {
	domain, chain := c.WalletDomain, c.WalletChainID
	if domain == "" {
		domain = defaultWalletDomain
	}
	if chain == 0 {
		chain = defaultWalletChain
	}
	return provider.Site{Domain: domain, URI: "wss://" + domain + "/ws", ChainID: chain}
}

// minWorkReceiptSecret is in bytes.
const minWorkReceiptSecret = 32

// pepperSecret stands for the secret that is derived from the pepper.
const pepperSecret = "pepper"

// proofs are the secrets of the proofs in work receipts. They are never secrets that
// others could know, because the configuration is refused without a pepper. While the fleet changes
// a pepper of which the secret is derived, proofs of both peppers are good.
func (c Config) proofs() proof.Secrets {
	secrets := proof.Secrets{Current: proof.Derive(c.Pepper[:])}
	if c.WorkReceiptSecret.IsSet() {
		secrets.Current = proof.Derive([]byte(c.WorkReceiptSecret.Reveal()))
	}
	if p := c.WorkReceiptSecretPrevious; p.IsSet() {
		previous := proof.Derive(c.Pepper[:])
		if p.Reveal() != pepperSecret {
			previous = proof.Derive([]byte(p.Reveal()))
		}
		secrets.Previous = &previous
	} else if !c.WorkReceiptSecret.IsSet() && !c.PepperPrevious.IsZero() {
		previous := proof.Derive(c.PepperPrevious[:])
		secrets.Previous = &previous
	}
	return secrets
}

func (c Config) gate() gate.Config {
	proxies, _ := address.ParseProxies(c.TrustedProxies) // Validate has refused what cannot be read
	return gate.Config{
		Session: session.Config{
			RegisterTimeout: c.RegisterTimeout, HeartbeatInterval: c.HeartbeatInterval, CancelGrace: c.CancelGrace,
		},
		Addresses: address.New(proxies), SessionTimeout: c.SessionTimeout,
		PingInterval: c.PingInterval, PongTimeout: c.PongTimeout,
		MaxSockets: c.MaxSockets, HandshakeRate: c.HandshakesPerSecond,
	}
}

const (
	// Agents that are told to move wait for toldLeast and at most moveEach more for
	// each of them, up to the reconnect spread of sessions. Then they take moveTime
	// to register elsewhere, and many of them up to maxMove.
	toldLeast = 100 * time.Millisecond
	moveEach  = 5 * time.Millisecond
	moveTime  = time.Second
	maxMove   = 2 * time.Second
)

// movingTime is how long a hub that stops waits for its agents to register elsewhere,
// when it has asked so many of any dialect. It cannot know whether another hub takes
// them.
func (c Config) movingTime(agents int) time.Duration {
	each := time.Duration(agents) * moveEach
	return toldLeast + min(each, c.gate().WithDefaults().ReconnectSpread) + min(moveTime+each, maxMove)
}

// maxAnswer bounds an answer that is not streamed, because it is sent to the gateway in
// one message, beside a little of our own.
const (
	maxAnswer = min(12<<20, serve.MaxMessageBytes) - 64<<10
	maxImages = min(26<<20, serve.MaxMessageBytes-64<<10)
)

func (c Config) attempts() dispatch.Config {
	return dispatch.Config{CommitWait: c.CommitWait, ContentTimeout: c.ContentTimeout, MaxAnswer: maxAnswer,
		MaxImages: maxImages}
}
