// Package usagebundle joins usage events of a hub into one message, svc.events.v1.UsageBundle,
// and takes messages apart again. Each event keeps its own seal, so a reader judges each
// event as if it had come alone.
//
// An event that is published alone is no bundle: its message is the UsageEvent. Bundles
// begin with a field that no UsageEvent has, and travel on the same subject. A bundle may be
// delivered twice, and each of its events may be in a later message too, so readers are as
// idempotent as for events that come alone.
package usagebundle

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// Bounds of a bundle.
const (
	// MaxEvents and MaxBytes bound what a hub puts into one message. A reader takes up to 200
	// messages at once, and no more events of a message than MaxEvents, which bounds what a
	// stolen certificate can ask of it. A message that is set aside is kept whole, because
	// readers keep 64 KiB of one. An event has about 400 bytes.
	MaxEvents = 64
	MaxBytes  = 60 << 10
)

// eventsField is the number of UsageBundle.events.
const eventsField protowire.Number = 31

// tag is how each event in a bundle begins.
var tag = protowire.AppendTag(nil, eventsField, protowire.BytesType)

// Join returns the message for some events, at least one: the event itself if it is alone.
func Join(events [][]byte) []byte {
	if len(events) == 1 {
		return events[0]
	}
	size := 0
	for _, e := range events {
		size += len(tag) + protowire.SizeBytes(len(e))
	}
	out := make([]byte, 0, size)
	for _, e := range events {
		out = append(out, tag...)
		out = protowire.AppendBytes(out, e)
	}
	return out
}

// Fits reports whether a message of so many events and bytes may take another event.
func Fits(events, size, next int) bool {
	return events < MaxEvents && size+next <= MaxBytes
}

// Split returns the events of a message, which alias it. A message that does not begin as a
// bundle is returned whole: it is a usage event. So is a bundle that is cut, has other fields
// or has too many events: it is no usage event, and a reader sets it aside as such.
func Split(message []byte) [][]byte {
	if !bytes.HasPrefix(message, tag) {
		return [][]byte{message}
	}
	var events [][]byte
	for rest := message; len(rest) > 0; {
		if !bytes.HasPrefix(rest, tag) || len(events) == MaxEvents {
			return [][]byte{message}
		}
		event, n := protowire.ConsumeBytes(rest[len(tag):])
		if n < 0 {
			return [][]byte{message}
		}
		events = append(events, event)
		rest = rest[len(tag)+n:]
	}
	return events
}
