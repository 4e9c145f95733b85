// Package genai records requests to generative models under the names of
// OpenTelemetry's conventions for generative AI (semantic conventions 1.41, the
// last release that has them among its own):
//
//	gen_ai.server.request.duration        of every request whose model is known
//	gen_ai.server.time_to_first_token     of served streams
//	gen_ai.server.time_per_output_token   of served streams of two tokens and more
//	gen_ai.client.token.usage             input and output tokens that are billed
//
// The attributes are the operation, the model as the catalog names it, the kind of
// token, and our own reason for a request that failed. All are bounded: there is one
// set for each model of the catalog and each reason. No attribute names a key, an
// account, a provider or a text. A request that is refused before its model is known
// is in svc.edge_gateway.request.duration alone.
package genai

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/semconv/v1.41.0/genaiconv"
)

// system is the provider of all models, as the conventions call it. The receipts name the
// provider behind the marketplace.
const system = "svc"

// Operation is the kind of work that a model was asked for.
type Operation string

// The operations. The conventions have no name for the last two.
const (
	Chat           Operation = "chat"
	TextCompletion Operation = "text_completion"
	Embeddings     Operation = "embeddings"
	Images         Operation = "image_generation"
	Transcription  Operation = "transcription"
)

// inTokens reports whether an operation is counted in tokens.
func (o Operation) inTokens() bool { return o != Images && o != Transcription }

// Request is a request to a model that has ended.
type Request struct {
	Operation Operation
	// Model is the catalog's id.
	Model string
	// Reason is why the request failed, by one of our codes; empty when it was served.
	Reason string
	// Took is the whole time. FirstToken is the time to the first content of a stream; 0
	// for a whole answer, whose first token nobody saw.
	Took, FirstToken time.Duration
	// OutputTokens are the tokens that were relayed. For an operation that is not counted
	// in tokens, neither they nor the billed counts are recorded.
	OutputTokens int64
	// Billed reports whether BilledInput and BilledOutput are known.
	Billed                    bool
	BilledInput, BilledOutput int64
}

// Metrics are the instruments.
type Metrics struct {
	duration  genaiconv.ServerRequestDuration
	first     genaiconv.ServerTimeToFirstToken
	perOutput genaiconv.ServerTimePerOutputToken
	tokens    genaiconv.ClientTokenUsage

	sets sync.Map // of key to attribute.Set
}

// key distinguishes attribute sets.
type key struct {
	operation Operation
	model     string
	reason    string
	token     genaiconv.TokenTypeAttr
}

// New makes the instruments, with the buckets that the conventions advise.
func New(meters metric.MeterProvider) (*Metrics, error) {
	meter := meters.Meter("svc.internal/services/edge-gateway/genai")
	var m Metrics
	var errs [4]error
	m.duration, errs[0] = genaiconv.NewServerRequestDuration(meter, metric.WithExplicitBucketBoundaries(
		.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92))
	m.first, errs[1] = genaiconv.NewServerTimeToFirstToken(meter, metric.WithExplicitBucketBoundaries(
		.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10))
	m.perOutput, errs[2] = genaiconv.NewServerTimePerOutputToken(meter, metric.WithExplicitBucketBoundaries(
		.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5))
	m.tokens, errs[3] = genaiconv.NewClientTokenUsage(meter, metric.WithExplicitBucketBoundaries(
		1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("make the instruments of generative AI: %w", err)
	}
	return &m, nil
}

// Record records a request that has ended.
func (m *Metrics) Record(ctx context.Context, r Request) {
	m.duration.RecordSet(ctx, r.Took.Seconds(), m.set(key{operation: r.Operation, model: r.Model, reason: r.Reason}))
	if !r.Operation.inTokens() {
		return
	}
	if r.Reason == "" && r.FirstToken > 0 {
		served := m.set(key{operation: r.Operation, model: r.Model})
		m.first.RecordSet(ctx, r.FirstToken.Seconds(), served)
		if r.OutputTokens > 1 {
			rest := max(0, r.Took-r.FirstToken)
			m.perOutput.RecordSet(ctx, rest.Seconds()/float64(r.OutputTokens-1), served)
		}
	}
	if r.Billed {
		m.tokens.RecordSet(ctx, r.BilledInput,
			m.set(key{operation: r.Operation, model: r.Model, token: genaiconv.TokenTypeInput}))
		m.tokens.RecordSet(ctx, r.BilledOutput,
			m.set(key{operation: r.Operation, model: r.Model, token: genaiconv.TokenTypeOutput}))
	}
}

func (m *Metrics) set(k key) attribute.Set {
	if set, ok := m.sets.Load(k); ok {
		return set.(attribute.Set)
	}
	attrs := []attribute.KeyValue{
		attribute.String("gen_ai.operation.name", string(k.operation)),
		attribute.String("gen_ai.provider.name", system),
		m.duration.AttrRequestModel(k.model),
	}
	if k.reason != "" {
		attrs = append(attrs, m.duration.AttrErrorType(genaiconv.ErrorTypeAttr(k.reason)))
	}
	if k.token != "" {
		attrs = append(attrs, attribute.String("gen_ai.token.type", string(k.token)))
	}
	set, _ := m.sets.LoadOrStore(k, attribute.NewSet(attrs...))
	return set.(attribute.Set)
}
