package fakeengine

import (
	"encoding/base64"
	"fmt"
	"net/http"

	"svc.internal/pkg/openai"
)

// maxDrawn bounds the images of a request, and the partial images of an image.
const maxDrawn = 128

// pixel is a PNG of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="

// imageData is one image of an answer.
type imageData struct {
	URL    string `json:"url,omitempty"`
	Base64 string `json:"b64_json,omitempty"`
}

// imageEvent is one event of a stream of images.
type imageEvent struct {
	Type    string `json:"type"`
	Base64  string `json:"b64_json"`
	Index   *int   `json:"partial_image_index,omitempty"`
	Created int64  `json:"created_at"`
}

// imageUsage is the usage that engines report for images. Nobody is billed by its tokens.
const imageUsage = `{"input_tokens":7,"output_tokens":1000,"total_tokens":1007}`

// draw answers with images.
func (a *answer) draw() {
	if a.BeforeFirstToken != nil && !a.wait(a.BeforeFirstToken) {
		return
	}
	n := min(a.counted(max(a.request.media.N, 1)), maxDrawn)
	if a.request.Stream {
		a.drawStream(n)
		return
	}
	format := a.request.media.ResponseFormat
	data := make([]imageData, n)
	for i := range data {
		if format == "b64_json" || format == "" && a.Base64 {
			data[i].Base64 = a.image()
			continue
		}
		data[i].URL = fmt.Sprintf("https://images.invalid/%d.png", i)
	}
	a.answerWhole(func() []byte {
		return withUsages(a.object(struct {
			Created int64       `json:"created"`
			Data    []imageData `json:"data"`
		}{created, data}), a.Usage)
	})
}

// image is the content of an image in base64.
func (a *answer) image() string {
	if a.Image == nil {
		return pixel
	}
	return base64.StdEncoding.EncodeToString(a.Image)
}

// drawStream streams the images one after the other, each behind its partial images.
func (a *answer) drawStream(n int) {
	a.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	a.w.WriteHeader(http.StatusOK)
	partials := a.Partials
	if a.request.media.PartialImages != nil {
		partials = *a.request.media.PartialImages
	}
	if a.End != EndNormal && a.EndAfter > 0 {
		n = min(n, a.EndAfter)
	}
	usages := a.Usage
	if usages == nil {
		usages = []string{imageUsage}
	}
	for i := range n {
		for p := range min(partials, maxDrawn) {
			a.named(openai.EventImagePartial, a.object(imageEvent{Type: openai.EventImagePartial, Base64: a.image(), Index: &p,
				Created: created}))
		}
		if a.BeforeToken != nil && !a.wait(a.BeforeToken) || a.gone() {
			return
		}
		if a.End == EndNoFinish {
			continue // partial images only
		}
		if i == n-1 && a.End == EndNormal {
			a.complete()
		}
		a.named(openai.EventImageCompleted,
			withUsages(a.object(imageEvent{Type: openai.EventImageCompleted, Base64: a.image(), Created: created}), usages))
	}
	if a.End == EndEndless {
		a.wait(nil)
		return
	}
	if !a.brokenOff() {
		a.complete()
	}
}

// named sends an event that has a name.
func (a *answer) named(name string, data []byte) {
	a.write(openai.AppendEvent([]byte("event: "+name+"\n"), data))
}
