package challenge

import (
	"time"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/fingerprint"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/jsonscan"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

// Bounds of an order. Sizes are in bytes.
const (
	MaxTimeout   = 600 * time.Second
	maxBody      = 10 << 20
	maxPrompt    = 64 << 10
	maxTokens    = 500
	maxPrompts   = 32
	maxBenchmark = 8 << 10
)

// Order is what is asked of which session.
type Order struct {
	// ID names the challenge.
	ID       string
	Provider ids.ProviderID
	Node     string
	Epoch    int64
	Model    string
	// Timeout is how long the whole answer is waited for.
	Timeout     time.Duration
	Traceparent string
	// Task is what is asked where it is no inference; nil for an inference.
	Task session.Task
	// Kind, Stream and Body are of an inference. Body is a JSON object whose member model
	// names Model. It must not change until the challenge has ended.
	Kind   meter.Kind
	Stream bool
	Body   []byte

	name jsonscan.Span // of the model in Body
}

// Check refuses a malformed order with invalid_request, and finds the model's name.
func (o *Order) Check() error {
	what := ""
	switch {
	case !session.ValidChallengeID(o.ID):
		what = "challenge_id"
	case !session.ValidNodeID(o.Node):
		what = "node_id"
	case !session.ValidModelID(o.Model):
		what = "model_id"
	case o.Timeout <= 0 || o.Timeout > MaxTimeout:
		what = "timeout_ms"
	default:
		what = o.wrong()
	}
	if what == "" {
		return nil
	}
	return fault.New(fault.Invalid, fault.InvalidRequest, "%s", what).On(what)
}

// wrong names what is malformed of the task or the inference; empty for nothing.
func (o *Order) wrong() string {
	switch task := o.Task.(type) {
	case nil:
		return o.wrongInference()
	case *session.Fingerprint:
		return wrongFingerprint(o.ID, task)
	case *session.Deterministic:
		if task.Prompt == "" || len(task.Prompt) > maxPrompt {
			return "deterministic.prompt"
		}
		if task.MaxTokens < 1 || task.MaxTokens > maxTokens {
			return "deterministic.max_tokens"
		}
	case *session.Benchmark:
		return wrongBenchmark(task)
	}
	return ""
}

// wrongInference also finds the model's name. Requests with a form are no challenges,
// because their body is not JSON.
func (o *Order) wrongInference() string {
	switch {
	case o.Kind == meter.Transcriptions || o.Kind >= meter.Kind(len(meter.Kinds())):
		return "inference.endpoint"
	case o.Stream && o.Kind == meter.Embeddings:
		return "inference.stream"
	case len(o.Body) == 0 || len(o.Body) > maxBody:
		return "inference.body"
	}
	o.name = modelName(o.Body, o.Model)
	if !o.name.Found() {
		return "inference.body"
	}
	return ""
}

// modelName is where a JSON object names a model; nowhere where it does not, where it
// names another, and where it names any twice, because readers would differ about which
// counts.
func modelName(body []byte, model string) (name jsonscan.Span) {
	for m, err := range jsonscan.New(body, jsonscan.Options{RefuseInvalidUTF8: true}).Members() {
		if err != nil {
			return jsonscan.Span{}
		}
		if string(m.Key.Name(body)) != "model" {
			continue
		}
		if name.Found() || !jsonscan.StringIs(m.Value.Of(body), model) {
			return jsonscan.Span{}
		}
		name = m.Value
	}
	return name
}

// wrongFingerprint refuses what no agent would answer.
func wrongFingerprint(id string, f *session.Fingerprint) string {
	c := fingerprint.Challenge{ID: id, Nonce: f.Nonce, Blocks: int(f.ChainLength)}
	for _, r := range f.Ranges[:min(len(f.Ranges), fingerprint.MaxRanges+1)] {
		c.Ranges = append(c.Ranges, fingerprint.Range{File: r.File, Offset: r.Offset, Length: int(r.Length)})
	}
	for _, file := range f.ChainFiles[:min(len(f.ChainFiles), fingerprint.MaxFiles+1)] {
		c.Files = append(c.Files, fingerprint.File{Name: file.File, Size: file.Size})
	}
	if c.Validate() != nil {
		return "fingerprint"
	}
	return ""
}

func wrongBenchmark(b *session.Benchmark) string {
	switch b.Test {
	case "math", "latency", "code", "reasoning":
	default:
		return "benchmark.test_type"
	}
	if len(b.Prompts) < 1 || len(b.Prompts) > maxPrompts {
		return "benchmark.prompts"
	}
	for _, p := range b.Prompts {
		if p == "" || len(p) > maxBenchmark {
			return "benchmark.prompts"
		}
	}
	return ""
}

// request is the order as the session is asked, under a request id.
func (o *Order) request(id string) session.Request {
	r := session.Request{
		RequestID: id, Attempt: 1, Model: o.Model, Kind: o.Kind, Stream: o.Stream, Body: o.Body,
		Traceparent: o.Traceparent, Timeout: o.Timeout, Challenge: &session.Challenge{ID: o.ID, Task: o.Task},
	}
	if o.Task == nil {
		r.ModelOffset, r.ModelLength = uint32(o.name.Start), uint32(o.name.Len())
	}
	return r
}
