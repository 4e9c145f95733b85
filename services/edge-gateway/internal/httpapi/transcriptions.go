package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/jsonscan"
	hubv1 "svc.internal/proto/svc/hub/v1"

	"svc.internal/services/edge-gateway/internal/admission"
	"svc.internal/services/edge-gateway/internal/audio"
	"svc.internal/services/edge-gateway/internal/idempotency"
	"svc.internal/services/edge-gateway/internal/inference"
	"svc.internal/services/edge-gateway/internal/multipartform"
	"svc.internal/services/edge-gateway/internal/openaiapi"
	"svc.internal/services/edge-gateway/internal/rewrite"
)

// formRoom is how many bytes a form may have besides its file.
const formRoom = 1 << 20

// uploaded is a transcription as the client asked for it.
type uploaded struct {
	form   multipartform.Form
	model  string
	stream bool
	answer hubv1.AnswerForm
	// verbose reports whether the answer has its duration.
	verbose bool
	// millis is how long the file plays, in milliseconds.
	millis int64
	format audio.Format
}

// transcriptions serves POST /v1/audio/transcriptions. The order of its steps is the
// public order of errors: 413, 401, 400, 404, 403, then the errors of admission. The body
// is kept while the answer is written, because it may be sent to several providers.
func (h *Handler) transcriptions(x *exchange) error {
	limit := h.cfg.MaxUpload + formRoom
	var boundary string
	in, err := h.enter(x, limit, func(header http.Header) (err error) {
		boundary, err = formBoundary(header)
		return err
	})
	if err != nil {
		return err
	}
	sent := upload{from: &h.uploads, keyID: in.who.KeyID}
	defer sent.release()
	if err := sent.read(x.request, limit); err != nil {
		return err
	}
	if in.token != "" {
		sent.fit() // it may wait for another
	}
	form, err := multipartform.Parse(sent.body, boundary)
	if err != nil {
		return err
	}
	if in.token == "" {
		return h.transcribe(x, in, form, &sent)
	}
	ask := idempotency.Ask{Token: in.token, Holds: sent.reserved, Upload: true}
	return h.once(x, in.who, ask, sent.body, func() error {
		mine := form
		form = nil // its memory goes when what is sent on has been built
		return h.transcribe(x, in, mine, &sent)
	})
}

// formBoundary reads the headers that describe a form.
func formBoundary(header http.Header) (string, error) {
	if err := checkEncoding(header); err != nil {
		return "", err
	}
	kinds := header.Values("Content-Type")
	if len(kinds) != 1 {
		return multipartform.Boundary("")
	}
	return multipartform.Boundary(kinds[0])
}

// transcribe serves a form. The body that is sent takes its place.
func (h *Handler) transcribe(x *exchange, in entered, form multipartform.Form, sent *upload) error {
	asked, err := h.readForm(form)
	x.category = h.category(asked.model)
	if err != nil {
		return err
	}
	model, err := h.findModel(asked.model, hubv1.Endpoint_ENDPOINT_TRANSCRIPTIONS)
	if err != nil {
		return err
	}
	if err := mayUse(in.who, model); err != nil {
		return err
	}
	setDeprecation(x.Header(), model.DeprecatedAt)
	x.model, x.stream = model.ID, asked.stream
	x.facts = append(x.facts, slog.String("model", model.ID), slog.Bool("stream", asked.stream),
		slog.String("audio_format", string(asked.format)), slog.Int64("audio_ms", asked.millis))
	// Nobody knows the request's id before it is answered.
	own := "svc-" + x.id
	body, at, err := form.Build(own, model.ID)
	if err != nil {
		return err
	}
	if limit := h.cfg.MaxUpload + formRoom; int64(len(body)) > limit {
		return tooLarge(limit) // a hub takes no more either
	}
	sent.body = body
	need := []string{"transcriptions"}
	if asked.stream {
		need = append(need, "stream")
	}
	bounds := admission.AudioBounds(asked.millis)
	return h.run(x, &inference.Request{
		Prompt: inference.Prompt{
			ID:     x.id,
			Sent:   openaiapi.Sent{Body: body, Model: jsonscan.Span{Start: at.Start, End: at.Start + at.Length}},
			Bounds: bounds,
		},
		ReceivedAt:  x.started,
		KeyID:       in.who.KeyID,
		AccountTag:  in.who.AccountTag,
		Priority:    in.who.Priority,
		Claim:       x.claim,
		Models:      []inference.Model{{Model: model, Bounds: bounds}},
		Endpoint:    hubv1.Endpoint_ENDPOINT_TRANSCRIPTIONS,
		AnswerForm:  asked.answer,
		ContentType: multipartform.ContentType(own),
		Answer: rewrite.Spec{
			Kind:        rewrite.Transcript,
			Stream:      asked.stream,
			Choices:     1,
			Text:        asked.answer == hubv1.AnswerForm_ANSWER_FORM_TEXT,
			ContentType: "text/plain; charset=utf-8",
			Verbose:     asked.verbose,
		},
		Capabilities: need,
		Pin:          in.pin,
		PromptParam:  "file",
	})
}

