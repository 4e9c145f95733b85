package edgegateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"svc.internal/pkg/config"

	"svc.internal/pkg/address"
	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/auth"
	"svc.internal/services/edge-gateway/internal/cardapi"
	"svc.internal/services/edge-gateway/internal/httpapi"
	"svc.internal/services/edge-gateway/internal/idempotency"
	"svc.internal/services/edge-gateway/internal/inference"
	"svc.internal/services/edge-gateway/internal/openaiapi"
	"svc.internal/services/edge-gateway/internal/operator"
	"svc.internal/services/edge-gateway/internal/playground"
	"svc.internal/services/edge-gateway/internal/quota"
	"svc.internal/services/edge-gateway/internal/ratelimit"
)

// maxReportBatch is billing-ledger's own bound on one call.
const maxReportBatch = 200

// maxUpload is the largest file that a hub takes, without its form, in bytes.
const maxUpload = 25 << 20

// Config bounds the gateway. DefaultConfig has the values that the public API documents.
// Each gateway counts for itself; rates, concurrency and credit are billing-ledger's to
// count.
type Config struct {
	// HTTPAddr is where the public API listens.
	HTTPAddr string `yaml:"http_addr" env:"SVC_HTTP_ADDR"`
	// OperatorAddr is where operators' routes, /api/v1/admin, are served. They are not on
	// the public listener. The public must not reach this one.
	OperatorAddr string `yaml:"operator_addr" env:"SVC_OPERATOR_ADDR"`
	// OperatorHosts are the host names, separated by commas, that the operators' listener
	// answers to beside localhost and IP addresses.
	OperatorHosts string `yaml:"operator_hosts" env:"SVC_OPERATOR_HOSTS"`
	// AdminTokens are bootstrap tokens, as name:token separated by commas or lines. A bootstrap
	// token makes the first operator while no admin is active, and does nothing else unless
	// Bootstrap is set. A token has 32 to 256 bytes. Two tokens of one name are a rotation.
	AdminTokens config.Secret `yaml:"admin_tokens" env:"SVC_ADMIN_TOKENS"`
	// Bootstrap lets bootstrap tokens make every operator's call, for when no operator can sign
	// in. Every such call is logged as an error.
	Bootstrap bool `yaml:"bootstrap" env:"SVC_GATEWAY_BOOTSTRAP"`
	// MachineTokens are the tokens of programs that call operators' routes, as
	// name:role:digest separated by commas or lines. The role is viewer, support, treasurer or
	// admin, and the digest the SHA-256 of a token of 32 random bytes or more, in hexadecimal.
	MachineTokens config.Secret `yaml:"machine_tokens" env:"SVC_MACHINE_TOKENS"`
	// WrongTokens is how many wrong tokens and passwords of operators an address (of IPv6, a
	// /64) may try in a minute.
	WrongTokens int `yaml:"wrong_tokens" env:"SVC_GATEWAY_WRONG_TOKENS"`
	// NearHubID is the hub that is preferred among equals, for a gateway in one process
	// with that hub; empty for none.
	NearHubID string `yaml:"near_hub_id" env:"SVC_GATEWAY_NEAR_HUB_ID"`

	// MaxConnections bounds the open connections of the public listener; each costs a
	// descriptor and about 20 KB. MaxConnectionsOfNetwork bounds those of one IPv4
	// address or IPv6 /64. Trusted proxies have only the first bound.
	MaxConnections          int `yaml:"max_connections" env:"SVC_GATEWAY_MAX_CONNECTIONS"`
	MaxConnectionsOfNetwork int `yaml:"max_connections_of_network" env:"SVC_GATEWAY_MAX_CONNECTIONS_OF_NETWORK"`

	// MaxBodyBytes bounds the body of a request, MaxAdminBodyBytes the body of an
	// operator's call.
	MaxBodyBytes      int64 `yaml:"max_body_bytes" env:"SVC_GATEWAY_MAX_BODY_BYTES"`
	MaxAdminBodyBytes int64 `yaml:"max_admin_body_bytes" env:"SVC_GATEWAY_MAX_ADMIN_BODY_BYTES"`
	// MaxUploadBytes bounds a file to be transcribed (at most 25 MiB). UploadMemoryBytes
	// bounds all uploads that are being served. An upload that is being rebuilt for its
	// provider stands in memory twice for that moment.
	MaxUploadBytes    int64 `yaml:"max_upload_bytes" env:"SVC_GATEWAY_MAX_UPLOAD_BYTES"`
	UploadMemoryBytes int64 `yaml:"upload_memory_bytes" env:"SVC_GATEWAY_UPLOAD_MEMORY_BYTES"`
	// UploadKeyMemoryBytes bounds the uploads of one consumer key that are being served.
	UploadKeyMemoryBytes int64 `yaml:"upload_key_memory_bytes" env:"SVC_GATEWAY_UPLOAD_KEY_MEMORY_BYTES"`
	// WaitingMemoryBytes bounds the bodies of the requests that wait for another with the
	// same Idempotency-Key. One consumer key may have a quarter of it.
	WaitingMemoryBytes int64 `yaml:"waiting_memory_bytes" env:"SVC_GATEWAY_WAITING_MEMORY_BYTES"`
	// IdempotencyRate is how many requests with an Idempotency-Key a consumer key may
	// send in a second to this gateway, IdempotencyBurst how many at once. Beyond them
	// the answer is 429.
	IdempotencyRate  int `yaml:"idempotency_rate" env:"SVC_GATEWAY_IDEMPOTENCY_RATE"`
	IdempotencyBurst int `yaml:"idempotency_burst" env:"SVC_GATEWAY_IDEMPOTENCY_BURST"`
	// MaxMessages bounds the messages of a chat; it is at most 2,048.
	MaxMessages int64 `yaml:"max_messages" env:"SVC_GATEWAY_MAX_MESSAGES"`
	// BodyTimeout is how long a client may take to send a body.
	BodyTimeout time.Duration `yaml:"body_timeout" env:"SVC_GATEWAY_BODY_TIMEOUT"`
	// WriteTimeout is how long a client may take to read one event or piece.
	WriteTimeout time.Duration `yaml:"write_timeout" env:"SVC_GATEWAY_WRITE_TIMEOUT"`

	// MaxAttempts is how many providers are tried for one request.
	MaxAttempts int `yaml:"max_attempts" env:"SVC_GATEWAY_MAX_ATTEMPTS"`
	// FirstContentTimeout bounds one attempt of a stream to its first content; the time
	// to read a long prompt is added to it. FirstContentTotalTimeout bounds all attempts
	// together.
	FirstContentTimeout      time.Duration `yaml:"first_content_timeout" env:"SVC_GATEWAY_FIRST_CONTENT_TIMEOUT"`
	FirstContentTotalTimeout time.Duration `yaml:"first_content_total_timeout" env:"SVC_GATEWAY_FIRST_CONTENT_TOTAL_TIMEOUT"`
	// TotalTimeout bounds a whole request.
	TotalTimeout time.Duration `yaml:"total_timeout" env:"SVC_GATEWAY_TOTAL_TIMEOUT"`
	// HoldHeaders is how long a stream's headers wait for the first content. After that a
	// comment each KeepAlive keeps the stream alive.
	HoldHeaders time.Duration `yaml:"hold_headers" env:"SVC_GATEWAY_HOLD_HEADERS"`
	KeepAlive   time.Duration `yaml:"keep_alive" env:"SVC_GATEWAY_KEEP_ALIVE"`
	// HubGrace is how much longer than allowed a hub may be silent before the gateway
	// gives it up.
	HubGrace time.Duration `yaml:"hub_grace" env:"SVC_GATEWAY_HUB_GRACE"`

	// AdmitTimeout and SelectTimeout bound the calls of admission.
	AdmitTimeout  time.Duration `yaml:"admit_timeout" env:"SVC_GATEWAY_ADMIT_TIMEOUT"`
	SelectTimeout time.Duration `yaml:"select_timeout" env:"SVC_GATEWAY_SELECT_TIMEOUT"`

	// KnownKeys and RefusedKeys are how many keys are remembered as good and as refused,
	// KnownKeyTTL and RefusedKeyTTL for how long.
	KnownKeys     int           `yaml:"known_keys" env:"SVC_GATEWAY_KNOWN_KEYS"`
	KnownKeyTTL   time.Duration `yaml:"known_key_ttl" env:"SVC_GATEWAY_KNOWN_KEY_TTL"`
	RefusedKeys   int           `yaml:"refused_keys" env:"SVC_GATEWAY_REFUSED_KEYS"`
	RefusedKeyTTL time.Duration `yaml:"refused_key_ttl" env:"SVC_GATEWAY_REFUSED_KEY_TTL"`
	// WrongKeys is how many unknown keys and sessions an address (of IPv6, a /64) may try
	// in a minute, WrongKeyNetworks how many addresses are remembered for it.
	WrongKeys        int `yaml:"wrong_keys" env:"SVC_GATEWAY_WRONG_KEYS"`
	WrongKeyNetworks int `yaml:"wrong_key_networks" env:"SVC_GATEWAY_WRONG_KEY_NETWORKS"`
	// TrustedProxies are the addresses and networks, separated by commas, whose
	// X-Forwarded-For is believed; empty for none.
	TrustedProxies string `yaml:"trusted_proxies" env:"SVC_GATEWAY_TRUSTED_PROXIES"`

	// Origins are the origins of the site's pages, separated by commas, at most 32:
	// https://console.example.com. Pages of these origins, and of the API's own, may refresh
	// sessions and sign users out by the session's cookie. A wallet signs in only on pages of
	// the origins listed here, because the host of a call proves nothing. So list the API's own
	// origin too if its pages have wallets sign. A caller without an Origin header gets a text
	// for the first one. Without any origin, no wallet signs in.
	Origins string `yaml:"origins" env:"SVC_GATEWAY_ORIGINS"`

	// SignUpsPerHour is how many accounts an address (of IPv6, a /64) may open within any hour, at most 100. It holds
	// for users who sign up, for providers who sign up, and for users who become providers, each by itself.
	SignUpsPerHour int `yaml:"sign_ups_per_hour" env:"SVC_GATEWAY_SIGN_UPS_PER_HOUR"`

	// PlaygroundModels are the ids, separated by commas, of the models that visitors of
	// the site may ask without a key; without any there is no playground. An account of the
	// platform pays (SVC_BILLING_PLAYGROUND_DAILY_USD). PlaygroundPerHour is how many chats
	// an address (of IPv6, a /64) has within any hour: 5 by the specification, part 8, and at
	// most 1,000.
	PlaygroundModels  string `yaml:"playground_models" env:"SVC_GATEWAY_PLAYGROUND_MODELS"`
	PlaygroundPerHour int    `yaml:"playground_per_hour" env:"SVC_GATEWAY_PLAYGROUND_PER_HOUR"`
	// VisitorSecret is the secret under which visitors' addresses are hashed: at least 16
	// bytes, and the same at all gateways. A playground needs it.
	VisitorSecret config.Secret `yaml:"visitor_secret" env:"SVC_GATEWAY_VISITOR_SECRET"`

	// HoldLease is how long billing-ledger keeps a hold that nobody renews, until
	// billing-ledger says how long. A running request is renewed after each quarter of
	// it.
	HoldLease time.Duration `yaml:"hold_lease" env:"SVC_GATEWAY_HOLD_LEASE"`
	// ReportQueue is how many request reports may wait for billing-ledger, ReportBatch
	// how many are sent in one call (at most 200), ReportDrain how long a stop waits for
	// them.
	ReportQueue int           `yaml:"report_queue" env:"SVC_GATEWAY_REPORT_QUEUE"`
	ReportBatch int           `yaml:"report_batch" env:"SVC_GATEWAY_REPORT_BATCH"`
	ReportDrain time.Duration `yaml:"report_drain" env:"SVC_GATEWAY_REPORT_DRAIN"`

	// TrustTraceContext continues the traces that clients name. Those clients then decide
	// what is recorded, so the setting is for a gateway that only our own programs reach.
	// Without it a request begins a trace of its own, linked to the client's trace.
	TrustTraceContext bool `yaml:"trust_trace_context" env:"SVC_GATEWAY_TRUST_TRACE_CONTEXT"`
}

