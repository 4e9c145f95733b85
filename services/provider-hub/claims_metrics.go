package providerhub

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// maxRatios is how many providers the metric of claims names: those that claim most
// for what they deliver. No other metric names a provider.
const maxRatios = 32

// observeClaims registers what providers claim of their answers.
func (s *Service) observeClaims(meters metric.MeterProvider) error {
	_, err := meters.Meter(meterName).Float64ObservableGauge("svc.provider_hub.claims.ratio",
		metric.WithDescription("Tokens that a provider claims of its last 1,000 answers of a model, to what their texts account for; the 32 highest."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			for _, r := range s.desk.HighestClaims(maxRatios) {
				o.Observe(r.Ratio, metric.WithAttributes(
					attribute.String("provider_id", r.Provider.String()), attribute.String("model", r.Model)))
			}
			return nil
		}))
	if err != nil {
		return fmt.Errorf("make metric claims.ratio: %w", err)
	}
	return nil
}
