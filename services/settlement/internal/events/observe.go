package events

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"svc.internal/pkg/bus"
	"svc.internal/services/settlement/internal/earning"
)

// following holds the spans of a batch on its way into the ledger, by request: one below
// each message whose trace is recorded.
type following map[string]trace.Span

func follow(ctx context.Context, batch []bus.Msg) following {
	spans := following{}
	for _, m := range batch {
		_, span := m.Span(ctx, "record earning")
		if !span.IsRecording() {
			continue
		}
		// A message that was published again is named request/time.
		request, _, _ := strings.Cut(m.ID, "/")
		if spans[request] != nil {
			span.End()
			continue
		}
		span.SetAttributes(attribute.String("svc.request_id", request))
		spans[request] = span
	}
	return spans
}

func (f following) end(lines []earning.Line, err error) {
	if len(f) == 0 {
		return
	}
	for _, line := range lines {
		if span := f[line.RequestID.String()]; span != nil {
			span.SetAttributes(attribute.Int64("svc.payout_nano_usd", int64(line.Payout)))
		}
	}
	for _, span := range f {
		if err != nil {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}
