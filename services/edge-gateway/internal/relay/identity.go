package relay

import (
	"bytes"

	"svc.internal/pkg/jsonscan"
)

// identity makes one answer of the events of a stream: all have the id and the
// time of creation of the first that has them. Some engines date each event for
// itself.
type identity struct{ id, created []byte }

// of gives an event the stream's identity. It looks no further than to the
// members that it is about, which nearly always stand first.
func (i *identity) of(event []byte) []byte {
	cur := jsonscan.New(event, jsonscan.Options{}).Cursor()
	if cur.Kind() != jsonscan.Object {
		return event
	}
	cur.Enter()
	var edits []insertion
	for id, created := false, false; !id || !created; {
		key, ok := cur.NextMember()
		if !ok {
			break
		}
		var known *[]byte
		switch name := key.Name(event); {
		case string(name) == "id" && !id:
			id, known = true, &i.id
		case string(name) == "created" && !created:
			created, known = true, &i.created
		}
		if span := cur.Skip(); known != nil && !cur.Failed() {
			edits = settle(edits, known, event, span)
		}
	}
	if edits == nil {
		return event
	}
	return splice(event, edits)
}

// settle makes a value the known one, or the known one a value that is the
// first.
func settle(edits []insertion, known *[]byte, event []byte, span jsonscan.Span) []insertion {
	switch value := span.Of(event); {
	case bytes.Equal(value, *known):
	case *known != nil:
		edits = append(edits, insertion{at: span.Start, drop: span.Len(), text: string(*known)})
	case says(value):
		*known = value
	}
	return edits
}

// says tells a value from one that stands for none.
func says(value []byte) bool {
	return string(value) != `""` && string(value) != "0" && string(value) != "null"
}