// readForm checks the fields that the gateway acts on and measures the file. All other
// fields are the engine's.
func (h *Handler) readForm(form multipartform.Form) (a uploaded, err error) {
	a.form = form
	model, ok, err := a.form.Text("model")
	switch {
	case err != nil:
		return a, err
	case !ok:
		return a, missing("model")
	case model == "":
		return a, fault.New(fault.Invalid, fault.InvalidValue, "model must not be empty.").On("model")
	}
	a.model = model
	if err := a.readAnswer(); err != nil {
		return a, err
	}
	if err := notInForms(a.form); err != nil {
		return a, err
	}
	file, err := a.form.Find("file")
	switch {
	case err != nil:
		return a, err
	case file == nil:
		return a, missing("file")
	case !file.File:
		return a, fault.New(fault.Invalid, fault.InvalidValue, "file must be a file, with a file name.").On("file")
	case int64(len(file.Body)) > h.cfg.MaxUpload:
		return a, fault.New(fault.Invalid, fault.RequestTooLarge,
			"The file has more than %d bytes.", h.cfg.MaxUpload).On("file")
	}
	a.millis, a.format, err = audio.Measure(file.Body)
	if err != nil {
		return a, unplayable(err)
	}
	return a, nil
}

func missing(param string) error {
	return fault.New(fault.Invalid, multipartform.MissingRequiredParameter, "%s is required.", param).On(param)
}

// unplayable returns why a file cannot be measured. The client may mend it.
func unplayable(err error) error {
	for _, known := range []error{audio.ErrJunk, audio.ErrFormat, audio.ErrNothing, audio.ErrTooLong} {
		if errors.Is(err, known) {
			text := known.Error()
			return fault.New(fault.Invalid, fault.InvalidValue, "%s.", strings.ToUpper(text[:1])+text[1:]).On("file")
		}
	}
	return err
}

// answerForms are the values of response_format. A stream has events whatever the form of
// its text. Subtitles cannot be streamed, because they have an end of line of their own.
var answerForms = map[string]hubv1.AnswerForm{
	"json":          hubv1.AnswerForm_ANSWER_FORM_JSON,
	"verbose_json":  hubv1.AnswerForm_ANSWER_FORM_JSON,
	"diarized_json": hubv1.AnswerForm_ANSWER_FORM_JSON,
	"text":          hubv1.AnswerForm_ANSWER_FORM_TEXT,
	"srt":           hubv1.AnswerForm_ANSWER_FORM_TEXT,
	"vtt":           hubv1.AnswerForm_ANSWER_FORM_TEXT,
}

// readAnswer reads how the answer is wanted.
func (a *uploaded) readAnswer() error {
	format, given, err := a.form.Text("response_format")
	if err != nil {
		return err
	}
	if !given {
		format = "json"
	}
	form, known := answerForms[format]
	if !known {
		return fault.New(fault.Invalid, fault.InvalidValue,
			"response_format must be json, text, srt, verbose_json, vtt or diarized_json.").On("response_format")
	}
	a.answer, a.verbose = form, format == "verbose_json" || format == "diarized_json"
	stream, given, err := a.form.Text("stream")
	if err != nil {
		return err
	}
	switch {
	case !given || strings.EqualFold(stream, "false"):
		return nil
	case !strings.EqualFold(stream, "true"):
		return fault.New(fault.Invalid, fault.InvalidValue, "stream must be true or false.").On("stream")
	case format == "srt" || format == "vtt":
		return fault.New(fault.Invalid, fault.InvalidValue,
			"response_format %s cannot be streamed.", format).On("response_format")
	}
	a.stream, a.answer = true, hubv1.AnswerForm_ANSWER_FORM_JSON
	return nil
}

// notInForms refuses fields that route a request, because they would be ignored here, and
// a wish for a provider must not be ignored.
func notInForms(form multipartform.Form) error {
	for _, p := range form {
		name, _, _ := strings.Cut(strings.ToLower(p.Name), "[")
		if name == "provider" || name == "models" {
			return fault.New(fault.Invalid, fault.InvalidValue,
				"%s cannot be sent in a form. Use the header %s.", name, admission.ProviderHeader).On(name)
		}
	}
	return nil
}
