// Package rewrite turns what engines answer into what clients read: bytes in, bytes out.
package rewrite

// Kind is what a client asked for, and so the form of its answer.
type Kind uint8

// The kinds of answers. A completion is a text completion, made of a chat completion.
const (
	Chat Kind = iota
	Completion
	Embeddings
	Images
	Transcript
)

// Spec is what the client asked for, as far as its answer shows it.
type Spec struct {
	Kind Kind
	// RequestID names a completion whose engine names none, and Model a model.
	RequestID, Model string
	Stream           bool
	// ShowUsage and ShowCost are what the client wants to see.
	ShowUsage, ShowCost bool
	// Choices is how many answers are asked for.
	Choices int
	// Base64 reports that vectors are wanted as base64 and not as numbers.
	Base64 bool
	// Text reports that a transcript is wanted as text, which has ContentType.
	Text        bool
	ContentType string
	// Verbose reports that a transcript tells its task and its duration.
	Verbose bool
}

// Event is one event of a stream; Name may be empty.
type Event struct {
	Name string
	JSON []byte
}

// Form is what the answer of one attempt is for the client: what is added, what waits until it is known
// what is billed, and how a stream ends. Nothing of an engine's own is taken away.
type Form interface {
	// Fits reports whether an answer, or an event of one, may be shown to the client.
	Fits(event []byte) bool
	// Accept looks at a whole answer before anybody is committed to it, and may convert it; false when no
	// client could read it.
	Accept(body []byte) (out []byte, ok bool)
	// Whole is the body of an accepted answer, and its content type.
	Whole(body []byte, billed Usage) (contentType string, out []byte)
	// Event appends what becomes of an event of a stream now.
	Event(dst []Event, e Event) []Event
	// Cut appends what waited: the stream ends with an error.
	Cut(dst []Event) []Event
	// End appends what waited: the stream was served to its end.
	End(dst []Event, billed Usage) []Event
}

// Usage is what an answer says of its usage: what is billed.
type Usage struct {
	Prompt, Completion int64
	Cost               string // empty to leave it out
}
