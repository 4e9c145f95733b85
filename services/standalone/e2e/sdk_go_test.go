package e2e

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

func (m *market) sdk(key string, opts ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{option.WithBaseURL(m.base() + "/v1"), option.WithAPIKey(key)}, opts...)...)
}

func question(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:     model,
		Messages:  []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello! Who are you?")},
		MaxTokens: openai.Int(64),
	}
}

func TestTheGoSDKGetsWholeAndStreamedAnswersFromTheFirstRun(t *testing.T) {
	m := start(t)
	client := m.sdk(m.key())
	var raw *http.Response
	whole, err := client.Chat.Completions.New(t.Context(), question(m.env["SVC_MODEL"]), option.WithResponseInto(&raw))
	if err != nil {
		t.Fatal(err)
	}
	if whole.Model != m.env["SVC_MODEL"] || whole.Choices[0].Message.Content == "" || whole.Usage.CompletionTokens == 0 {
		t.Errorf("answer %s", whole.RawJSON())
	}
	receipt := m.receipt(t, m.key(), raw.Header.Get("X-Svc-Request-ID"))
	if receipt["status"] != "settled" || receipt["completion_tokens"] != float64(whole.Usage.CompletionTokens) {
		t.Errorf("receipt %v for usage %s", receipt, whole.Usage.RawJSON())
	}
	if cost := raw.Header.Get("X-Svc-Cost-Usd"); cost != receipt["cost_usd_str"] {
		t.Errorf("the answer says it cost %q, the receipt %v", cost, receipt["cost_usd_str"])
	}
	for _, name := range []string{"X-Svc-Provider-ID", "X-Svc-Provider-Name", "X-Svc-Connection-Mode", "X-Svc-Latency-Ms", "X-Svc-Route-Mode",
		"X-Svc-Billing-Type", "X-Svc-Context-Source", "X-Svc-Context-Length", "X-Request-ID", "X-Svc-Attempts"} {
		if raw.Header.Get(name) == "" {
			t.Errorf("no %s", name)
		}
	}

	stream := client.Chat.Completions.NewStreaming(t.Context(), question(m.env["SVC_MODEL"]))
	var collected openai.ChatCompletionAccumulator
	var chunks int
	for stream.Next() {
		chunks++
		if chunk := stream.Current(); chunk.Usage.TotalTokens != 0 || len(chunk.Choices) == 0 {
			t.Errorf("usage nobody asked for: %s", chunk.RawJSON())
		}
		if !collected.AddChunk(stream.Current()) {
			t.Fatalf("chunk %d does not belong: %s", chunks, stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if chunks < 3 || len(collected.Choices) != 1 || collected.Choices[0].Message.Content == "" || collected.Choices[0].FinishReason == "" {
		t.Errorf("%d chunks made %+v", chunks, collected.Choices)
	}
}

func TestUsageComesInAStreamOnlyWhenAskedFor(t *testing.T) {
	m := start(t)
	params := question(m.env["SVC_MODEL"])
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	client := m.sdk(m.key())
	stream := client.Chat.Completions.NewStreaming(t.Context(), params)
	var last openai.ChatCompletionChunk
	for stream.Next() {
		last = stream.Current()
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	if len(last.Choices) != 0 || last.Usage.TotalTokens != last.Usage.PromptTokens+last.Usage.CompletionTokens || last.Usage.TotalTokens == 0 {
		t.Errorf("the last chunk is %s", last.RawJSON())
	}
}

func TestTheGoSDKSeesTypedErrorsAfterOneAttempt(t *testing.T) {
	m := start(t)
	_, poor := m.consumer(t, "")
	long := question(m.env["SVC_MODEL"])
	long.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage(strings.Repeat("many words ", 20_000))}
	bad := question(m.env["SVC_MODEL"])
	bad.TopLogprobs = openai.Int(1_000_000)
	for _, c := range []struct {
		name, key, code, param string
		params                 openai.ChatCompletionNewParams
		status                 int
	}{
		{name: "a made-up key", key: "sk-svc-nonsense", status: 401, code: "invalid_api_key", params: question(m.env["SVC_MODEL"])},
		{name: "a provider's key", key: m.env["SVC_PROVIDER_KEY"], status: 401, code: "wrong_key_type", params: question(m.env["SVC_MODEL"])},
		{name: "an unknown model", key: m.key(), status: 404, code: "model_not_found", param: "model", params: question("no/such-model")},
		{name: "a number out of range", key: m.key(), status: 400, code: "invalid_value", param: "top_logprobs", params: bad},
		{name: "a prompt beyond every window", key: m.key(), status: 400, code: "context_length_exceeded", param: "messages", params: long},
		{name: "no credit", key: poor, status: 402, code: "insufficient_credits", params: question(m.env["SVC_MODEL"])},
	} {
		t.Run(c.name, func(t *testing.T) {
			attempts := 0
			client := m.sdk(c.key, option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
				attempts++
				return next(r)
			}))
			_, err := client.Chat.Completions.New(t.Context(), c.params)
			var apiErr *openai.Error
			if !errors.As(err, &apiErr) {
				t.Fatalf("got %v", err)
			}
			if apiErr.StatusCode != c.status || apiErr.Code != c.code || apiErr.Param != c.param || apiErr.Message == "" {
				t.Errorf("%d %s", apiErr.StatusCode, apiErr.RawJSON())
			}
			if attempts != 1 {
				t.Errorf("%d attempts at something that a retry cannot mend", attempts)
			}
		})
	}
}

func TestModelsAreListedAndFoundByTheirSlashedIDs(t *testing.T) {
	m := start(t)
	client := m.sdk("sk-svc-no-key-is-needed-here")
	page, err := client.Models.List(t.Context())
	if err != nil || len(page.Data) != 2 {
		t.Fatalf("%d models, %v", len(page.Data), err)
	}
	got, err := client.Models.Get(t.Context(), m.env["SVC_MODEL"])
	if err != nil || got.ID != m.env["SVC_MODEL"] {
		t.Errorf("the SDK's way (%%2F): %v, %v", got, err)
	}
	if status, _, body := m.call(t, http.MethodGet, "/v1/models/"+m.env["SVC_MODEL"], "", ""); status != http.StatusOK {
		t.Errorf("a raw slash: %d %s", status, body)
	}
	_, _, body := m.call(t, http.MethodGet, "/api/v1/models", "", "")
	first := at(decode(t, body), "data", "list", 0)
	if at(first, "online_providers") != float64(1) || at(first, "guaranteed_context_basis") != "reported" || at(first, "input_price_str") != "0.10" {
		t.Errorf("catalog entry %v", first)
	}
}
