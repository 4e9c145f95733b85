package e2e

import (
	"net/http"
	"slices"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"svc.internal/services/proving/internal/trial"
)

func official(m *trial.Market, key string, opts ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{option.WithBaseURL(m.Base() + "/v1"), option.WithAPIKey(key)},
		opts...)...)
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
	client := official(m, m.Key())
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
	for _, name := range []string{"X-Svc-Provider-ID", "X-Svc-Provider-Name", "X-Svc-Connection-Mode", "X-Svc-Latency-Ms",
		"X-Svc-Route-Mode",
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
	if chunks < 3 || len(collected.Choices) != 1 || collected.Choices[0].Message.Content == "" ||
		collected.Choices[0].FinishReason == "" {
		t.Errorf("%d chunks made %+v", chunks, collected.Choices)
	}
}

func TestModelsAreListedAndFoundByTheirSlashedIDs(t *testing.T) {
	trial.Each(t, modelsAreListedAndFoundByTheirSlashedIDs)
}

func modelsAreListedAndFoundByTheirSlashedIDs(t *testing.T, m *trial.Market) {
	client := official(m, "sk-svc-no-key-is-needed-here")
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
	if providers < 1 || trial.At(list[at], "guaranteed_context_basis") != "reported" ||
		trial.At(list[at], "input_price_str") != "0.10" {
		t.Errorf("catalog entry %v", list[at])
	}
}
