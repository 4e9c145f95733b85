package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"

	gopenai "github.com/sashabaranov/go-openai"

	"svc.internal/services/proving/internal/trial"
)

// goOpenAI is go-openai, which retries nothing and shows no headers of errors.
func goOpenAI(*testing.T) func(t *testing.T, o order) result {
	return func(t *testing.T, o order) result {
		ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
		defer cancel()
		cfg := gopenai.DefaultConfig(o.Key)
		cfg.BaseURL = o.Base + "/v1"
		cfg.HTTPClient = withHeaders(o.Headers)
		d := gopherDriver{client: gopenai.NewClientWithConfig(cfg), o: o}
		if err := d.carryOut(ctx); err != nil && !d.left {
			d.out.Error = &raised{Class: fmt.Sprintf("%T", err), Message: err.Error()}
			var e *gopenai.APIError
			if errors.As(err, &e) {
				d.out.Error = &raised{Class: "openai.APIError", Status: e.HTTPStatusCode, Code: fmt.Sprint(e.Code),
					Message: e.Message}
				if e.Param != nil {
					d.out.Error.Param = *e.Param
				}
			}
		}
		return d.out
	}
}

// withHeaders sends headers that the SDK gives its users no way to send.
type withHeaders map[string]string

func (h withHeaders) Do(r *http.Request) (*http.Response, error) {
	for name, value := range h {
		r.Header.Set(name, value)
	}
	return http.DefaultClient.Do(r)
}

// gopherDriver carries out one order.
type gopherDriver struct {
	client *gopenai.Client
	o      order
	out    result
	left   bool
}

func (d *gopherDriver) carryOut(ctx context.Context) error {
	return map[string]func(context.Context) error{
		"chat": d.chat, "stream": d.stream, "models": d.models, "complete": d.complete, "complete_stream": d.completeStream,
		"embed": d.embed, "image": d.image, "transcribe": d.transcribe,
	}[d.o.Op](ctx)
}

func (d *gopherDriver) request() (r gopenai.ChatCompletionRequest, err error) {
	r = gopenai.ChatCompletionRequest{
		Model:     d.o.Model,
		MaxTokens: d.o.MaxTokens, //nolint:staticcheck // deprecated, and what most of its users send
		Messages:  []gopenai.ChatCompletionMessage{{Role: gopenai.ChatMessageRoleUser, Content: d.o.Prompt}},
	}
	d.o.ofGopher(&r)
	if d.o.Usage {
		r.StreamOptions = &gopenai.StreamOptions{IncludeUsage: true}
	}
	if d.o.Tool != nil {
		var f gopenai.FunctionDefinition
		err = json.Unmarshal(d.o.Tool, &f)
		r.Tools = []gopenai.Tool{{Type: gopenai.ToolTypeFunction, Function: &f}}
	}
	if d.o.Format != nil {
		err = json.Unmarshal(d.o.Format, &r.ResponseFormat)
	}
	return r, err
}

func (d *gopherDriver) answered(
	r gopenai.ChatCompletionRequest, said gopenai.ChatCompletionMessage,
) gopenai.ChatCompletionRequest {
	r.Messages = append(r.Messages, said, gopenai.ChatCompletionMessage{
		Role: gopenai.ChatMessageRoleTool, Content: d.o.Reply, ToolCallID: said.ToolCalls[0].ID,
	})
	return r
}

func (d *gopherDriver) note(u *gopenai.Usage) {
	if u != nil && u.TotalTokens != 0 {
		d.out.Usages++
		d.out.Usage = tokens{int64(u.PromptTokens), int64(u.CompletionTokens), int64(u.TotalTokens)}
	}
}

func (d *gopherDriver) called(said gopenai.ChatCompletionMessage) error {
	if len(said.ToolCalls) == 0 {
		return errors.New("no call")
	}
	d.out.Call = call{said.ToolCalls[0].Function.Name, said.ToolCalls[0].Function.Arguments}
	return nil
}

func (d *gopherDriver) chat(ctx context.Context) error {
	r, err := d.request()
	if err != nil {
		return err
	}
	got, err := d.client.CreateChatCompletion(ctx, r)
	if err == nil && d.o.Tool != nil {
		if err = d.called(got.Choices[0].Message); err == nil {
			got, err = d.client.CreateChatCompletion(ctx, d.answered(r, got.Choices[0].Message))
		}
	}
	if err != nil {
		return err
	}
	d.out.Text, d.out.Finish = got.Choices[0].Message.Content, string(got.Choices[0].FinishReason)
	d.note(&got.Usage)
	return nil
}

func (d *gopherDriver) stream(ctx context.Context) error {
	r, err := d.request()
	if err != nil {
		return err
	}
	said, err := d.read(ctx, r)
	if err == nil && d.o.Tool != nil {
		if err = d.called(said); err == nil {
			_, err = d.read(ctx, d.answered(r, said))
		}
	}
	return err
}

// read reads one stream, to its end or until it must hang up, and puts its message
// together.
func (d *gopherDriver) read(
	ctx context.Context, r gopenai.ChatCompletionRequest,
) (said gopenai.ChatCompletionMessage, err error) {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	stream, err := d.client.CreateChatCompletionStream(ctx, r)
	if err != nil {
		return said, err
	}
	defer func() { _ = stream.Close() }()
	said.Role = gopenai.ChatMessageRoleAssistant
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return said, nil
		}
		if err != nil {
			return said, err
		}
		d.out.Chunks++
		d.note(chunk.Usage)
		if len(chunk.Choices) == 0 {
			continue
		}
		choice := chunk.Choices[0]
		for _, part := range choice.Delta.ToolCalls {
			if part.ID != "" {
				said.ToolCalls = append(said.ToolCalls, part)
				continue
			}
			said.ToolCalls[len(said.ToolCalls)-1].Function.Arguments += part.Function.Arguments
		}
		if choice.FinishReason != "" {
			d.out.Finish = string(choice.FinishReason)
		}
		if choice.Delta.Content == "" {
			continue
		}
		if d.out.Text == "" {
			d.o.begun()
		}
		d.out.Text += choice.Delta.Content
		if d.o.HangUp && !d.left {
			d.left = true
			hangUp()
			d.o.gone()
		}
	}
}

func (d *gopherDriver) models(ctx context.Context) error {
	list, err := d.client.ListModels(ctx)
	if err != nil {
		return err
	}
	for _, m := range list.Models {
		if m.ID == d.o.Model {
			d.out.Text = m.ID
		}
	}
	one, err := d.client.GetModel(ctx, d.o.Model)
	if err == nil && one.ID != d.out.Text {
		err = errors.New("the list and the model differ")
	}
	return err
}
