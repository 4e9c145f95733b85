package rewrite

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"svc.internal/pkg/jsonscan"
	"svc.internal/pkg/openai"
)

// The beginnings of the ids of chat completions and of text completions.
const (
	chatIDPrefix   = "chatcmpl-"
	legacyIDPrefix = "cmpl-"
)

// ownMembers are the id, object, date and model of a completion whose engine gives none.
func ownMembers(s *Spec, now time.Time) []member {
	object := openai.ObjectCompletion
	if s.Stream {
		object = openai.ObjectChunk
	}
	return []member{
		ownModel:   {"model", string(jsonscan.AppendString(nil, s.Model))},
		ownCreated: {"created", strconv.FormatInt(now.Unix(), 10)},
		ownObject:  {"object", `"` + object + `"`},
		ownID:      {"id", string(jsonscan.AppendString(nil, chatIDPrefix+s.RequestID))},
	}
}

// The places of the members in ownMembers. The last comes first in an answer.
const (
	ownModel = iota
	ownCreated
	ownObject
	ownID
)

// identity makes one answer of the events of a stream: all have the id and the date of
// the first event that has them, because some engines date each event anew.
type identity struct {
	id, created []byte
	// own are the members of ownMembers, for events that lack them.
	own []member
}

// of gives an event the stream's identity. It scans no further than to the members that
// it needs, which nearly always stand first.
func (i *identity) of(event []byte) []byte {
	cur := jsonscan.New(event, jsonscan.Options{}).Cursor()
	if cur.Kind() != jsonscan.Object {
		return event
	}
	cur.Enter()
	open, members, met := cur.Pos(), 0, 0
	var edits []insertion
	for ; met != 1<<len(identifying)-1; members++ {
		key, ok := cur.NextMember()
		if !ok {
			break
		}
		n := slices.Index(identifying[:], string(key.Name(event)))
		span := cur.Skip()
		if n < 0 || met&(1<<n) != 0 || cur.Failed() {
			continue
		}
		met |= 1 << n
		edits = i.settle(edits, n, event, span)
	}
	if !cur.Failed() {
		edits = i.complete(edits, open, members, met)
	}
	if edits == nil {
		return event
	}
	return splice(event, edits)
}

// identifying names the members by which an event identifies its answer, in the order of
// ownMembers.
var identifying = [...]string{ownModel: "model", ownCreated: "created", ownObject: "object", ownID: "id"}

// known is the value that all events of the stream have for the n-th of those members;
// nil where each event has its own.
func (i *identity) known(n int) *[]byte {
	switch n {
	case ownID:
		return &i.id
	case ownCreated:
		return &i.created
	}
	return nil
}

// settle makes a value the known one if it is the first, and otherwise replaces it by the
// known one. A null is replaced by our own value.
func (i *identity) settle(edits []insertion, n int, event []byte, span jsonscan.Span) []insertion {
	value, known := span.Of(event), i.known(n)
	switch {
	case known != nil && bytes.Equal(value, *known):
	case known != nil && *known != nil:
		edits = append(edits, insertion{at: span.Start, drop: span.Len(), text: string(*known)})
	case string(value) == "null" && i.own != nil:
		edits = append(edits, insertion{at: span.Start, drop: span.Len(), text: i.ownValue(n)})
	case known != nil && says(value):
		*known = value
	}
	return edits
}

// ownValue is our own value of the n-th member. All events have it from here on.
func (i *identity) ownValue(n int) string {
	value := i.own[n].value
	if known := i.known(n); known != nil {
		if *known == nil {
			*known = []byte(value)
		}
		value = string(*known)
	}
	return value
}

// complete adds the members that an event of so many members lacks, at its start.
func (i *identity) complete(edits []insertion, open, members, met int) []insertion {
	text := ""
	for n, m := range i.own {
		if met&(1<<n) != 0 {
			continue
		}
		if members++; members > 1 {
			text = "," + text
		}
		text = `"` + m.name + `":` + i.ownValue(n) + text
	}
	if text == "" {
		return edits
	}
	return slices.Insert(edits, 0, insertion{at: open, text: text})
}

// says reports whether a value is no null.
func says(value []byte) bool {
	return string(value) != `""` && string(value) != "0" && string(value) != "null"
}
