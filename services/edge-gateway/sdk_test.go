package edgegateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"svc.internal/pkg/fault"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

func (f *fleet) sdk(options ...option.RequestOption) openai.Client {
	return openai.NewClient(append([]option.RequestOption{
		option.WithBaseURL(f.base + "/v1/"), option.WithAPIKey(f.key), option.WithHTTPClient(f.client),
		option.WithMaxRetries(0),
	}, options...)...)
}

func params() openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:    modelID,
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say hello to the world")},
	}
}

func TestTheOfficialSDKReadsAWholeAnswer(t *testing.T) {
	f := start(t)
	client := f.sdk()
	got, err := client.Chat.Completions.New(t.Context(), params())
	if err != nil {
		t.Fatal(err)
	}
	choice := got.Choices[0]
	if choice.Message.Content != "Hello" || choice.FinishReason != "stop" || got.Usage.TotalTokens != 12 ||
		!choice.Message.JSON.Refusal.Valid() && choice.Message.JSON.Refusal.Raw() != "null" ||
		choice.JSON.Logprobs.Raw() != "null" {
		t.Errorf("got %s", got.RawJSON())
	}
}

func TestTheOfficialSDKReadsAStream(t *testing.T) {
	f := start(t)
	f.hub.set(streamAnswer)
	client, p := f.sdk(), params()
	p.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(t.Context(), p)
	acc := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			t.Fatal("a chunk does not fit those before it")
		}
	}
	switch {
	case stream.Err() != nil:
		t.Errorf("stream.Err(): got the error %v, want none", stream.Err())
	case acc.Choices[0].Message.Content != "Hello":
		t.Errorf(`acc.Choices[0].Message.Content: got %q, want "Hello"`, acc.Choices[0].Message.Content)
	case acc.Usage.TotalTokens != 12:
		t.Errorf("acc.Usage.TotalTokens: got %d, want 12", acc.Usage.TotalTokens)
	}
}

