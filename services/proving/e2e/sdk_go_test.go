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
	if want := m.Model(); whole.Model != want {
		t.Errorf("whole.Model: got %q, want %q", whole.Model, want)
	} else if whole.Choices[0].Message.Content == "" {
		t.Error(`whole.Choices[0].Message.Content: got "", want some text`)
	} else if whole.Usage.CompletionTokens == 0 {
		t.Error("whole.Usage.CompletionTokens: got 0, want any but 0")
	}
	receipt := m.Receipt(t, m.Key(), raw.Header.Get(trial.RequestIDHeader))
	if receipt["status"] != "settled" {
		t.Errorf(`receipt["status"]: got %v, want "settled", with %s`, receipt["status"], whole.Usage.RawJSON())
	} else if receipt["completion_tokens"] != float64(whole.Usage.CompletionTokens) {
		t.Errorf(`receipt["completion_tokens"]: got %v, want %v, with %s`, receipt["completion_tokens"],
			float64(whole.Usage.CompletionTokens), whole.Usage.RawJSON())
	}
	if cost := raw.Header.Get("X-Svc-Cost-Usd"); cost != receipt["cost_usd_str"] {
		t.Errorf("the answer says it cost: got %q, want %q", cost, receipt["cost_usd_str"])
	}
	for _, name := range []string{"X-Svc-Provider-ID", "X-Svc-Provider-Name", "X-Svc-Connection-Mode", "X-Svc-Latency-Ms",
		"X-Svc-Route-Mode",
		"X-Svc-Billing-Type", "X-Svc-Context-Source", "X-Svc-Context-Length", "X-Request-ID", "X-Svc-Attempts"} {
		if raw.Header.Get(name) == "" {
			t.Errorf(`the %s: got "", want some text`, name)
		}
	}

	stream := client.Chat.Completions.NewStreaming(t.Context(), question(m.Model()))
	var collected openai.ChatCompletionAccumulator
	var chunks int
	for stream.Next() {
		chunks++
		if chunk := stream.Current(); chunk.Usage.TotalTokens != 0 {
			t.Errorf("usage nobody asked: chunk.Usage.TotalTokens: got %d, want 0", chunk.Usage.TotalTokens)
		} else if len(chunk.Choices) == 0 {
			t.Error("usage nobody asked: len(chunk.Choices): got 0, want at least 1")
		}
		if !collected.AddChunk(stream.Current()) {
			t.Fatalf("chunk %d does not belong: %s", chunks, stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatal(err)
	}
	switch {
	case chunks < 3:
		t.Errorf("chunks: got %d, want at least 3", chunks)
	case len(collected.Choices) != 1:
		t.Errorf("len(collected.Choices): got %d, want 1, in %+v", len(collected.Choices), collected.Choices)
	case collected.Choices[0].Message.Content == "":
		t.Error(`collected.Choices[0].Message.Content: got "", want some text`)
	case collected.Choices[0].FinishReason == "":
		t.Error(`collected.Choices[0].FinishReason: got "", want some text`)
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
	if want := m.Model(); !slices.Contains(listed, want) {
		t.Fatalf("the list: got %q, want %q in it", listed, want)
	}
	if want := m.Model() + "-free"; !slices.Contains(listed, want) {
		t.Fatalf("the list: got %q, want %q in it", listed, want)
	}
	got, err := client.Models.Get(t.Context(), m.Model())
	if err != nil {
		t.Errorf("the SDK's way (%%2F): got the error %v, want none", err)
	} else if wanted := m.Model(); got.ID != wanted {
		t.Errorf("the SDK's way (%%2F): ID: got %q, want %q", got.ID, wanted)
	}
	if status, _, body := m.Call(t, http.MethodGet, "/v1/models/"+m.Model(), "", ""); status != http.StatusOK {
		t.Errorf("a raw slash: got %d, want 200 (body is %s)", status, body)
	}
	_, _, body := m.Call(t, http.MethodGet, "/api/v1/models", "", "")
	list, _ := trial.At(trial.Decode(t, body), "data", "list").([]any)
	at := slices.IndexFunc(list, func(entry any) bool { return trial.At(entry, "id") == m.Model() })
	if at < 0 {
		t.Fatalf("the public catalog: got %d, want at least 0, with %s", at, body)
	}
	providers, _ := trial.At(list[at], "online_providers").(float64)
	if providers < 1 {
		t.Errorf("providers: got %v, want at least 1", providers)
	} else if got := trial.At(list[at], "guaranteed_context_basis"); got != "reported" {
		t.Errorf(`catalog entry: trial.At(…): got %v, want "reported"`, got)
	} else if got := trial.At(list[at], "input_price_str"); got != "0.10" {
		t.Errorf(`catalog entry: trial.At(…): got %v, want "0.10"`, got)
	}
}
