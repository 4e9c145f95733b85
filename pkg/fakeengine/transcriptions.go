package fakeengine

import (
	"fmt"
	"net/http"
	"strings"

	"svc.internal/pkg/openai"
)

// segment is a part of a verbose transcription.
type segment struct {
	ID    int     `json:"id"`
	Start float64 `json:"start"`
	End   float64 `json:"end"`
	Text  string  `json:"text"`
}

// transcribe answers with a transcription whose text is the tokens.
func (a *answer) transcribe() {
	if a.request.media.fileSize == 0 {
		a.complete()
		writeError(a.w, http.StatusBadRequest, "there is no file", "")
		return
	}
	if a.Seconds == 0 {
		a.Seconds = 1
	}
	if a.request.Stream {
		a.transcribeStream()
		return
	}
	for i := range a.Tokens {
		if !a.token(i) {
			return
		}
	}
	text := strings.Join(a.Tokens, "")
	switch a.request.media.ResponseFormat {
	case "text":
		a.plain(text + "\n")
	case "srt":
		a.plain(fmt.Sprintf("1\n00:00:00,000 --> %s\n%s\n\n", a.clock(","), text))
	case "vtt":
		a.plain(fmt.Sprintf("WEBVTT\n\n00:00:00.000 --> %s\n%s\n\n", a.clock("."), text))
	case "verbose_json":
		a.answerWhole(func() []byte {
			return withUsages(a.object(struct {
				Task     string    `json:"task"`
				Language string    `json:"language"`
				Duration float64   `json:"duration"`
				Text     string    `json:"text"`
				Segments []segment `json:"segments"`
			}{"transcribe", "english", a.Seconds, text, []segment{{End: a.Seconds, Text: text}}}), a.Usage)
		})
	default:
		a.answerWhole(func() []byte {
			return withUsages(a.object(struct {
				Text string `json:"text"`
			}{text}), a.Usage)
		})
	}
}

// clock is the time of the end of the audio, as captions write it.
func (a *answer) clock(point string) string {
	ms := int64(a.Seconds * 1000)
	return fmt.Sprintf("%02d:%02d:%02d%s%03d", ms/3_600_000, ms/60_000%60, ms/1000%60, point, ms%1000)
}

// plain answers with a plain text, and ends it as End says.
func (a *answer) plain(text string) {
	switch a.End {
	case EndError, EndHang, EndEndless, EndHugeLine:
		a.answerWhole(nil)
		return
	default:
	}
	a.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	switch a.End {
	case EndGarbage:
		a.write([]byte("\xff\xfe"))
	case EndReset:
		a.write([]byte(text[:len(text)/2]))
		a.reset()
	default:
		a.complete()
		a.write([]byte(text))
	}
}

// transcribeStream streams the text, one token in each event.
func (a *answer) transcribeStream() {
	a.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	a.w.WriteHeader(http.StatusOK)
	n := a.sent()
	for i := range n {
		if !a.token(i) {
			return
		}
		a.event(a.object(struct {
			Type  string `json:"type"`
			Delta string `json:"delta"`
		}{openai.EventTranscriptDelta, a.Tokens[i]}))
	}
	if a.End == EndEndless {
		a.wait(nil)
		return
	}
	if a.brokenOff() {
		return
	}
	if a.End == EndNoDone || a.End == EndNoFinish {
		return
	}
	a.complete()
	text, usages := strings.Join(a.Tokens[:n], ""), a.Usage
	if usages == nil {
		usages = []string{`{"type":"tokens","input_tokens":7,"output_tokens":5,"total_tokens":12}`}
	}
	a.event(withUsages(a.object(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{openai.EventTranscriptDone, text}), usages))
}
