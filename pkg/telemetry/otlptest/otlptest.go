// Package otlptest is a trace collector for tests: a gRPC server of the OTLP trace
// service that keeps the spans that it receives, with functions to search them.
package otlptest

import (
	"context"
	"encoding/hex"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/prototext"
)

// Span is a received span, with its ids in hexadecimal.
type Span struct {
	TraceID, ID, ParentID string
	Name                  string
	// Kind is SERVER, CLIENT, PRODUCER, CONSUMER or INTERNAL.
	Kind string
	// Resource and Attributes are texts by key.
	Resource, Attributes map[string]string
	// Events are their names, in order.
	Events []string
	// Links are the trace ids that it is linked to.
	Links []string
	// Failed reports whether its status is an error.
	Failed bool
}

// Collector receives spans until its test ends.
type Collector struct {
	collectorv1.UnimplementedTraceServiceServer
	// Endpoint is its host:port.
	Endpoint string

	mu      sync.Mutex
	spans   []Span
	text    strings.Builder
	changed chan struct{}
	refuse  error
}

// Start runs a collector on loopback.
func Start(t testing.TB) *Collector {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{Endpoint: lis.Addr().String(), changed: make(chan struct{})}
	srv := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(srv, c)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(lis) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-ended; err != nil {
			t.Errorf("the trace collector ended with %v", err)
		}
	})
	return c
}

// Refuse makes the collector answer every export with err; nil makes it accept them
// again.
func (c *Collector) Refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = err
}

// Export implements the OTLP trace service.
func (c *Collector) Export(
	_ context.Context, req *collectorv1.ExportTraceServiceRequest,
) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		close(c.changed)
		c.changed = make(chan struct{})
	}()
	if c.refuse != nil {
		return nil, c.refuse
	}
	c.text.WriteString(prototext.Format(req))
	for _, r := range req.GetResourceSpans() {
		resource := texts(r.GetResource().GetAttributes())
		for _, scope := range r.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, spanOf(resource, s))
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

func spanOf(resource map[string]string, s *tracev1.Span) Span {
	span := Span{
		TraceID: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
		ParentID: hex.EncodeToString(s.GetParentSpanId()), Name: s.GetName(), Kind: strings.TrimPrefix(s.GetKind().String(),
			"SPAN_KIND_"),
		Resource: resource, Attributes: texts(s.GetAttributes()),
		Failed: s.GetStatus().GetCode() == tracev1.Status_STATUS_CODE_ERROR,
	}
	for _, e := range s.GetEvents() {
		span.Events = append(span.Events, e.GetName())
	}
	for _, l := range s.GetLinks() {
		span.Links = append(span.Links, hex.EncodeToString(l.GetTraceId()))
	}
	return span
}

func texts(attrs []*commonv1.KeyValue) map[string]string {
	out := make(map[string]string, len(attrs))
	for _, a := range attrs {
		switch v := a.GetValue().GetValue().(type) {
		case *commonv1.AnyValue_StringValue:
			out[a.GetKey()] = v.StringValue
		case *commonv1.AnyValue_IntValue:
			out[a.GetKey()] = strconv.FormatInt(v.IntValue, 10)
		case *commonv1.AnyValue_BoolValue:
			out[a.GetKey()] = strconv.FormatBool(v.BoolValue)
		default:
			out[a.GetKey()] = prototext.Format(a.GetValue())
		}
	}
	return out
}

// Spans returns all spans that were received so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Text returns everything that was received, as text, to search it for what must not be
// in it.
func (c *Collector) Text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.String()
}

// Wait returns the spans once enough returns true, and fails the test when that takes
// longer than limit.
func (c *Collector) Wait(t testing.TB, limit time.Duration, what string, enough func([]Span) bool) []Span {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for {
		c.mu.Lock()
		spans, changed := slices.Clone(c.spans), c.changed
		c.mu.Unlock()
		if enough(spans) {
			return spans
		}
		select {
		case <-changed:
		case <-deadline.C:
			t.Fatalf("after %v there is no %s among %d spans:\n%s", limit, what, len(spans), Tree(spans))
		}
	}
}

// Find returns the first span that fits, and whether there is one.
func Find(spans []Span, fits func(Span) bool) (Span, bool) {
	i := slices.IndexFunc(spans, fits)
	if i < 0 {
		return Span{}, false
	}
	return spans[i], true
}

// Path returns the names from a span up to the root of its trace. It ends early where a
// parent was not received.
func Path(spans []Span, s Span) []string {
	names := []string{s.Name}
	for range spans {
		parent, ok := Find(spans, func(p Span) bool { return p.TraceID == s.TraceID && p.ID == s.ParentID })
		if !ok {
			break
		}
		names, s = append(names, parent.Name), parent
	}
	return names
}

// Tree writes spans below their parents, for messages.
func Tree(spans []Span) string {
	var b strings.Builder
	var write func(parent, indent string)
	write = func(parent, indent string) {
		for _, s := range spans {
			if s.ParentID == parent && len(indent) < 2*len(spans) {
				b.WriteString(indent + s.Name + " (" + s.Resource["service.name"] + ", " + s.TraceID + ")\n")
				write(s.ID, indent+"  ")
			}
		}
	}
	write("", "")
	for _, s := range spans {
		if _, ok := Find(spans, func(p Span) bool { return p.ID == s.ParentID }); s.ParentID != "" && !ok {
			b.WriteString("orphan " + s.Name + "\n")
			write(s.ID, "  ")
		}
	}
	return b.String()
}
