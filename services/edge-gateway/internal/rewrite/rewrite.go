// Package rewrite turns the answers of engines into the answers that clients read: bytes
// in, bytes out. It writes to nobody and knows no connection, so each form is tested with
// bytes alone.
//
// A Form is the answer of one attempt: a chat completion, a text completion made of a
// chat completion, vectors, images, or a transcript. A form adds what clients require and
// engines leave out, and takes nothing of an engine's own away. The usage that a form
// shows is the usage that is billed. So the usage in a stream waits in the form until the
// billed usage is known.
//
// Merge makes one answer of the answers to several prompts. Package openaiapi reads and
// changes the bodies of requests, in one pass.
package rewrite

import "time"

// New makes the form of one attempt's answer.
func New(s *Spec, now func() time.Time) Form {
	switch s.Kind {
	case Embeddings:
		return &embeddings{base64: s.Base64, model: s.Model}
	case Images:
		return &images{now: now, withCost: s.ShowCost}
	case Transcript:
		return &transcript{text: s.Text, verbose: s.Verbose, contentType: s.ContentType}
	default:
		return newChat(s, now())
	}
}
