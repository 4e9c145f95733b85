package rewrite

import (
	"bytes"

	"svc.internal/pkg/jsonscan"
)

// Kind is the kind of answer that a client asked for. It decides the form.
type Kind uint8

// The kinds of answers. A completion is a text completion, made of a chat completion.
const (
	Chat Kind = iota
	Completion
	Embeddings
	Images
	Transcript
)

// Spec is the client's request as far as its answer shows it.
type Spec struct {
	Kind Kind
	// RequestID names a completion whose engine names none, and Model a model.
	RequestID, Model string
	Stream           bool
	// ShowUsage and ShowCost say what the client wants to see.
	ShowUsage, ShowCost bool
	// Choices is how many answers are asked for.
	Choices int
	// Base64 reports whether vectors are wanted as base64 and not as numbers.
	Base64 bool
	// Text reports whether a transcript is wanted as text, whose type is ContentType.
	Text        bool
	ContentType string
	// Verbose reports whether a transcript has its task and its duration.
	Verbose bool
}

// Event is one event of a stream; Name may be empty.
type Event struct {
	Name string
	JSON []byte
}

// Form makes the client's answer of one attempt's answer: what is added, what waits until it is known what is
// billed, and how a stream ends. It takes nothing of an engine's own away.
type Form interface {
	// Fits reports whether an answer, or an event of one, may be shown to the client.
	Fits(event []byte) bool
	// Accept looks at a whole answer before its attempt is committed, and may convert it. It reports false
	// when no client could read the answer.
	Accept(body []byte) (out []byte, ok bool)
	// Whole returns the body of an accepted answer, and its content type.
	Whole(body []byte, billed Usage) (contentType string, out []byte)
	// Event appends the events that a stream's event becomes now.
	Event(dst []Event, e Event) []Event
	// Cut appends the events that waited: the stream ends with an error.
	Cut(dst []Event) []Event
	// End appends the events that waited: the stream was served to its end.
	End(dst []Event, billed Usage) []Event
}

// TypeJSON is the content type of most whole answers.
const TypeJSON = "application/json"

const (
	// MaxEvent bounds the JSON of one event, so that no line of a stream has more than 24 MiB, because some
	// clients read no longer lines.
	MaxEvent = 24<<20 - len("data: ")
	// eventRoom is more than is added to an event.
	eventRoom = 1 << 10
	// maxEventName is how long the name of an event may be.
	maxEventName = 64
)

// IsEventName reports whether a name of an event can be written: it is short and printable ASCII. An event
// with any other name is written without it.
func IsEventName(name string) bool {
	if name == "" || len(name) > maxEventName {
		return false
	}
	for i := range len(name) {
		if name[i] <= ' ' || name[i] > '~' {
			return false
		}
	}
	return true
}

// fitsAlways is embedded in forms whose events may all be shown.
type fitsAlways struct{}

func (fitsAlways) Fits([]byte) bool { return true }

// hasType reports whether an event names a type as its own.
func hasType(json []byte, wanted string) bool {
	if !bytes.Contains(json, []byte(wanted)) {
		return false // which is cheaper than a scan
	}
	for m, err := range jsonscan.New(json, jsonscan.Options{}).Members() {
		if err != nil {
			return false
		}
		if string(m.Key.Name(json)) == "type" {
			return jsonscan.StringIs(m.Value.Of(json), wanted)
		}
	}
	return false
}
