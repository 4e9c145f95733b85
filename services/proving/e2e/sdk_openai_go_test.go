package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"svc.internal/services/proving/internal/trial"
)

// officialGo is the official SDK for Go: one client, as its users make, for all
// orders.
func officialGo(*testing.T) func(t *testing.T, o order) result {
	client := openai.NewClient()
	return func(t *testing.T, o order) result {
		ctx, cancel := context.WithTimeout(t.Context(), trial.Patience)
		defer cancel()
		options := []option.RequestOption{option.WithBaseURL(o.Base + "/v1"), option.WithAPIKey(o.Key)}
		if o.Retries >= 0 {
			options = append(options, option.WithMaxRetries(o.Retries))
		}
		for name, value := range o.Headers {
			options = append(options, option.WithHeader(name, value))
		}
		d := goDriver{client: client, options: options, o: o}
		if err := d.carryOut(ctx); err != nil && !d.left {
			d.out.Error = &raised{Class: fmt.Sprintf("%T", err), Message: err.Error()}
			var e *openai.Error
			if errors.As(err, &e) {
				d.out.Error = &raised{Class: "openai.Error", Status: e.StatusCode, Code: e.Code, Param: e.Param, Message: e.Message}
				if e.Response != nil {
					d.out.Error.ID = e.Response.Header.Get("X-Request-Id")
				}
			}
		}
		return d.out
	}
}

// goDriver carries out one order.
type goDriver struct {
	client  openai.Client
	options []option.RequestOption
	o       order
	out     result
	left    bool
}

func (d *goDriver) carryOut(ctx context.Context) error {
	return map[string]func(context.Context) error{
		"chat": d.chat, "stream": d.stream, "models": d.models, "complete": d.complete, "complete_stream": d.completeStream,
		"embed": d.embed,
		"image": d.image, "image_stream": d.imageStream, "transcribe": d.transcribe, "transcribe_stream": d.transcribeStream,
	}[d.o.Op](ctx)
}

func (d *goDriver) params() (p openai.ChatCompletionNewParams, err error) {
	p = openai.ChatCompletionNewParams{
		Model: d.o.Model, MaxTokens: openai.Int(int64(d.o.MaxTokens)),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(d.o.Prompt)},
	}
	d.o.ofOfficial(&p)
	if d.o.Usage {
		p.StreamOptions.IncludeUsage = openai.Bool(true)
	}
	if d.o.Tool != nil {
		var f shared.FunctionDefinitionParam
		err = json.Unmarshal(d.o.Tool, &f)
		p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(f)}
	}
	if d.o.Format != nil {
		err = json.Unmarshal(d.o.Format, &p.ResponseFormat)
	}
	return p, err
}

// answered is the conversation with the answer to the model's call.
func answered(
	p openai.ChatCompletionNewParams, said openai.ChatCompletionMessage, reply string,
) openai.ChatCompletionNewParams {
	p.Messages = append(p.Messages, said.ToParam(), openai.ToolMessage(reply, said.ToolCalls[0].ID))
	return p
}

func (d *goDriver) note(u openai.CompletionUsage) {
	if u.TotalTokens != 0 {
		d.out.Usages++
		d.out.Usage = tokens{u.PromptTokens, u.CompletionTokens, u.TotalTokens}
	}
}

func (d *goDriver) called(calls []openai.ChatCompletionMessageToolCallUnion) error {
	if len(calls) == 0 {
		return errors.New("no call")
	}
	d.out.Call = call{calls[0].Function.Name, calls[0].Function.Arguments}
	return nil
}

func (d *goDriver) chat(ctx context.Context) error {
	p, err := d.params()
	if err != nil {
		return err
	}
	var raw *http.Response
	options := append(d.options, option.WithResponseInto(&raw))
	got, err := d.client.Chat.Completions.New(ctx, p, options...)
	if err == nil && d.o.Tool != nil {
		if err = d.called(got.Choices[0].Message.ToolCalls); err == nil {
			got, err = d.client.Chat.Completions.New(ctx, answered(p, got.Choices[0].Message, d.o.Reply), options...)
		}
	}
	if err != nil {
		return err
	}
	d.out.Text, d.out.Finish, d.out.ID = got.Choices[0].Message.Content, got.Choices[0].FinishReason,
		raw.Header.Get("X-Request-Id")
	d.note(got.Usage)
	return nil
}

func (d *goDriver) stream(ctx context.Context) error {
	p, err := d.params()
	if err != nil {
		return err
	}
	said, err := d.read(ctx, p)
	if err == nil && d.o.Tool != nil {
		if err = d.called(said.ToolCalls); err == nil {
			_, err = d.read(ctx, answered(p, said, d.o.Reply))
		}
	}
	return err
}

// read reads one stream, to its end or until it must hang up.
func (d *goDriver) read(ctx context.Context, p openai.ChatCompletionNewParams) (openai.ChatCompletionMessage, error) {
	ctx, hangUp := context.WithCancel(ctx)
	defer hangUp()
	var raw *http.Response
	stream := d.client.Chat.Completions.NewStreaming(ctx, p, append(d.options, option.WithResponseInto(&raw))...)
	defer func() { _ = stream.Close() }()
	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		chunk := stream.Current()
		d.out.Chunks++
		d.note(chunk.Usage)
		if !whole.AddChunk(chunk) {
			return openai.ChatCompletionMessage{}, fmt.Errorf("a chunk does not belong: %s", chunk.RawJSON())
		}
		if len(chunk.Choices) == 0 || chunk.Choices[0].Delta.Content == "" {
			continue
		}
		if d.out.Text == "" {
			d.o.begun()
		}
		d.out.Text += chunk.Choices[0].Delta.Content
		if d.o.HangUp && !d.left {
			d.left = true
			hangUp()
			d.o.gone()
		}
	}
	if err := stream.Err(); err != nil {
		return openai.ChatCompletionMessage{}, err
	}
	d.out.Finish, d.out.ID = whole.Choices[0].FinishReason, raw.Header.Get("X-Request-Id")
	return whole.Choices[0].Message, nil
}

func (d *goDriver) models(ctx context.Context) error {
	page, err := d.client.Models.List(ctx, d.options...)
	if err != nil {
		return err
	}
	for _, m := range page.Data {
		if m.ID == d.o.Model {
			d.out.Text = m.ID
		}
	}
	one, err := d.client.Models.Get(ctx, d.o.Model, d.options...)
	if err == nil && one.ID != d.out.Text {
		err = errors.New("the list and the model differ")
	}
	return err
}
