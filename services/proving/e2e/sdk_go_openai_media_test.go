package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"

	gopenai "github.com/sashabaranov/go-openai"
)

// What go-openai has beside chat.

func (d *gopherDriver) completion() gopenai.CompletionRequest {
	return gopenai.CompletionRequest{Model: d.o.Model, Prompt: d.o.Prompt, MaxTokens: d.o.MaxTokens}
}

func (d *gopherDriver) complete(ctx context.Context) error {
	got, err := d.client.CreateCompletion(ctx, d.completion())
	if err != nil {
		return err
	}
	d.out.Text, d.out.Finish = got.Choices[0].Text, got.Choices[0].FinishReason
	d.note(got.Usage)
	return nil
}

func (d *gopherDriver) completeStream(ctx context.Context) error {
	stream, err := d.client.CreateCompletionStream(ctx, d.completion())
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		d.out.Chunks++
		d.note(chunk.Usage)
		d.out.Text += chunk.Choices[0].Text
		if reason := chunk.Choices[0].FinishReason; reason != "" {
			d.out.Finish = reason
		}
	}
}

func (d *gopherDriver) embed(ctx context.Context) error {
	got, err := d.client.CreateEmbeddings(ctx, gopenai.EmbeddingRequest{Model: gopenai.EmbeddingModel(d.o.Model),
		Input: []string{d.o.Prompt, d.o.Reply}})
	if err != nil {
		return err
	}
	for _, data := range got.Data {
		d.out.Vectors = append(d.out.Vectors, data.Embedding)
	}
	return nil
}

func (d *gopherDriver) image(ctx context.Context) error {
	got, err := d.client.CreateImage(ctx, gopenai.ImageRequest{Model: d.o.Model, Prompt: d.o.Prompt, N: 2,
		ResponseFormat: d.o.Form})
	if err != nil {
		return err
	}
	for _, image := range got.Data {
		d.out.Images = append(d.out.Images, image.URL+image.B64JSON)
	}
	return nil
}

func (d *gopherDriver) transcribe(ctx context.Context) error {
	got, err := d.client.CreateTranscription(ctx, gopenai.AudioRequest{
		Model: d.o.Model, FilePath: "speech.wav", Reader: bytes.NewReader(d.o.Audio),
		Format: gopenai.AudioResponseFormat(d.o.Form),
	})
	if err != nil {
		return err
	}
	d.out.Text, d.out.Seconds = got.Text, got.Duration
	return nil
}
