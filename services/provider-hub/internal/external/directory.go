package external

import (
	"context"
	"crypto/subtle"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/lru"
	"svc.internal/services/provider-hub/internal/kinds"
	"svc.internal/services/provider-hub/internal/quota"
	"svc.internal/services/provider-hub/internal/session"
)

const (
	maxName         = 64
	maxReason       = 150
	maxQuantization = 32
	minKey, maxKey  = 8, 512
	maxCapacity     = 1024
	maxContext      = 1 << 24
	defaultCapacity = 8
	maxIdempotency  = 128
)

// How often a provider may register, change or check endpoints, because each of these has an
// endpoint probed: probesAtOnce times at once, and once a minute after that.
const (
	probesPerSecond = 1.0 / 60
	probesAtOnce    = 10
	// probedProviders bounds the providers that are counted.
	probedProviders = 16_384
)

// checkTime is how long every check that fails takes, so that its time says nothing of why.
const checkTime = 4 * time.Second

// capabilities are what a model may declare: the kinds of requests it takes, and features.
var capabilities = []string{"chat", "embeddings", "images", "transcriptions", "stream", "logprobs"}

// Directory is where owners and operators look after endpoints. It is safe for concurrent
// use.
type Directory struct {
	DirectoryDeps

	mu     sync.Mutex
	probes *lru.Map[ids.ProviderID, *quota.Bucket]
}

// DirectoryDeps are what a directory works with.
type DirectoryDeps struct {
	Store  Store
	Sealer *Sealer
	Rules  Rules
	// Client calls endpoints. It must be a client of package dialguard.
	Client *http.Client
	Clock  clock.Clock
	Random io.Reader
	// Changed is called when an endpoint was changed here, so that it is served as it is now.
	Changed func()
	// Kinds decide who may serve a model.
	Kinds *kinds.Models
}

// NewDirectory returns a directory.
func NewDirectory(deps DirectoryDeps) *Directory {
	return &Directory{DirectoryDeps: deps, probes: lru.New[ids.ProviderID, *quota.Bucket](probedProviders, nil)}
}

// Draft is an endpoint as its owner gives it.
type Draft struct {
	Name, BaseURL string
	Key           config.Secret
	Models        []Model
}

// Change is what an owner changes; nil leaves a part as it is.
type Change struct {
	Name, BaseURL *string
	// Key is the new key; a key that is set to nothing is removed.
	Key    *config.Secret
	Models []Model
}

// Create registers an endpoint. With an idempotency key that was used before it returns the
// endpoint of that key, and fails with idempotency_key_reused where the draft is of another.
func (d *Directory) Create(
	ctx context.Context, provider ids.ProviderID, draft Draft, idempotencyKey string,
) (Endpoint, error) {
	e, err := d.drafted(provider, draft, idempotencyKey)
	if err == nil {
		err = checkKinds(d.Kinds, false, e.Models)
	}
	if err != nil {
		return Endpoint{}, err
	}
	if err := d.spend(provider); err != nil {
		return Endpoint{}, err
	}
	got, fresh, err := d.Store.CreateEndpoint(ctx, e, idempotencyKey, Author{What: "endpoint_added"})
	if err != nil {
		return Endpoint{}, err
	}
	if !fresh && !d.Same(&got, &e, draft.Key) {
		return Endpoint{}, fault.New(fault.Precondition, fault.IdempotencyKeyReused,
			"the idempotency key was used for another endpoint").On("idempotency_key")
	}
	d.Changed()
	return got, nil
}

