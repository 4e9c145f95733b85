package openai

import (
	"bytes"
	"encoding/base64"
	"io"
	"strconv"

	"svc.internal/pkg/jsonscan"
)

// The types of events in streams other than chat's.
const (
	EventImagePartial      = "image_generation.partial_image"
	EventImageCompleted    = "image_generation.completed"
	EventTranscriptDelta   = "transcript.text.delta"
	EventTranscriptSegment = "transcript.text.segment"
	EventTranscriptDone    = "transcript.text.done"
)

// media is what a scan looks for where there are no choices.
type media uint8

const (
	noMedia     media = iota
	vectors           // data of vectors
	images            // data of images
	transcripts       // text
	typedEvents       // an event that names its type
)

// ScanEmbeddings reads a whole answer of embeddings. Items counts the entries
// of data with a vector that clients can read: an array of numbers, or the
// base64 of numbers, of 32 bits each; ContentBytes is the length of all vectors
// as they are written.
func ScanEmbeddings(json []byte) (Chunk, error) {
	s := scan{data: json, media: vectors}
	s.out.named = true
	return s.run()
}

// ScanImages reads a whole answer of images. Items counts the entries of data
// with a url or a b64_json that is not empty, ContentBytes is their length.
func ScanImages(json []byte) (Chunk, error) {
	s := scan{data: json, media: images}
	return s.run()
}

// ScanTranscription reads a whole transcription that is JSON. ContentBytes is
// the length of its text.
func ScanTranscription(json []byte) (Chunk, error) {
	s := scan{data: json, media: transcripts}
	return s.run()
}

// ScanEvent reads one event of a stream of images or of a transcription. Items
// is 1 when it holds an image; ContentBytes counts that, or the text.
func ScanEvent(json []byte) (Chunk, error) {
	s := scan{data: json, media: typedEvents}
	return s.run()
}

// dataItem consumes one entry of data.
func (s *scan) dataItem(c *jsonscan.Cursor) {
	if s.media != vectors && s.media != images || c.Kind() != jsonscan.Object {
		c.Skip()
		return
	}
	var met seen
	holds := false
	c.Enter()
	for {
		key, ok := c.NextMember()
		if !ok {
			break
		}
		name := string(key.Name(s.data))
		switch {
		case s.media == vectors && name == "embedding":
			s.once(&met, seenContent)
			holds = s.vector(c) || holds
		case s.media == images && name == "b64_json":
			s.once(&met, seenContent)
			holds = s.payload(c) || holds
		case s.media == images && name == "url":
			s.once(&met, seenText)
			holds = s.payload(c) || holds
		default:
			c.Skip()
		}
	}
	if holds {
		s.out.Items++
		s.out.HasContent = true
	}
}

// vector consumes a value and reports whether it is a vector: numbers that fit
// float32, or the base64 of such.
func (s *scan) vector(c *jsonscan.Cursor) bool {
	if c.Kind() != jsonscan.Array {
		start := c.Pos()
		return s.payload(c) && packed(s.data[start:c.Pos()])
	}
	start, n, numbers := c.Pos(), 0, true
	for c.Enter(); c.NextElement(); n++ {
		number := c.Kind() == jsonscan.Number
		span := c.Skip()
		numbers = numbers && number && fits(span.Of(s.data))
	}
	if n == 0 || !numbers {
		return false
	}
	s.out.ContentBytes += int64(c.Pos() - start)
	return true
}

// fits reports whether a number is finite as a float32.
func fits(number []byte) bool {
	// A number without an exponent that is below 1e38 needs no closer look.
	if len(number) <= 38 && bytes.IndexByte(number, 'e') < 0 && bytes.IndexByte(number, 'E') < 0 {
		return true
	}
	_, err := strconv.ParseFloat(string(number), 32)
	return err == nil
}

// packed reports whether a raw JSON string is the base64 of numbers of 4 bytes
// each.
func packed(raw []byte) bool {
	text := raw[1 : len(raw)-1]
	if bytes.IndexByte(text, '\\') >= 0 { // some write / as \/
		var err error
		if text, err = jsonscan.AppendDecoded(nil, raw); err != nil {
			return false
		}
	}
	n, err := io.Copy(io.Discard, base64.NewDecoder(base64.StdEncoding, bytes.NewReader(text)))
	return err == nil && n > 0 && n%4 == 0
}

// payload consumes a value and counts it when it is a string that is not empty. It
// reports whether it was.
func (s *scan) payload(c *jsonscan.Cursor) bool {
	kind := c.Kind()
	span := c.Skip()
	if kind != jsonscan.String || span.Len() <= 2 {
		return false
	}
	s.out.ContentBytes += int64(jsonscan.DecodedLen(span.Of(s.data)))
	return true
}

// mediaMember consumes a top-level member of a transcription or an event.
func (s *scan) mediaMember(c *jsonscan.Cursor, name []byte, kind jsonscan.Kind, met *seen) {
	if s.media == transcripts && string(name) != "text" {
		c.Skip()
		return
	}
	switch string(name) {
	case "type":
		s.once(met, seenIndex)
		if span := c.Skip(); kind == jsonscan.String {
			s.out.Type = span
		}
	case "text":
		s.once(met, seenText)
		start := c.Pos()
		s.out.HasContent = s.payload(c) || s.out.HasContent
		if kind == jsonscan.String {
			s.out.Text = jsonscan.Span{Start: start, End: c.Pos()}
		}
	case "delta":
		s.once(met, seenBody)
		s.out.HasContent = s.payload(c) || s.out.HasContent
	case "b64_json", "url":
		bit := seenContent
		if string(name) == "url" {
			bit = seenURL
		}
		s.once(met, bit)
		if s.payload(c) {
			s.out.Items, s.out.HasContent = 1, true
		}
	default:
		c.Skip()
	}
}