// DefaultConfig returns the documented values.
func DefaultConfig() Config {
	return Config{
		HTTPAddr:                 "127.0.0.1:8080",
		OperatorAddr:             "127.0.0.1:8082",
		WrongTokens:              10,
		MaxConnections:           20_000,
		MaxConnectionsOfNetwork:  3000,
		MaxBodyBytes:             10 << 20,
		MaxAdminBodyBytes:        256 << 10,
		MaxMessages:              openaiapi.MaxMessages,
		MaxUploadBytes:           maxUpload,
		UploadMemoryBytes:        256 << 20,
		UploadKeyMemoryBytes:     64 << 20,
		WaitingMemoryBytes:       256 << 20,
		IdempotencyRate:          50,
		IdempotencyBurst:         100,
		BodyTimeout:              time.Minute,
		WriteTimeout:             30 * time.Second,
		MaxAttempts:              3,
		FirstContentTimeout:      20 * time.Second,
		FirstContentTotalTimeout: time.Minute,
		TotalTimeout:             10 * time.Minute,
		HoldHeaders:              10 * time.Second,
		KeepAlive:                10 * time.Second,
		HubGrace:                 10 * time.Second,
		AdmitTimeout:             5 * time.Second,
		SelectTimeout:            5 * time.Second,
		KnownKeys:                65_536,
		KnownKeyTTL:              time.Minute,
		RefusedKeys:              16_384,
		RefusedKeyTTL:            5 * time.Second,
		WrongKeys:                30,
		WrongKeyNetworks:         16_384,
		SignUpsPerHour:           5,
		PlaygroundPerHour:        5,
		HoldLease:                time.Minute,
		ReportQueue:              8192,
		ReportBatch:              maxReportBatch,
		ReportDrain:              10 * time.Second,
	}
}