// drafted is the endpoint of a draft that is in order.
func (d *Directory) drafted(provider ids.ProviderID, draft Draft, idempotencyKey string) (Endpoint, error) {
	err := checkText("idempotency_key", idempotencyKey, 0, maxIdempotency)
	if err == nil {
		err = checkText("name", draft.Name, 1, maxName)
	}
	if err == nil {
		err = checkKey(draft.Key)
	}
	if err != nil {
		return Endpoint{}, err
	}
	now := d.Clock.Now()
	e := Endpoint{Provider: provider, Name: draft.Name, CreatedAt: now, UpdatedAt: now}
	if e.BaseURL, err = d.Rules.parseBase(draft.BaseURL); err != nil {
		return Endpoint{}, err
	}
	if e.Models, err = checkedModels(draft.Models); err != nil {
		return Endpoint{}, err
	}
	if e.ID, err = ids.NewEndpoint(now, d.Random); err != nil {
		return Endpoint{}, err
	}
	e.Sealed = d.Sealer.Seal(e.ID, e.BaseURL, draft.Key)
	return e, nil
}

// Same reports whether a stored endpoint has the values of a draft.
func (d *Directory) Same(kept, draft *Endpoint, k config.Secret) bool {
	return kept.Name == draft.Name && kept.BaseURL == draft.BaseURL && sameModels(kept.Models, draft.Models) &&
		d.hasKey(kept, k)
}

func (d *Directory) hasKey(e *Endpoint, want config.Secret) bool {
	got, err := d.Sealer.Open(e)
	return err == nil && subtle.ConstantTimeCompare([]byte(got.Reveal()), []byte(want.Reveal())) == 1
}

// sameModels reports whether owners gave the same models.
func sameModels(a, b []Model) bool {
	return slices.EqualFunc(a, b, func(x, y Model) bool {
		return x.ID == y.ID && x.Local == y.Local && x.ContextLength == y.ContextLength &&
			x.Quantization == y.Quantization && x.Capacity == y.Capacity && slices.Equal(x.Capabilities, y.Capabilities)
	})
}

// Get reads an endpoint of a provider. It fails with endpoint_not_found.
func (d *Directory) Get(ctx context.Context, provider ids.ProviderID, id ID) (Endpoint, error) {
	return d.Store.Endpoint(ctx, provider, id)
}

// List is one page of endpoints of a provider, oldest first, or of all where the id is zero.
func (d *Directory) List(ctx context.Context, provider ids.ProviderID, offset, limit int) ([]Endpoint, int, error) {
	return d.Store.Endpoints(ctx, provider, offset, limit)
}

// Update changes an endpoint. A key is bound to its origin: where the scheme, the host or
// the port changes, the key is given anew, or removed.
func (d *Directory) Update(ctx context.Context, provider ids.ProviderID, id ID, c Change) (Endpoint, error) {
	apply, err := d.checked(c, false)
	if err != nil {
		return Endpoint{}, err
	}
	changed, err := d.Store.ChangeEndpoint(ctx, provider, id, Author{What: "endpoint_changed"}, func(e *Endpoint) error {
		// Only a provider's own endpoint costs of its quota: another's is not found, however often.
		if err := d.spend(provider); err != nil {
			return err
		}
		return apply(e)
	})
	if err == nil { // otherwise anybody could have hubs look again without end
		d.Changed()
	}
	return changed, err
}

// checked checks a change of an endpoint, and returns the function that applies it. vendor reports
// whether the endpoint is a vendor's.
func (d *Directory) checked(c Change, vendor bool) (apply func(*Endpoint) error, err error) {
	if c.Name != nil {
		if err := checkText("name", *c.Name, 1, maxName); err != nil {
			return nil, err
		}
	}
	base := ""
	if c.BaseURL != nil {
		if base, err = d.Rules.parseBase(*c.BaseURL); err != nil {
			return nil, err
		}
	}
	if c.Key != nil {
		if err := checkKey(*c.Key); err != nil {
			return nil, err
		}
	}
	var models []Model
	if c.Models != nil {
		if models, err = checkedModels(c.Models); err == nil {
			err = checkKinds(d.Kinds, vendor, models)
		}
		if err != nil {
			return nil, err
		}
	}
	return func(e *Endpoint) error { return d.apply(e, c, base, models) }, nil
}

