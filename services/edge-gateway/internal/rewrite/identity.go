package rewrite

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"svc.internal/pkg/jsonscan"
	"svc.internal/pkg/openai"
)

// What a chat completion's id begins with, and a text completion's.
const (
	chatIDPrefix   = "chatcmpl-"
	legacyIDPrefix = "cmpl-"
)

// ownMembers are what a completion says of itself where its engine does not.
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

// Where the members stand in ownMembers; the last comes first in an answer.
const (
	ownModel = iota
	ownCreated
	ownObject
	ownID
)

// identity makes one answer of the events of a stream: all have the id and the
// time of creation of the first that has them. Some engines date each event for
// itself.
type identity struct {
	id, created []byte
	// own are the members of ownMembers, for events that lack them.
	own []member
}

// of gives an event the stream's identity. It looks no further than to the
// members that it is about, which nearly always stand first.
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

// identifying names the members that an event says itself with, as in
// ownMembers.
var identifying = [...]string{ownModel: "model", ownCreated: "created", ownObject: "object", ownID: "id"}

// known is what all events of the stream have as the n-th of those members; nil
// where each has its own.
func (i *identity) known(n int) *[]byte {
	switch n {
	case ownID:
		return &i.id
	case ownCreated:
		return &i.created
	}
	return nil
}

// settle makes a value the known one, or the known one a value that is the
// first. A null gives way to our own.
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

// ownValue is our own n-th member, which all events have from here on.
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

// complete adds the members that an event of so many lacks, at its start.
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

// says tells a value from one that stands for none.
func says(value []byte) bool {
	return string(value) != `""` && string(value) != "0" && string(value) != "null"
}