// Validate reports every value that the gateway cannot work with.
func (c Config) Validate() error {
	var errs []error
	if _, _, err := net.SplitHostPort(c.HTTPAddr); err != nil {
		errs = append(errs, fmt.Errorf("%s %q is not host:port", ListenSetting, c.HTTPAddr))
	}
	if _, _, err := net.SplitHostPort(c.OperatorAddr); err != nil {
		errs = append(errs, fmt.Errorf("%s %q is not host:port", OperatorSetting, c.OperatorAddr))
	}
	if _, err := operator.Parse(c.AdminTokens.Reveal()); err != nil {
		errs = append(errs, fmt.Errorf("gateway.admin_tokens (SVC_ADMIN_TOKENS): %w", err))
	}
	if _, err := operator.ParseMachines(c.MachineTokens.Reveal()); err != nil {
		errs = append(errs, fmt.Errorf("gateway.machine_tokens (SVC_MACHINE_TOKENS): %w", err))
	}
	errs = append(errs, c.positive()...)
	if c.MaxMessages > openaiapi.MaxMessages {
		errs = append(errs, fmt.Errorf("MaxMessages must be at most %d", openaiapi.MaxMessages))
	}
	if _, err := address.ParseProxies(c.TrustedProxies); err != nil {
		errs = append(errs, fmt.Errorf("TrustedProxies: %w", err))
	}
	if len(c.origins()) > maxOrigins {
		errs = append(errs, fmt.Errorf("gateway.origins (SVC_GATEWAY_ORIGINS) must have at most %d origins", maxOrigins))
	}
	for _, origin := range c.origins() {
		if u, err := url.Parse(origin); err != nil || u.Host == "" || origin != u.Scheme+"://"+u.Host ||
			u.Scheme != "https" && u.Scheme != "http" {
			errs = append(errs, fmt.Errorf("gateway.origins (SVC_GATEWAY_ORIGINS): %.100q is no origin", origin))
		}
	}
	if c.SignUpsPerHour < 1 || c.SignUpsPerHour > maxSignUps {
		errs = append(errs, fmt.Errorf("SignUpsPerHour must be 1 to %d", maxSignUps))
	}
	if c.PlaygroundPerHour < 1 || c.PlaygroundPerHour > maxPerHour {
		errs = append(errs, fmt.Errorf("PlaygroundPerHour must be 1 to %d", maxPerHour))
	}
	if c.hasPlayground() && len(c.VisitorSecret.Reveal()) < playground.MinSecret {
		errs = append(errs, fmt.Errorf("VisitorSecret must have at least %d bytes for a playground", playground.MinSecret))
	}
	if c.MaxUploadBytes > maxUpload {
		errs = append(errs, fmt.Errorf("MaxUploadBytes must be at most %d", maxUpload))
	}
	if c.ReportBatch > maxReportBatch {
		errs = append(errs, fmt.Errorf("ReportBatch must be at most %d", maxReportBatch))
	}
	return errors.Join(errs...)
}

