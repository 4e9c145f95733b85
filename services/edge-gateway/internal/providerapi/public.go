package providerapi

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

// ModelDemand answers GET /api/v1/stats/model-demand?category=. It needs no key. For a
// category without models the answer is empty, because agents know other categories than
// the catalog does.
func (a *API) ModelDemand(ctx context.Context, c Call) (Answer, error) {
	return public(ctx, a.demand, c.Query.Get("category"))
}

// ServiceStats answers GET /api/v1/stats/service. It needs no key.
func (a *API) ServiceStats(ctx context.Context, _ Call) (Answer, error) {
	return public(ctx, a.stats, statsOfService)
}

// ModelStats answers GET /api/v1/stats/models. It needs no key.
func (a *API) ModelStats(ctx context.Context, _ Call) (Answer, error) {
	return public(ctx, a.stats, statsOfModels)
}

// ProviderStats answers GET /api/v1/stats/providers. It needs no key.
func (a *API) ProviderStats(ctx context.Context, _ Call) (Answer, error) {
	return public(ctx, a.stats, statsOfProviders)
}

// public gives the answer of a name, with its age.
func public(ctx context.Context, from *refreshed[*answers], name string) (Answer, error) {
	last, age, err := from.get(ctx)
	if err != nil {
		return Answer{}, ofPeer(ctx, err)
	}
	out := ok(last.of(name))
	out.Header = http.Header{"Cache-Control": {publicCache}, "Age": {strconv.FormatInt(int64(age/time.Second), 10)}}
	return out, nil
}
