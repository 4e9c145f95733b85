package dispatch

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"svc.internal/pkg/jsonscan"
	"svc.internal/pkg/openai"
	"svc.internal/services/provider-hub/internal/meter"
)

// reader knows the answers of one kind of request: which of their parts are content, what
// a proper end is, what is counted, and what must be restored. Sessions, the journal and
// events treat all kinds alike. A reader serves one attempt.
//
// An answer is served when, of chat, every choice may end and at least one has a
// finish_reason; of embeddings, each input has exactly one vector, which is numbers that
// fit float32 or the base64 of such numbers; of images, there is at least one image, and
// a stream ends with the last image that was asked for, or with the engine's own end
// behind at least one; of transcriptions, text is there, or any UTF-8 where text was
// asked for, and a stream ends with transcript.text.done. Order.Check has the bounds of
// bodies. Config.MaxAnswer and Config.MaxImages are the bounds of answers.
type reader interface {
	// event takes an event of a stream that is neither [DONE] nor named error. An error
	// of event breaks the stream.
	event(e openai.Event) (reading, error)
	// whole takes an answer that was not streamed.
	whole(body []byte) (reading, error)
	// restored appends the last event or answer as the caller sees it.
	restored(dst, json []byte) []byte
	// named is where the last event or answer names its model, if it does.
	named() jsonscan.Span
	// untouched reports whether restored would change nothing.
	untouched() bool
	// delivered counts what was read so far, in the kind's unit and in bytes.
	delivered() (count, bytes int64)
	// least is how many tokens were read so far for certain, and plausible how many an
	// honest engine may count on average; 0 where nothing is counted in tokens.
	least() int64
	plausible() int64
	// finished has a bit for each choice below 64 that has ended. stopped reports whether
	// the last of them ended by a stop of the request or of the model.
	finished() uint64
	stopped() bool
	// lacks says why a stream that ends now is not complete; empty for a complete stream.
	lacks() string
	// claim is the engine's own usage. distrust makes it worth nothing.
	claim() openai.Usage
	distrust()
}

// reading is what an event or a whole answer means.
type reading struct {
	// content reports that a caller waits for it.
	content bool
	// skip reports that it is not for the caller.
	skip bool
	// refusal reports that it is an error object.
	refusal bool
	// last reports that it ends the stream properly.
	last bool
	// name is the name of the event, where callers go by names.
	name string
	// lack says why a whole answer is not valid; empty for a valid one.
	lack string
}

// noContent is the failure of a stream that ends with nothing to show.
const noContent = "the engine's answer is empty"

func newReader(o *Order) reader {
	switch o.Kind {
	case meter.Embeddings:
		return &embeddingReader{single: single{rewrite: openai.NewRewrite(o.Model, false)}, inputs: o.Inputs}
	case meter.Images:
		return &imageReader{single: single{rewrite: openai.NewRewrite(o.Model, false)}, asked: o.Choices}
	case meter.Transcriptions:
		return &transcriptReader{single: single{rewrite: openai.NewRewrite(o.Model, false)}, text: o.Text}
	case meter.Chat:
	}
	return &chatReader{
		rewrite: openai.NewRewrite(o.Model, o.Stream && !o.IncludeUsage), usage: o.IncludeUsage, choices: o.Choices,
	}
}

// chatReader reads chat completions.
type chatReader struct {
	rewrite openai.Rewrite
	tally   openai.Tally
	chunk   openai.Chunk // what was read last
	usage   bool         // the consumer asked for it
	choices int64
	stop    bool // the last finish_reason is stop
}

func (r *chatReader) event(e openai.Event) (reading, error) {
	var err error
	r.chunk, err = r.tally.Scan(e.Data)
	switch {
	case err != nil && r.allFinished():
		// Only usage can still come, and this usage cannot be believed.
		r.distrust()
		return reading{skip: true}, nil
	case err != nil:
		return reading{}, err
	}
	r.ended(e.Data)
	return reading{
		content: r.chunk.HasContent, refusal: r.chunk.Error.Found(), skip: !r.usage && r.chunk.UsageOnly(),
	}, nil
}