// positive reports the values that must be above zero and are not.
func (c Config) positive() (errs []error) {
	for _, v := range []struct {
		name string
		ok   bool
	}{
		{"MaxConnections", c.MaxConnections > 0},
		{"MaxConnectionsOfNetwork", c.MaxConnectionsOfNetwork > 0},
		{"MaxBodyBytes", c.MaxBodyBytes > 0},
		{"MaxAdminBodyBytes", c.MaxAdminBodyBytes > 0},
		{"MaxUploadBytes", c.MaxUploadBytes > 0},
		{"UploadMemoryBytes", c.UploadMemoryBytes > 0},
		{"UploadKeyMemoryBytes", c.UploadKeyMemoryBytes > 0},
		{"WaitingMemoryBytes", c.WaitingMemoryBytes > 0},
		{"IdempotencyRate", c.IdempotencyRate > 0},
		{"IdempotencyBurst", c.IdempotencyBurst > 0},
		{"MaxMessages", c.MaxMessages > 0},
		{"BodyTimeout", c.BodyTimeout > 0},
		{"WriteTimeout", c.WriteTimeout > 0},
		{"MaxAttempts", c.MaxAttempts > 0},
		{"FirstContentTimeout", c.FirstContentTimeout > 0},
		{"FirstContentTotalTimeout", c.FirstContentTotalTimeout > 0},
		{"TotalTimeout", c.TotalTimeout > 0},
		{"HoldHeaders", c.HoldHeaders > 0},
		{"KeepAlive", c.KeepAlive > 0},
		{"HubGrace", c.HubGrace > 0},
		{"AdmitTimeout", c.AdmitTimeout > 0},
		{"SelectTimeout", c.SelectTimeout > 0},
		{"KnownKeys", c.KnownKeys > 0},
		{"KnownKeyTTL", c.KnownKeyTTL > 0},
		{"RefusedKeys", c.RefusedKeys > 0},
		{"RefusedKeyTTL", c.RefusedKeyTTL > 0},
		{"WrongTokens", c.WrongTokens > 0},
		{"WrongKeys", c.WrongKeys > 0},
		{"WrongKeyNetworks", c.WrongKeyNetworks > 0},
		{"HoldLease", c.HoldLease > 0},
		{"ReportQueue", c.ReportQueue > 0},
		{"ReportBatch", c.ReportBatch > 0},
		{"ReportDrain", c.ReportDrain > 0},
	} {
		if !v.ok {
			errs = append(errs, fmt.Errorf("%s must be above zero", v.name))
		}
	}
	return errs
}

