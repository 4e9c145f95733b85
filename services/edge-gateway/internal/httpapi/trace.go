package httpapi

import (
	"context"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"svc.internal/pkg/telemetry"

	"svc.internal/services/edge-gateway/internal/apierror"
)

// Attributes by the conventions for HTTP servers. The path is left out, because the route
// identifies it and a path may hold whatever a client puts there.
const (
	methodAttr  = attribute.Key("http.request.method")
	routeAttr   = attribute.Key("http.route")
	statusAttr  = attribute.Key("http.response.status_code")
	errorAttr   = attribute.Key("error.type")
	modelAttr   = attribute.Key("gen_ai.request.model")
	requestAttr = attribute.Key("svc.request_id")
)

// startSpan starts the span of a request. A client's trace is continued only where
// clients are trusted. Elsewhere it becomes a link, because otherwise the client would
// decide how much is recorded.
func (h *Handler) startSpan(r *http.Request, pattern string) (context.Context, trace.Span) {
	name := method(r.Method) + " " + pattern
	theirs := r.Header.Get("Traceparent")
	switch {
	case pattern == healthPath || pattern == readyPath:
		return r.Context(), trace.SpanFromContext(context.Background()) // probes are no traffic
	case theirs == "":
		return h.Tracer.Start(r.Context(), name, trace.WithSpanKind(trace.SpanKindServer))
	case h.cfg.TrustTraceContext:
		return h.Tracer.Start(telemetry.WithTraceparent(r.Context(), theirs), name, trace.WithSpanKind(trace.SpanKindServer))
	}
	ctx, span := h.Tracer.Start(r.Context(), name, trace.WithSpanKind(trace.SpanKindServer))
	if span.IsRecording() {
		link := trace.LinkFromContext(telemetry.WithTraceparent(context.Background(), theirs))
		if link.SpanContext.IsValid() {
			span.AddLink(link)
		}
	}
	return ctx, span
}

// describe adds to a request's span how the request ended.
func describe(span trace.Span, x *exchange, status int) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(methodAttr.String(method(x.request.Method)), routeAttr.String(x.route.pattern),
		statusAttr.Int(status), requestAttr.String(x.id))
	if x.model != "" {
		span.SetAttributes(modelAttr.String(x.model))
	}
	switch {
	case x.err != nil:
		span.SetAttributes(errorAttr.String(apierror.Of(x.err).KnownCode()))
	case status >= http.StatusInternalServerError:
		span.SetAttributes(errorAttr.String(strconv.Itoa(status)))
	}
	// An answer that broke off after its 200 has failed too.
	if status >= http.StatusInternalServerError ||
		x.err != nil && apierror.Of(x.err).Status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
}
