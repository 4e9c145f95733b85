// Package external calls the servers of providers that have no agent: each is an endpoint
// with a base URL, models and, where it asks for one, a key.
//
// An endpoint is a session of this hub without a socket. The hub that holds the lease of
// an endpoint plays the agent's part (caller.go): it registers, says by heartbeats which
// models are well, turns a request of the session into an HTTP call, and hands the answer
// over within the session's credit. So registry, presence, dispatch, challenges and
// metering treat it as they treat an agent. A session lasts while the server answers probes
// (GET {base}/models, every 30 s) and calls. Three failed probes in a row end it. So does a failed
// call of the hub's own, which the hub makes after eight failed calls in a row (record.go). So uptime
// counts only the time in which the server answered.
//
// Leases (leases.go): while there is an endpoint, a hub says every 5 s that it is alive, renews its
// leases for 20 s, and takes free leases up to its share. A hub that cannot renew stops serving 2 s before its
// leases end, by its own monotonic clock. A hub that cannot open an endpoint's key gives the lease
// up, and tries again after a minute, and then less often (unreadable.go). Epochs are drawn as for
// agents, so that a newer session wins everywhere.
//
// Where the hub may connect is judged at registration (address.go) and at the dial
// (package dialguard). A failed probe is reported as one of a few words (Failure). There is one
// word for every server that does not answer, so that nobody can scan networks by it. Keys are
// sealed with the endpoint's id and origin (seal.go). Of an answer's head only the status
// is used, and the header by which the marketplace's own API is known. An answer that repeats
// the endpoint's key is cut off (keyscan.go).
//
// One provider holds an origin (scheme, host and port) from its first good probe there until it has
// no endpoint there, unless an operator lets providers share the origin, or another provider takes
// over what the holder does not serve (store/functions/external_origin_claimed.sql). Registration
// alone holds no origin, so that nobody keeps a server from its owner by naming it first. What an
// operator disabled stays disabled for that provider at that origin, also after the endpoint is
// deleted.
//
// Bounds: 16 endpoints of a provider, 64 models of an endpoint, 256 endpoints of a hub;
// 1 MiB of a list of models; a head of 64 KiB; 16 MiB of a whole answer, 26 MiB of images,
// 256 MiB of a stream, of which a session holds at most its credit. A provider may ask for 10
// probes at once, and for one a minute after that.
package external

import (
	"context"
	"errors"
	"io"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
)

// ID names an endpoint.
type ID = ids.EndpointID

// Holder names one life of a hub.
type Holder = ids.Of[life]

type life struct{}

// NewHolder names a life of a hub.
func NewHolder(now time.Time, random io.Reader) (Holder, error) { return ids.New[life](now, random) }

// MaxEndpoints bounds the endpoints of a provider, and MaxModels the models of one.
const (
	MaxEndpoints = 16
	MaxModels    = 64
)

// State is the state of an endpoint.
type State string

// The states.
const (
	// Unprobed was not probed yet.
	Unprobed State = "new"
	// Healthy answers probes.
	Healthy State = "healthy"
	// Unhealthy has failed three probes in a row, or its first.
	Unhealthy State = "unhealthy"
)

// Failure says in one word why a probe failed. All servers that do not answer have the same
// word.
type Failure string

// The failures.
const (
	// Unreachable is a server that does not answer: refused, reset, timed out, no
	// certificate, an address that may not be called.
	Unreachable Failure = "unreachable"
	// Unauthorized is an answer of 401 or 403.
	Unauthorized Failure = "unauthorized"
	// BadStatus is any other answer than 200, redirects among them.
	BadStatus Failure = "unexpected_status"
	// BadAnswer is an answer that is no list of models, or too large, or the marketplace's own.
	BadAnswer Failure = "unexpected_answer"
	// KeyUnreadable is a key that no secret of the hub opens.
	KeyUnreadable Failure = "key_unreadable"
	// NoModels is a list that names none of the endpoint's models.
	NoModels Failure = "models_missing"
	// CallsFail is a server whose list of models is good, but whose last calls failed.
	CallsFail Failure = "requests_failing"
	// OriginTaken is a server whose origin another provider holds.
	OriginTaken Failure = "origin_taken"
)

// Model is one model of an endpoint.
type Model struct {
	ID    string
	Local string
	// ContextLength is in tokens; 0 where the owner does not say.
	ContextLength int64
	Quantization  string
	Capabilities  []string
	Capacity      int
	// Listed reports that the server's own list named the model when it was last read.
	Listed bool
}

// Endpoint is one server of a provider.
type Endpoint struct {
	ID       ID
	Provider ids.ProviderID
	Name     string
	BaseURL  string
	// Sealed is the key as it is kept; the zero value where there is none.
	Sealed   Sealed
	Models   []Model
	Revision int64

	State     State
	Failure   Failure // empty for none
	CheckedAt time.Time
	// HubID is the hub that calls the endpoint; empty while none does.
	HubID string

	CreatedAt, UpdatedAt time.Time
	// DisabledAt is when an operator took the endpoint out of service; zero for never.
	DisabledAt     time.Time
	DisabledReason string
	// OriginShared reports whether an operator lets the provider serve from an origin that another
	// provider holds.
	OriginShared bool
}

