package signer

import (
	"context"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"svc.internal/pkg/fault"
	"svc.internal/services/settlement/signer/internal/policy"
)

// metrics count what is signed and what is refused.
type metrics struct {
	signed, refused metric.Int64Counter
}

func newMetrics(meters metric.MeterProvider) (*metrics, error) {
	meter := meters.Meter("svc.internal/services/settlement/signer")
	m := &metrics{}
	var err error
	if m.signed, err = meter.Int64Counter("svc.signer.signed",
		metric.WithDescription("Signatures, by key and kind.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	if m.refused, err = meter.Int64Counter("svc.signer.refused",
		metric.WithDescription("Signatures that were refused or failed, by key, kind and reason.")); err != nil {
		return nil, fmt.Errorf("make metrics: %w", err)
	}
	return m, nil
}

// observe counts a signature or a refusal. A name that the caller made up is no attribute.
func (m *metrics) observe(ctx context.Context, kind string, key policy.Key, err error) {
	if !slices.Contains(policy.Keys(), key) {
		key = "unknown"
	}
	labels := []attribute.KeyValue{attribute.String("key", string(key)), attribute.String("kind", kind)}
	if err == nil {
		m.signed.Add(ctx, 1, metric.WithAttributes(labels...))
		return
	}
	reason := fault.InternalError
	if f, ok := fault.As(err); ok {
		reason = f.Reason
	}
	m.refused.Add(ctx, 1, metric.WithAttributes(append(labels, attribute.String("reason", string(reason)))...))
}
