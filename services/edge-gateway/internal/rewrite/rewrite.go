// Package rewrite turns what engines answer into what clients read: bytes in, bytes out. It writes to nobody
// and knows no connection, so each form is tested with bytes alone.
//
// A Form is the answer of one attempt: a chat completion, a text completion made of one, vectors, images, or
// a transcript. A form adds what clients require and engines leave out, and takes nothing of an engine's own
// away. The usage that it shows is what is billed. What a stream tells of its usage therefore waits in the
// form until it is known what is billed.
//
// Merge makes one answer of the answers to several prompts. What requests say is read and changed by
// openaiapi, in one pass.
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