// maxOrigins is how many origins billing-ledger takes with a wallet's signature.
const maxOrigins = 32

// origins are those of Origins.
func (c Config) origins() []string {
	return strings.FieldsFunc(c.Origins, func(r rune) bool { return r == ',' || r == ' ' })
}

func (c Config) auth() auth.Config {
	return auth.Config{
		Known: c.KnownKeys, KnownFor: c.KnownKeyTTL, Refused: c.RefusedKeys, RefusedFor: c.RefusedKeyTTL,
		Timeout: c.AdmitTimeout, WrongKeys: c.WrongKeys, WrongKeyNetworks: c.WrongKeyNetworks,
		Tokens: keptSessions, MaxOptionalLookups: ratesUnderWay, OptionalLookupPause: rateFailedFor,
	}
}

func (c Config) admission(routerInProcess bool, flush func(context.Context)) admission.Config {
	return admission.Config{
		RouterInProcess: routerInProcess, FlushReports: flush,
		AdmitTimeout: c.AdmitTimeout, SelectTimeout: c.SelectTimeout, SelectGrace: selectGrace, NearHubID: c.NearHubID,
	}
}

func (c Config) inference() inference.Config {
	return inference.Config{
		MaxAttempts: c.MaxAttempts, MaxBody: c.MaxBodyBytes, FirstContent: c.FirstContentTimeout,
		FirstContentAll: c.FirstContentTotalTimeout,
		Total:           c.TotalTimeout, HubGrace: c.HubGrace, HoldHeaders: c.HoldHeaders, KeepAlive: c.KeepAlive,
	}
}