// allFinished reports whether every choice has its finish_reason.
func (r *chatReader) allFinished() bool {
	return r.tally.FinishedChoices() >= int(min(r.choices, 64))
}

func (r *chatReader) whole(body []byte) (reading, error) {
	var err error
	if r.chunk, err = openai.ScanCompletion(body); err != nil {
		return reading{}, err
	}
	r.tally.Usage, r.tally.Tokens, r.tally.ContentBytes = r.chunk.Usage, r.chunk.Tokens, r.chunk.ContentBytes
	r.tally.Least, r.tally.Plausible = r.chunk.Least, r.chunk.Plausible
	r.ended(body)
	found := reading{content: true, refusal: r.chunk.Error.Found()}
	if r.chunk.FinishCount == 0 {
		found.lack = "the engine's answer is empty or has no finish_reason"
	}
	return found, nil
}

func (r *chatReader) restored(dst, json []byte) []byte { return r.rewrite.Append(dst, json, &r.chunk) }
func (r *chatReader) named() jsonscan.Span             { return r.chunk.Model }
func (r *chatReader) untouched() bool                  { return r.rewrite.Leaves(&r.chunk) }

func (r *chatReader) delivered() (tokens, bytes int64) {
	return int64(r.tally.Tokens), r.tally.ContentBytes
}

func (r *chatReader) lacks() string {
	switch {
	case r.tally.FinishCount > 0:
		return ""
	case r.tally.ContentChunks > 0:
		return "the engine's answer ended without a finish_reason"
	}
	return noContent
}

// ended notes how the choice ended that the last JSON finishes, if it finishes one.
func (r *chatReader) ended(json []byte) {
	if reason := r.chunk.FinishReason; reason.Found() {
		r.stop = string(reason.Of(json)) == `"`+openai.FinishStop+`"`
	}
}

func (r *chatReader) least() int64        { return int64(r.tally.Least) }
func (r *chatReader) plausible() int64    { return int64(r.tally.Plausible) }
func (r *chatReader) finished() uint64    { return r.tally.Finished }
func (r *chatReader) stopped() bool       { return r.stop }
func (r *chatReader) claim() openai.Usage { return r.tally.Usage }
func (r *chatReader) distrust()           { r.tally.Usage = openai.Usage{State: openai.UsageAbsurd} }

// single is what the kinds other than chat have in common: each event stands for itself.
type single struct {
	rewrite openai.Rewrite
	chunk   openai.Chunk // what was read last
	bytes   int64
}

func (r *single) restored(dst, json []byte) []byte { return r.rewrite.Append(dst, json, &r.chunk) }
func (r *single) named() jsonscan.Span             { return r.chunk.Model }
func (r *single) untouched() bool                  { return r.rewrite.Leaves(&r.chunk) }
func (r *single) claim() openai.Usage              { return openai.Usage{} }
func (r *single) distrust()                        {}
func (r *single) least() int64                     { return 0 }
func (r *single) plausible() int64                 { return 0 }
func (r *single) finished() uint64                 { return 0 }
func (r *single) stopped() bool                    { return false }

// next takes an event.
func (r *single) next(e openai.Event) (kind string, found reading, err error) {
	if r.chunk, err = openai.ScanEvent(e.Data); err != nil {
		return "", reading{}, err
	}
	r.bytes += r.chunk.ContentBytes
	if r.chunk.Error.Found() {
		return "", reading{refusal: true}, nil
	}
	kind = string(e.Name)
	if t := r.chunk.Type; t.Found() {
		// Clients go by the type in the event, so the event's name must not give it
		// another type.
		kind = string(e.Data[t.Start+1 : t.End-1])
	}
	return kind, reading{name: eventName(e.Name)}, nil
}

// maxEventName bounds the names of events, in bytes.
const maxEventName = 64

// eventName is a name that is harmless in a line of its own; empty for any other.
func eventName(name []byte) string {
	if len(name) > maxEventName {
		return ""
	}
	for _, b := range name {
		if b <= ' ' || b > '~' {
			return ""
		}
	}
	return string(name)
}

// errNotStreamed refuses an event of a kind that has no streams.
var errNotStreamed = errors.New("embeddings are not streamed")