// apply changes an endpoint. base is the new base URL after normalisation; empty for none.
func (d *Directory) apply(e *Endpoint, c Change, base string, models []Model) error {
	moved := base != "" && originOf(base) != originOf(e.BaseURL)
	if moved && !e.Sealed.IsZero() && c.Key == nil {
		return fault.New(fault.Precondition, fault.TransitionNotAllowed,
			"the key belongs to the scheme, host and port that it was given for: give it anew, or remove it").On("api_key")
	}
	if base != "" {
		e.BaseURL = base
	}
	if c.Key != nil {
		e.Sealed = d.Sealer.Seal(e.ID, e.BaseURL, *c.Key)
	}
	if c.Name != nil {
		e.Name = *c.Name
	}
	if models != nil {
		e.Models = models
	}
	e.UpdatedAt = d.Clock.Now()
	return nil
}

// Delete removes an endpoint. A second call fails with endpoint_not_found.
func (d *Directory) Delete(ctx context.Context, provider ids.ProviderID, id ID) error {
	err := d.Store.DeleteEndpoint(ctx, provider, id, Author{What: "endpoint_deleted"})
	if err == nil { // otherwise anybody could have hubs look again without end
		d.Changed()
	}
	return err
}

// Check probes an endpoint now and returns it with what was found, which is not stored. Every
// failed probe takes the same time. Check fails with rate_limit_exceeded.
func (d *Directory) Check(ctx context.Context, provider ids.ProviderID, id ID) (Endpoint, error) {
	e, err := d.Store.Endpoint(ctx, provider, id)
	if err != nil {
		return Endpoint{}, err
	}
	if err := d.spend(provider); err != nil {
		return Endpoint{}, err
	}
	f := Finding{State: Healthy, At: d.Clock.Now()}
	late := time.NewTimer(checkTime)
	defer late.Stop()
	k, err := d.Sealer.Open(&e)
	if err != nil {
		f.Failure = KeyUnreadable
	} else {
		limited, cancel := context.WithTimeout(ctx, checkTime)
		defer cancel()
		var names []string
		names, f.Failure = probe(limited, d.Client, e.BaseURL, k)
		if f.Failure == hubFull {
			f.Failure = Unreachable
		}
		if f.Failure == "" {
			if f.Listed = listed(e.Models, names); len(f.Listed) == 0 {
				f.Failure = NoModels
			}
		}
	}
	if f.Failure != "" {
		f.State = Unhealthy
		select {
		case <-late.C:
		case <-ctx.Done():
			return Endpoint{}, fmt.Errorf("check an external endpoint: %w", ctx.Err())
		}
	}
	e.State, e.Failure, e.CheckedAt = f.State, f.Failure, f.At
	for i := range e.Models {
		if f.Listed != nil {
			e.Models[i].Listed = slices.Contains(f.Listed, e.Models[i].ID)
		}
	}
	return e, nil
}

// Ruling is an operator's decision on an endpoint. It holds for all endpoints that the provider has at
// the same origin.
type Ruling struct {
	// Disabled reports whether the endpoint is out of service, and Shared whether the provider may serve
	// from an origin from which another provider serves. Nil leaves it as it is.
	Disabled, Shared *bool
	Reason           string
}

// Rule takes an endpoint out of service in an operator's name, or lets it serve again, together with
// all endpoints of its provider at its origin. A repeat changes nothing.
func (d *Directory) Rule(ctx context.Context, operator string, id ID, r Ruling) (Endpoint, error) {
	if err := checkText("reason", r.Reason, 0, maxReason); err != nil {
		return Endpoint{}, err
	}
	e, err := d.Store.Endpoint(ctx, ids.ProviderID{}, id)
	if err != nil {
		return e, err
	}
	by := Author{Operator: operator, Reason: r.Reason}
	turned := r.Disabled != nil && e.DisabledAt.IsZero() == *r.Disabled
	switch {
	case turned && *r.Disabled:
		by.What = "endpoint_disabled"
	case turned:
		by.What = "endpoint_enabled"
	case r.Shared == nil || *r.Shared == e.OriginShared:
		return e, nil
	case *r.Shared:
		by.What = "endpoint_origin_shared"
	default:
		by.What = "endpoint_origin_unshared"
	}
	defer d.Changed()
	return d.Store.ChangeEndpoint(ctx, ids.ProviderID{}, id, by, func(e *Endpoint) error {
		if turned {
			e.DisabledAt, e.DisabledReason = time.Time{}, ""
		}
		if turned && *r.Disabled {
			e.DisabledAt, e.DisabledReason = d.Clock.Now(), r.Reason
		}
		if r.Shared != nil {
			e.OriginShared = *r.Shared
		}
		e.UpdatedAt = d.Clock.Now()
		return nil
	})
}

