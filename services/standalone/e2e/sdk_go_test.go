package e2e

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"svc.internal/services/standalone/internal/trial"
)

func sdk(m *trial.Market, key string, opts ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{option.WithBaseURL(m.Base() + "/v1"), option.WithAPIKey(key)}, opts...)...)
}

func question(model string) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:     model,
		Messages:  []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello! Who are you?")},
		MaxTokens: openai.Int(64),
	}
}

func TestTheGoSDKGetsWholeAndStreamedAnswersFromTheFirstRun(t *testing.T) {
	trial.Each(t, func(t *testing.T, m *trial.Market) {
		for _, base := range m.Bases() {
			theGoSDKGetsWholeAndStreamedAnswersFromTheFirstRun(t, m.Through(base))
		}
	})
}

func theGoSDKGetsWholeAndStreamedAnswersFromTheFirstRun(t *testing.T, m *trial.Market) {
	client := sdk(m, m.Key())
	var raw *http.Response
	whole, err := client.Chat.Completions.New(t.Context(), question(m.Model()), option.WithResponseInto(&raw))
	if err != nil {
		t.Fatal(err)
	}
	if whole.Model != m.Model() || whole.Choices[0].Message.Content == "" || whole.Usage.CompletionTokens == 0 {
		t.Errorf("answer %s", whole.RawJSON())
	}
	receipt := m.Receipt(t, m.Key(), raw.Header.Get(trial.RequestIDHeader))
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

	stream := client.Chat.Completions.NewStreaming(t.Context(), question(m.Model()))
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
	trial.Each(t, usageComesInAStreamOnlyWhenAskedFor)
}

func usageComesInAStreamOnlyWhenAskedFor(t *testing.T, m *trial.Market) {
	params := question(m.Model())
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	client := sdk(m, m.Key())
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
	trial.Each(t, theGoSDKSeesTypedErrorsAfterOneAttempt)
}

func theGoSDKSeesTypedErrorsAfterOneAttempt(t *testing.T, m *trial.Market) {
	_, poor := m.Consumer(t, "")
	long := question(m.Model())
	long.Messages = []openai.ChatCompletionMessageParamUnion{openai.UserMessage(strings.Repeat("many words ", 20_000))}
	bad := question(m.Model())
	bad.TopLogprobs = openai.Int(1_000_000)
	for _, c := range []struct {
		name, key, code, param string
		params                 openai.ChatCompletionNewParams
		status                 int
	}{
		{name: "a made-up key", key: "sk-svc-nonsense", status: 401, code: "invalid_api_key", params: question(m.Model())},
		{name: "a provider's key", key: m.Env["SVC_PROVIDER_KEY"], status: 401, code: "wrong_key_type", params: question(m.Model())},
		{name: "an unknown model", key: m.Key(), status: 404, code: "model_not_found", param: "model", params: question("no/such-model")},
		{name: "a number out of range", key: m.Key(), status: 400, code: "invalid_value", param: "top_logprobs", params: bad},
		{name: "a prompt beyond every window", key: m.Key(), status: 400, code: "context_length_exceeded", param: "messages", params: long},
		{name: "no credit", key: poor, status: 402, code: "insufficient_credits", params: question(m.Model())},
	} {
		t.Run(c.name, func(t *testing.T) {
			attempts := 0
			client := sdk(m, c.key, option.WithMiddleware(func(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
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
	trial.Each(t, modelsAreListedAndFoundByTheirSlashedIDs)
}

func modelsAreListedAndFoundByTheirSlashedIDs(t *testing.T, m *trial.Market) {
	client := sdk(m, "sk-svc-no-key-is-needed-here")
	page, err := client.Models.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, model := range page.Data {
		listed = append(listed, model.ID)
	}
	if !slices.Contains(listed, m.Model()) || !slices.Contains(listed, m.Model()+"-free") {
		t.Fatalf("the list is %v", listed)
	}
	got, err := client.Models.Get(t.Context(), m.Model())
	if err != nil || got.ID != m.Model() {
		t.Errorf("the SDK's way (%%2F): %v, %v", got, err)
	}
	if status, _, body := m.Call(t, http.MethodGet, "/v1/models/"+m.Model(), "", ""); status != http.StatusOK {
		t.Errorf("a raw slash: %d %s", status, body)
	}
	_, _, body := m.Call(t, http.MethodGet, "/api/v1/models", "", "")
	list, _ := trial.At(trial.Decode(t, body), "data", "list").([]any)
	at := slices.IndexFunc(list, func(entry any) bool { return trial.At(entry, "id") == m.Model() })
	if at < 0 {
		t.Fatalf("the public catalog is %s", body)
	}
	providers, _ := trial.At(list[at], "online_providers").(float64)
	if providers < 1 || trial.At(list[at], "guaranteed_context_basis") != "reported" || trial.At(list[at], "input_price_str") != "0.10" {
		t.Errorf("catalog entry %v", list[at])
	}
}
