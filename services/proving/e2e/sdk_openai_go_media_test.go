package e2e

import (
	"bytes"
	"context"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// What the official SDK for Go has beside chat.

func (d *goDriver) completion() openai.CompletionNewParams {
	return openai.CompletionNewParams{
		Model: openai.CompletionNewParamsModel(d.o.Model), MaxTokens: openai.Int(int64(d.o.MaxTokens)),
		Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String(d.o.Prompt)},
	}
}

func (d *goDriver) complete(ctx context.Context) error {
	got, err := d.client.Completions.New(ctx, d.completion(), d.options...)
	if err != nil {
		return err
	}
	d.out.Text, d.out.Finish = got.Choices[0].Text, string(got.Choices[0].FinishReason)
	d.note(got.Usage)
	return nil
}

func (d *goDriver) completeStream(ctx context.Context) error {
	stream := d.client.Completions.NewStreaming(ctx, d.completion(), d.options...)
	defer func() { _ = stream.Close() }()
	for stream.Next() {
		chunk := stream.Current()
		d.out.Chunks++
		d.note(chunk.Usage)
		d.out.Text += chunk.Choices[0].Text
		if reason := chunk.Choices[0].FinishReason; reason != "" {
			d.out.Finish = string(reason)
		}
	}
	return stream.Err()
}

func (d *goDriver) embed(ctx context.Context) error {
	got, err := d.client.Embeddings.New(ctx, openai.EmbeddingNewParams{
		Model: d.o.Model, Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{d.o.Prompt, d.o.Reply}},
	}, d.options...)
	if err != nil {
		return err
	}
	for _, data := range got.Data {
		var vector []float32
		for _, x := range data.Embedding {
			vector = append(vector, float32(x))
		}
		d.out.Vectors = append(d.out.Vectors, vector)
	}
	return nil
}

func (d *goDriver) image(ctx context.Context) error {
	got, err := d.client.Images.Generate(ctx, openai.ImageGenerateParams{
		Model: d.o.Model, Prompt: d.o.Prompt, N: openai.Int(2),
		ResponseFormat: openai.ImageGenerateParamsResponseFormat(d.o.Form),
	}, d.options...)
	if err != nil {
		return err
	}
	for _, image := range got.Data {
		d.out.Images = append(d.out.Images, image.URL+image.B64JSON)
	}
	return nil
}

func (d *goDriver) imageStream(ctx context.Context) error {
	stream := d.client.Images.GenerateStreaming(ctx, openai.ImageGenerateParams{Model: d.o.Model, Prompt: d.o.Prompt,
		PartialImages: openai.Int(1)}, d.options...)
	defer func() { _ = stream.Close() }()
	for stream.Next() {
		d.out.Chunks++
		if event := stream.Current(); event.Type == "image_generation.completed" {
			d.out.Images = append(d.out.Images, event.B64JSON)
		}
	}
	return stream.Err()
}

func (d *goDriver) speech() openai.AudioTranscriptionNewParams {
	return openai.AudioTranscriptionNewParams{
		Model: d.o.Model, File: openai.File(bytes.NewReader(d.o.Audio), "speech.wav", "audio/wav"),
		ResponseFormat: openai.AudioResponseFormat(d.o.Form),
	}
}

func (d *goDriver) transcribe(ctx context.Context) error {
	if d.o.Form == "text" {
		// Its own result is for JSON alone.
		_, err := d.client.Audio.Transcriptions.New(ctx, d.speech(),
			append(d.options, option.WithResponseBodyInto(&d.out.Text))...)
		return err
	}
	got, err := d.client.Audio.Transcriptions.New(ctx, d.speech(), d.options...)
	if err != nil {
		return err
	}
	d.out.Text, d.out.Seconds = got.Text, got.Duration
	return nil
}

func (d *goDriver) transcribeStream(ctx context.Context) error {
	stream := d.client.Audio.Transcriptions.NewStreaming(ctx, d.speech(), d.options...)
	defer func() { _ = stream.Close() }()
	for stream.Next() {
		d.out.Chunks++
		switch event := stream.Current(); event.Type {
		case "transcript.text.delta":
			d.out.Text += event.Delta
		case "transcript.text.done":
			d.out.Finish = event.Text
		}
	}
	return stream.Err()
}