// spend takes a probe of a provider. It fails with rate_limit_exceeded.
func (d *Directory) spend(provider ids.ProviderID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.Clock.Now()
	b, ok := d.probes.Get(provider)
	if !ok {
		fresh := quota.NewBucket(probesPerSecond, probesAtOnce, now)
		b = &fresh
		d.probes.Add(provider, b)
	}
	if b.Take(now) {
		return nil
	}
	f := fault.New(fault.Exhausted, fault.RateLimitExceeded,
		"external endpoints are registered, changed and checked %d times at once, and once a minute after that; "+
			"try again later", probesAtOnce)
	f.RetryAfter = b.Next(now)
	return f
}

func checkKey(k config.Secret) error {
	text := k.Reveal()
	if text == "" {
		return nil
	}
	odd := strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
	if len(text) < minKey || len(text) > maxKey || odd {
		return fault.New(fault.Invalid, fault.InvalidValue,
			"api_key must be %d to %d printable characters of ASCII without spaces", minKey, maxKey).On("api_key")
	}
	return nil
}

func checkText(field, text string, low, high int) error {
	n := utf8.RuneCountInString(text)
	if !utf8.ValidString(text) || n < low || n > high || strings.TrimSpace(text) != text ||
		strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fault.New(fault.Invalid, fault.InvalidValue, "%s must be %d to %d printable characters", field, low,
			high).On(field)
	}
	return nil
}

// checkedModels checks the models of an endpoint and fills in what the owner left out.
func checkedModels(list []Model) ([]Model, error) {
	refuse := func(format string, args ...any) error {
		return fault.New(fault.Invalid, fault.InvalidValue, format, args...).On("models")
	}
	if len(list) < 1 || len(list) > MaxModels {
		return nil, refuse("models must be 1 to %d models", MaxModels)
	}
	out := make([]Model, 0, len(list))
	seen := map[string]bool{}
	for i, m := range list {
		if m.Local == "" {
			m.Local = m.ID
		}
		if m.Capacity == 0 {
			m.Capacity = defaultCapacity
		}
		if len(m.Capabilities) == 0 {
			m.Capabilities = []string{"chat", "stream"}
		}
		switch {
		case !session.ValidModelID(m.ID):
			return nil, refuse("models[%d].model_id is not the id of a model", i)
		case seen[m.ID]:
			return nil, refuse("models[%d].model_id stands twice", i)
		case m.Local != session.Clean(m.Local, session.MaxModelID):
			return nil, refuse("models[%d].local_model must be at most %d printable characters", i, session.MaxModelID)
		case m.ContextLength < 0 || m.ContextLength > maxContext:
			return nil, refuse("models[%d].context_length must be 0 to %d tokens", i, maxContext)
		case m.Quantization != session.Clean(m.Quantization, maxQuantization):
			return nil, refuse("models[%d].quantization must be at most %d printable characters", i, maxQuantization)
		case m.Capacity < 1 || m.Capacity > maxCapacity:
			return nil, refuse("models[%d].capacity must be 1 to %d requests", i, maxCapacity)
		}
		slices.Sort(m.Capabilities)
		m.Capabilities = slices.Compact(m.Capabilities)
		for _, c := range m.Capabilities {
			if !slices.Contains(capabilities, c) {
				return nil, refuse("models[%d].capabilities must be of %s", i, strings.Join(capabilities, ", "))
			}
		}
		seen[m.ID] = true
		out = append(out, m)
	}
	return out, nil
}