func (c Config) reports() inference.ReportConfig {
	return inference.ReportConfig{
		Queue: c.ReportQueue, BatchSize: c.ReportBatch, Linger: reportLinger, CallTimeout: c.AdmitTimeout,
		RetryFirst: firstReportRetry, RetryMax: maxReportRetry, Drain: c.ReportDrain,
	}
}

func (c Config) leases() inference.LeaseConfig {
	return inference.LeaseConfig{Interval: c.HoldLease / 4, Retry: renewRetry, CallTimeout: c.AdmitTimeout,
		MaxRequests: maxRunning}
}

func (c Config) hasPlayground() bool {
	return len(c.playground().Models) > 0
}

func (c Config) playground() playground.Config {
	models := strings.FieldsFunc(c.PlaygroundModels, func(r rune) bool { return r == ',' || r == ' ' })
	return playground.Config{
		Models: models, Secret: c.VisitorSecret.Reveal(),
		PerHour: c.PlaygroundPerHour, CallTimeout: c.AdmitTimeout,
		Lists: quota.Rate{Calls: 30, Span: time.Minute}, Networks: c.WrongKeyNetworks,
	}
}

func (c Config) idempotency() idempotency.Config {
	return idempotency.Config{
		CallTimeout: c.AdmitTimeout, RenewInterval: claimRenewInterval, Total: c.TotalTimeout,
		MaxWaiting: maxWaiting, MaxWaitingPerKey: maxWaitingPerKey, WaitingBytes: c.WaitingMemoryBytes,
		Rate: c.IdempotencyRate, Burst: c.IdempotencyBurst, Rated: c.KnownKeys,
	}
}

func (c Config) rates() ratelimit.Config {
	return ratelimit.Config{KeptFor: rateKeptFor, FailedFor: rateFailedFor, Kept: ratesKept, UnderWay: ratesUnderWay}
}

// cards bounds guesses of signatures and sessions as those of keys.
func (c Config) cards() cardapi.Config {
	return cardapi.Config{Guesses: c.WrongKeys, Networks: c.WrongKeyNetworks, Timeout: providerCallTimeout}
}

func (c Config) http() httpapi.Config {
	return httpapi.Config{
		MaxBody: c.MaxBodyBytes, MaxMessages: c.MaxMessages, MaxUpload: c.MaxUploadBytes, Uploads: c.UploadMemoryBytes,
		UploadsOfKey: c.UploadKeyMemoryBytes, BodyTimeout: c.BodyTimeout, AnswerTimeout: c.WriteTimeout,
		TrustTraceContext: c.TrustTraceContext,
	}
}

// maxSignUps bounds what is remembered of an address.
const maxSignUps = 100

// maxPerHour is billing-ledger's own bound on the visits of an address.
const maxPerHour = 1000

// Times and bounds that nobody needs to set.
const (
	// selectGrace suffices for a refusal from the router's memory.
	selectGrace = 250 * time.Millisecond
	// reportLinger makes one transaction of the reports of a busy gateway.
	reportLinger = 50 * time.Millisecond
	// renewRetry leaves time for several tries within a lease.
	renewRetry = 2 * time.Second
	// maxRunning is more requests than the memory of one gateway can serve.
	maxRunning = 1 << 17
	// claimRenewInterval is a quarter of billing-ledger's lease on a claim.
	claimRenewInterval = 15 * time.Second
	// maxWaiting and maxWaitingPerKey bound the requests that wait for another
	// with the same Idempotency-Key, each with its body.
	maxWaiting       = 256
	maxWaitingPerKey = 16
	// A rate that was read for a refused request is given to others for rateKeptFor.
	// While billing-ledger does not answer, neither a rate nor the owner of a key is
	// asked for more than once in rateFailedFor. ratesUnderWay bounds the calls of either
	// kind.
	rateKeptFor      = 100 * time.Millisecond
	rateFailedFor    = time.Second
	ratesKept        = 4096
	ratesUnderWay    = 32
	firstReportRetry = 100 * time.Millisecond
	maxReportRetry   = 5 * time.Second
)
