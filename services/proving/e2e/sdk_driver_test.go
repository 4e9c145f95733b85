package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
)

// order is one call of an SDK, in the terms that all SDKs have in common.
type order struct {
	// Op is chat, stream, or one of the SDK's other calls.
	Op string `json:"op"`
	// Base has no /v1.
	Base      string `json:"base"`
	Key       string `json:"key"`
	Model     string `json:"model"`
	Prompt    string `json:"prompt"`
	MaxTokens int    `json:"max_tokens"`
	// Usage asks for usage in a stream.
	Usage bool `json:"usage"`
	// Tool is the offered function: name, description, parameters. Its call is answered
	// with Reply, and the answer to that is the outcome.
	Tool  json.RawMessage `json:"tool,omitempty"`
	Reply string          `json:"reply,omitempty"`
	// Format is the response_format.
	Format json.RawMessage `json:"format,omitempty"`
	// Form is a response_format that is one word; Audio is a file to transcribe.
	Form  string `json:"form,omitempty"`
	Audio []byte `json:"audio,omitempty"`
	// Headers are sent beside the SDK's own.
	Headers map[string]string `json:"headers,omitempty"`
	// Retries is how often the SDK may retry; the SDK's own default if negative.
	Retries int `json:"retries"`
	// HangUp leaves at the first text.
	HangUp bool `json:"hang_up"`
	habits

	// content is called at the first text, and left once the SDK was asked to hang up.
	// Both may be called from any goroutine, and either may be nil.
	content, left func()
}

func (o *order) begun() {
	if o.content != nil {
		o.content()
	}
}

func (o *order) gone() {
	if o.left != nil {
		o.left()
	}
}

// result is what an SDK made of an order.
type result struct {
	Text   string `json:"text"`
	Finish string `json:"finish"`
	// Chunks counts the pieces of a stream, and Usages those of them with usage.
	Chunks int     `json:"chunks"`
	Usages int     `json:"usages"`
	Usage  tokens  `json:"usage"`
	Call   call    `json:"call"`
	ID     string  `json:"request_id"`
	Error  *raised `json:"error"`
	// Vectors, Images (URLs or base64) and Seconds are what other calls give.
	Vectors [][]float32 `json:"vectors"`
	Images  []string    `json:"images"`
	Seconds float64     `json:"seconds"`
}

type tokens struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

// call is a call of a function, its arguments as JSON.
type call struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// raised is an error as the SDK raises it. What the SDK does not show is empty.
type raised struct {
	Class   string `json:"class"`
	Status  int    `json:"status"`
	Code    string `json:"code"`
	Param   string `json:"param"`
	Message string `json:"message"`
	ID      string `json:"request_id"`
}

// sdk is one of the SDKs with its known behaviour.
type sdk struct {
	name string
	// start gets it ready to carry out orders, one at a time.
	start func(t *testing.T) func(t *testing.T, o order) result
	// class is the name of its error for a status.
	class func(status int) string
	// retries says that it retries by itself; hints, that it then obeys retry-after-ms
	// and x-should-retry; ids, that it shows request ids.
	retries, hints, ids bool
	// calls are its calls beside chat and stream; image_url means that it asks for URLs
	// of images too.
	calls []string
}

// sdks are the SDKs that the marketplace is tested with. The versions are those of go.mod
// and of node/package-lock.json.
func sdks() []sdk {
	node := func(status int) string {
		classes := map[int]string{
			http.StatusBadRequest: "BadRequestError", http.StatusUnauthorized: "AuthenticationError",
			http.StatusForbidden: "PermissionDeniedError", http.StatusNotFound: "NotFoundError",
			http.StatusTooManyRequests: "RateLimitError", http.StatusPaymentRequired: "APIError",
		}
		if class, ok := classes[status]; ok {
			return class
		}
		return "InternalServerError"
	}
	every := []string{"models", "complete", "complete_stream", "embed", "image", "image_url", "image_stream", "transcribe",
		"transcribe_stream"}
	always := func(class string) func(int) string { return func(int) string { return class } }
	return []sdk{
		{name: "openai-4", start: nodeSDK("openai-4"), class: node, retries: true, hints: true, ids: true,
			calls: slices.DeleteFunc(slices.Clone(every), func(call string) bool { return call == "image_stream" })},
		{name: "openai-5", start: nodeSDK("openai-5"), class: node, retries: true, hints: true, ids: true, calls: every},
		{name: "openai-6", start: nodeSDK("openai-6"), class: node, retries: true, hints: true, ids: true, calls: every},
		{name: "ai-sdk", start: nodeSDK("ai-sdk"), class: always("AI_APICallError"), retries: true, ids: true,
			calls: []string{"complete", "complete_stream", "embed", "image"}},
		{name: "langchain", start: nodeSDK("langchain"), class: node, retries: true,
			calls: []string{"complete", "complete_stream", "embed"}},
		{name: "openai-go", start: officialGo, class: always("openai.Error"), retries: true, hints: true, ids: true,
			calls: every},
		{name: "go-openai", start: goOpenAI, class: always("openai.APIError"),
			calls: []string{"models", "complete", "complete_stream", "embed", "image", "image_url", "transcribe"}},
	}
}