// Some engines leave out what SDKs put the pieces of a stream together by.
func TestTheOfficialSDKPutsABareStreamTogether(t *testing.T) {
	f := start(t)
	f.hub.set(func(p *played) error {
		const call = `{"choices":[{"delta":{"tool_calls":[`
		return p.steps(func() error { return p.event(`{"choices":[{"delta":{"content":"Hel"}}]}`, true, 1) }, p.committed,
			func() error { return p.event(`{"choices":[{"delta":{"content":"lo"}}]}`, false, 2) },
			func() error {
				return p.event(call+`{"id":"a","type":"function","function":{"name":"f","arguments":"{"}}]}}]}`, false, 3)
			},
			func() error { return p.event(call+`{"function":{"arguments":"}"}}]}}]}`, false, 4) },
			func() error {
				return p.event(call+`{"id":"b","type":"function","function":{"name":"g","arguments":"[]"}}]}}]}`, false, 5)
			},
			func() error { return p.event(`{"choices":[{"finish_reason":"tool_calls"}]}`, false, 5) },
			func() error { return p.finish(9, 5) })
	})
	client := f.sdk()
	stream := client.Chat.Completions.NewStreaming(t.Context(), params())
	acc := openai.ChatCompletionAccumulator{}
	for stream.Next() {
		if !acc.AddChunk(stream.Current()) {
			t.Fatal("a chunk does not fit those before it")
		}
	}
	if stream.Err() != nil {
		t.Fatalf("stream.Err(): got the error %v, want none", stream.Err())
	}
	if len(acc.Choices) != 1 {
		t.Fatalf("len(acc.Choices): got %d, want 1", len(acc.Choices))
	}
	m := acc.Choices[0].Message
	switch {
	case m.Content != "Hello":
		t.Fatalf(`m.Content: got %q, want "Hello"`, m.Content)
	case m.Role != "assistant":
		t.Fatalf(`m.Role: got %q, want "assistant"`, m.Role)
	case acc.Choices[0].FinishReason != "tool_calls":
		t.Fatalf(`acc.Choices[0].FinishReason: got %q, want "tool_calls"`, acc.Choices[0].FinishReason)
	case len(m.ToolCalls) != 2:
		t.Fatalf("len(m.ToolCalls): got %d, want 2, in %+v", len(m.ToolCalls), m)
	}
	for i, want := range []string{"a f {}", "b g []"} {
		if got := m.ToolCalls[i].ID + " " + m.ToolCalls[i].Function.Name + " " +
			m.ToolCalls[i].Function.Arguments; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestTheOfficialSDKSeesAnErrorWithinAStream(t *testing.T) {
	f := start(t)
	f.hub.set(func(p *played) error {
		return p.steps(func() error { return p.event(helloChunk, true, 1) }, p.committed,
			func() error { return p.fail(&hubv1.DispatchFailed{Code: "timeout"}) })
	})
	client := f.sdk()
	stream := client.Chat.Completions.NewStreaming(t.Context(), params())
	n := 0
	for stream.Next() {
		n++
	}
	switch {
	case n != 1:
		t.Errorf("n: got %d, want 1", n)
	case stream.Err() == nil:
		t.Error("stream.Err(): got no error, want one")
	case !strings.Contains(stream.Err().Error(), "timeout"):
		t.Errorf(`stream.Err().Error(): got %q, want "timeout" in it`, stream.Err().Error())
	}
}

func TestTheOfficialSDKTypesOurErrors(t *testing.T) {
	f := start(t)
	f.billing.refuse(fault.New(fault.Precondition, fault.InsufficientCredits, "short"))
	client := f.sdk(option.WithMaxRetries(2))
	_, err := client.Chat.Completions.New(t.Context(), params())
	var api *openai.Error
	switch {
	case !errors.As(err, &api):
		t.Errorf("got the error %v, want a %T", err, api)
	case api.StatusCode != 402:
		t.Errorf("api.StatusCode: got %d, want 402", api.StatusCode)
	case api.Code != "insufficient_credits":
		t.Errorf(`api.Code: got %q, want "insufficient_credits"`, api.Code)
	case api.Type != "insufficient_quota":
		t.Errorf(`api.Type: got %q, want "insufficient_quota"`, api.Type)
	}
	if n := len(f.billing.admits); n != 1 {
		t.Errorf("the SDK tried: got %d, want 1", n)
	}
}

func TestTheOfficialSDKRetriesWhatPasses(t *testing.T) {
	f := start(t)
	f.billing.refuse(fault.New(fault.Exhausted, fault.RateLimitExceeded, "slow").After(time.Millisecond))
	client := f.sdk(option.WithMaxRetries(1))
	if _, err := client.Chat.Completions.New(t.Context(), params()); err == nil {
		t.Error("no error")
	}
	if n := len(f.billing.admits); n != 2 {
		t.Errorf("the SDK tried: got %d, want 2", n)
	}
}

func TestTheOfficialSDKFindsModels(t *testing.T) {
	f := start(t)
	client := f.sdk()
	page, err := client.Models.List(t.Context())
	switch {
	case err != nil:
		t.Errorf("got the error %v, want none", err)
	case len(page.Data) != 1:
		t.Errorf("len(page.Data): got %d, want 1, in %+v", len(page.Data), page)
	case page.Data[0].ID != modelID:
		t.Errorf("page.Data[0].ID: got %q, want %q", page.Data[0].ID, modelID)
	case page.Data[0].OwnedBy != "acme":
		t.Errorf(`page.Data[0].OwnedBy: got %q, want "acme"`, page.Data[0].OwnedBy)
	}
	m, err := client.Models.Get(t.Context(), modelID)
	if err != nil {
		t.Errorf("got the error %v, want none", err)
	} else if m.ID != modelID {
		t.Errorf("m.ID: got %q, want %q", m.ID, modelID)
	}
	for _, path := range []string{"/v1/models/acme/tiny-1b", "/v1/models/acme%2Ftiny-1b", "/v1/models/tiny"} {
		resp := f.do(http.MethodGet, path, "")
		if body := read(t, resp); resp.StatusCode != 200 {
			t.Errorf("%s: resp.StatusCode: got %d, want 200", path, resp.StatusCode)
		} else if !strings.Contains(body, `"id":"acme/tiny-1b"`) {
			t.Errorf("%s: body: got %q, want %q in it", path, body, `"id":"acme/tiny-1b"`)
		}
	}
}

func TestTheOfficialSDKCanLeave(t *testing.T) {
	f := start(t)
	f.hub.set(func(p *played) error {
		if err := p.steps(func() error { return p.event(helloChunk, true, 1) }, p.committed); err != nil {
			return err
		}
		return untilCanceled(p)
	})
	ctx, cancel := context.WithCancel(t.Context())
	client := f.sdk()
	stream := client.Chat.Completions.NewStreaming(ctx, params())
	stream.Next()
	cancel()
	if err := awaited(f.t, f.hub.ended); err == nil {
		t.Error("the dispatch went on")
	}
	if err := stream.Close(); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