// Sealed is a key as it is kept: a nonce, and the key under AES-256-GCM with the
// endpoint's id and origin as associated data. So a key that was copied to another
// endpoint, or that is older than a change of the origin, opens nowhere.
type Sealed struct {
	Box []byte
	// By names the key that it is sealed with.
	By [8]byte
}

// IsZero reports whether there is no key.
func (s Sealed) IsZero() bool { return len(s.Box) == 0 }

// Held is an endpoint that a hub holds, as Beat returns it.
type Held struct {
	ID       ID
	Revision int64
}

// Finding is what a probe found.
type Finding struct {
	State   State
	Failure Failure
	At      time.Time
	// Listed are the models that the server's list names, by their ids; nil where the list
	// was not read.
	Listed []string
}

// Store keeps endpoints and leases.
type Store interface {
	// CreateEndpoint keeps an endpoint. With an idempotency key that the provider used
	// before it returns that endpoint instead. It fails with too_many_endpoints,
	// provider_not_found and account_frozen.
	CreateEndpoint(ctx context.Context, e Endpoint, idempotencyKey string, by Author) (got Endpoint, fresh bool, err error)
	// Endpoint reads an endpoint of a provider, or of any provider where the id is zero. It
	// fails with endpoint_not_found.
	Endpoint(ctx context.Context, provider ids.ProviderID, id ID) (Endpoint, error)
	// Endpoints is one page, oldest first, of a provider or of all.
	Endpoints(ctx context.Context, provider ids.ProviderID, offset, limit int) ([]Endpoint, int, error)
	// ChangeEndpoint locks an endpoint, lets apply change it, and keeps it with a higher
	// revision. What an operator decides on an endpoint holds for all endpoints that the provider has
	// at the same origin, or registers there later. It fails as Endpoint and apply do.
	ChangeEndpoint(ctx context.Context, provider ids.ProviderID, id ID, by Author, apply func(*Endpoint) error) (Endpoint,
		error)
	// DeleteEndpoint removes an endpoint. It fails as Endpoint does.
	DeleteEndpoint(ctx context.Context, provider ids.ProviderID, id ID, by Author) error
	// Found stores what a probe found of an endpoint, unless the endpoint has another
	// revision. With the first good probe the provider holds the endpoint's origin. Found fails with
	// ErrOriginTaken where another provider holds the origin and one of the two may not share it.
	Found(ctx context.Context, id ID, revision int64, f Finding) error
	// Reseal calls reseal with each endpoint whose key is not sealed under the key named
	// current, at most limit of them after an id, and stores the key that reseal returns; nil
	// leaves a key as it is.
	Reseal(ctx context.Context, current [8]byte, after ID, limit int, reseal func(Endpoint) *Sealed) (last ID, more bool,
		err error)

	// Beat says that a hub is alive, renews its leases for TTL, gives up leases beyond its
	// share, which is at most Max, and takes free leases. Endpoints of active providers come first,
	// and take the places of others on a hub that is full. No hub holds endpoints that are disabled,
	// or whose providers may not connect. Beat returns the endpoints that the hub holds.
	Beat(ctx context.Context, b Beat) ([]Held, error)
	// GiveUp ends the leases of a hub, which then counts for no share.
	GiveUp(ctx context.Context, holder Holder) error
}

// Beat is a hub's sign of life, with the terms of its leases.
type Beat struct {
	Holder Holder
	HubID  string
	TTL    time.Duration
	// Max bounds the endpoints of a hub.
	Max int
	// Skip are endpoints that the hub gives up, and does not take again at these revisions, at most
	// MaxSkipped.
	Skip []Held
	// Unreadable is the number of endpoints whose keys the hub could not open, at most MaxSkipped.
	// Other hubs take that many more.
	Unreadable int
}

// Author says who changes an endpoint, for the history of the provider.
type Author struct {
	// Operator is the operator's name as entries have it; empty for the provider itself.
	Operator string
	What     string
	Reason   string
}

// NotFound is the error of an endpoint that the provider does not have.
func NotFound() error {
	return fault.New(fault.NotFound, fault.EndpointNotFound, "no such endpoint").On("endpoint_id")
}

// ErrOriginTaken is the error of a good probe at an origin that another provider holds.
var ErrOriginTaken = errors.New("another provider serves from this server")

// TooMany is the error of an endpoint beyond MaxEndpoints.
func TooMany() error {
	return fault.New(fault.Exhausted, fault.TooManyEndpoints,
		"a provider has at most %d external endpoints; delete one first", MaxEndpoints)
}

// key is an endpoint's key in the clear.
type key = config.Secret