// embeddingReader reads vectors.
type embeddingReader struct {
	single
	inputs int64
	usage  openai.Usage
}

func (r *embeddingReader) event(openai.Event) (reading, error) { return reading{}, errNotStreamed }
func (r *embeddingReader) lacks() string                       { return noContent }
func (r *embeddingReader) delivered() (none, bytes int64)      { return 0, r.bytes }
func (r *embeddingReader) claim() openai.Usage                 { return r.usage }

func (r *embeddingReader) whole(body []byte) (reading, error) {
	var err error
	if r.chunk, err = openai.ScanEmbeddings(body); err != nil {
		return reading{}, err
	}
	r.usage, r.bytes = r.chunk.Usage, r.chunk.ContentBytes
	found := reading{content: true, refusal: r.chunk.Error.Found()}
	if n := int64(r.chunk.Items); n != r.inputs || n != int64(r.chunk.DataItems) {
		found.lack = "the engine's answer does not have one vector for each input"
	}
	return found, nil
}

// imageReader reads images.
type imageReader struct {
	single
	asked, images int64
}

func (r *imageReader) event(e openai.Event) (reading, error) {
	kind, found, err := r.next(e)
	if err != nil || found.refusal {
		return found, err
	}
	switch kind {
	case openai.EventImagePartial:
		found.name, found.content = kind, r.chunk.Items > 0
	case openai.EventImageCompleted:
		if r.chunk.Items > 0 {
			r.images++
		}
		found.name, found.content, found.last = kind, r.chunk.Items > 0, r.images >= r.asked
	}
	return found, nil
}

func (r *imageReader) whole(body []byte) (reading, error) {
	var err error
	if r.chunk, err = openai.ScanImages(body); err != nil {
		return reading{}, err
	}
	r.images, r.bytes = int64(r.chunk.Items), r.chunk.ContentBytes
	found := reading{content: true, refusal: r.chunk.Error.Found()}
	if r.images == 0 {
		found.lack = "the engine's answer holds no image"
	}
	return found, nil
}

func (r *imageReader) delivered() (images, bytes int64) { return r.images, r.bytes }

func (r *imageReader) lacks() string {
	switch {
	case r.images > 0:
		return ""
	case r.bytes > 0:
		return "the engine's answer ended without a finished image"
	}
	return noContent
}

// transcriptReader reads transcriptions.
type transcriptReader struct {
	single
	text bool // the answer is text and no JSON
	done bool
}

func (r *transcriptReader) event(e openai.Event) (reading, error) {
	kind, found, err := r.next(e)
	if err != nil || found.refusal {
		return found, err
	}
	found.content = r.chunk.HasContent
	if kind == openai.EventTranscriptDone {
		// The transcription of silence ends so too, because nothing else follows.
		r.done, found.content, found.last = true, true, true
	}
	return found, nil
}

func (r *transcriptReader) whole(body []byte) (reading, error) {
	if r.text {
		return r.plain(body)
	}
	var err error
	if r.chunk, err = openai.ScanTranscription(body); err != nil {
		return reading{}, err
	}
	r.bytes = r.chunk.ContentBytes
	found := reading{content: true, refusal: r.chunk.Error.Found()}
	if !r.chunk.Text.Found() {
		found.lack = "the engine's answer has no text"
	}
	return found, nil
}

var errNotText = errors.New("text is not valid UTF-8")

// plain takes an answer as it is, unless it is an engine's error.
func (r *transcriptReader) plain(body []byte) (reading, error) {
	if !utf8.Valid(body) {
		return reading{}, errNotText
	}
	r.bytes = int64(len(body))
	if bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		if chunk, err := openai.ScanTranscription(body); err == nil && chunk.Error.Found() {
			return reading{refusal: true}, nil
		}
	}
	return reading{content: true}, nil
}

func (r *transcriptReader) delivered() (none, bytes int64) { return 0, r.bytes }

func (r *transcriptReader) lacks() string {
	switch {
	case r.done:
		return ""
	case r.bytes > 0:
		return "the engine's transcription ended before its end"
	}
	return noContent
}
