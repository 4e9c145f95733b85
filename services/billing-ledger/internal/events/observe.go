package events

import (
	"context"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	"svc.internal/services/billing-ledger/internal/usage"
)

// settling follows a batch through its settlement. Each event gets a span "settle" below
// its message's own span, where its trace is recorded, with svc.request_id, svc.result,
// svc.source and svc.charged_nano_usd. Each event also gets a line in the log with its
// request_id: "usage settled" at info, and a repetition at debug.
type settling struct {
	log      *slog.Logger
	contexts []context.Context
	spans    []trace.Span
	lines    map[ids.RequestID]usage.Line
}

func follow(ctx context.Context, log *slog.Logger, msgs []bus.Msg) *settling {
	s := &settling{
		log: log, contexts: make([]context.Context, len(msgs)), spans: make([]trace.Span, len(msgs)),
		lines: make(map[ids.RequestID]usage.Line, len(msgs)),
	}
	for i, m := range msgs {
		s.contexts[i], s.spans[i] = m.Span(ctx, "settle")
	}
	return s
}

// booked gets the lines of a committed transaction.
func (s *settling) booked(lines []usage.Line) {
	for _, line := range lines {
		s.lines[line.Event.Request] = line
	}
}

// failed ends the spans of a batch that must be delivered again.
func (s *settling) failed() {
	for _, span := range s.spans {
		span.SetStatus(codes.Error, "")
		span.End()
	}
}

// ended reports the result of the event at place i. Only an event that moved money is
// worth a line in every log; a repetition is not.
func (s *settling) ended(i int, e usage.Event, result usage.Result) {
	level, line := slog.LevelDebug, s.lines[e.Request]
	if result == usage.Settled || result == usage.Orphaned {
		level = slog.LevelInfo
	} else {
		line = usage.Line{} // the line of another event of the same request
	}
	span := s.spans[i]
	if span.IsRecording() {
		span.SetAttributes(attribute.String("svc.request_id", e.Request.String()),
			attribute.String("svc.result", string(result)))
		if line.Source != "" {
			span.SetAttributes(attribute.String("svc.source", string(line.Source)), attribute.Int64("svc.charged_nano_usd",
				int64(line.Charged)))
		}
	}
	span.End()
	if !s.log.Enabled(s.contexts[i], level) {
		return
	}
	s.log.LogAttrs(s.contexts[i], level, "usage settled",
		slog.String("request_id", e.Request.String()), slog.String("hub_id", e.Hub), slog.String("result", string(result)),
		slog.String("source", string(line.Source)), slog.Int64("charged_nano_usd", int64(line.Charged)),
		slog.Int64("prompt_tokens", e.Billable.Prompt), slog.Int64("completion_tokens", e.Billable.Completion))
}
