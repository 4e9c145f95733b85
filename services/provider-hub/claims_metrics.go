package providerhub

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"svc.internal/services/provider-hub/internal/claims"
)

// maxRatios bounds the providers that each metric of claims names: those with the highest
// ratios. No other metric names a provider.
const maxRatios = 32

// observeClaims registers the ratios of what providers claim of their answers and
// prompts.
func (s *Service) observeClaims(meters metric.MeterProvider) error {
	meter := meters.Meter(meterName)
	_, err := meter.Float64ObservableGauge("svc.provider_hub.claims.ratio",
		metric.WithDescription(
			"Tokens that a provider claims of its last 1,000 answers of a model, to what their texts account for; "+
				"the 32 highest."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			observeRatios(o, s.dispatcher.HighestClaims(maxRatios))
			return nil
		}))
	if err != nil {
		return fmt.Errorf("make metric claims.ratio: %w", err)
	}
	_, err = meter.Float64ObservableGauge("svc.provider_hub.claims.prompt_ratio",
		metric.WithDescription(
			"Tokens that a provider claims, up to the hold, of its last 1,000 prompts of a model, of text or with media, "+
				"to their estimates; the 32 highest of each."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			text, media := s.dispatcher.HighestPrompts(maxRatios)
			observeRatios(o, text, attribute.Bool("media", false))
			observeRatios(o, media, attribute.Bool("media", true))
			return nil
		}))
	if err != nil {
		return fmt.Errorf("make metric claims.prompt_ratio: %w", err)
	}
	return nil
}

func observeRatios(o metric.Float64Observer, ratios []claims.Ratio, more ...attribute.KeyValue) {
	for _, r := range ratios {
		o.Observe(r.Ratio, metric.WithAttributes(append(more,
			attribute.String("provider_id", r.Provider.String()), attribute.String("model", r.Model))...))
	}
}
