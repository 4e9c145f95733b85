package rewrite

import (
	"bytes"
	"strconv"

	"svc.internal/pkg/jsonscan"
)

// legacy makes a text completion of a chat completion, or of one chunk of a stream. Every
// value stays as its engine wrote it. The members of a message that have no place in a
// text completion stand beside its text. The usage of a whole answer is what is billed;
// that of a chunk is not changed. ownID and own are the members of an answer whose engine
// gives none.
func legacy(body []byte, ownID string, billed *Usage, own ...member) []byte {
	f := newFiller(body)
	wanted := append([]member{
		{"id", string(jsonscan.AppendString(nil, legacyIDPrefix+ownID))},
		{"object", `"text_completion"`},
	}, own...)
	return f.run(func() { f.legacy(wanted, billed) })
}

func (f *filler) legacy(wanted []member, billed *Usage) {
	if billed != nil {
		wanted = append(wanted, member{"usage", billed.Object()})
	}
	f.object(wanted, func(name string) {
		switch {
		case name == "id" && f.cur.Kind() == jsonscan.String:
			f.legacyID()
		case name == "object":
			f.replace(f.cur.Skip(), `"text_completion"`)
		case name == "choices" && f.cur.Kind() == jsonscan.Array:
			f.elements(func(i int) { f.legacyChoice(i, billed != nil) })
		case name == "usage" && billed != nil:
			f.usage(*billed)
		default:
			f.skip(wanted, name)
		}
	})
}

func (f *filler) legacyID() {
	span := f.cur.Skip()
	if f.cur.Failed() {
		return
	}
	inner := jsonscan.Span{Start: span.Start + 1, End: span.End - 1}
	switch text := inner.Of(f.data); {
	case bytes.HasPrefix(text, []byte(chatIDPrefix)):
		f.replace(jsonscan.Span{Start: inner.Start, End: inner.Start + len(chatIDPrefix)}, legacyIDPrefix)
	case !bytes.HasPrefix(text, []byte(legacyIDPrefix)):
		f.replace(jsonscan.Span{Start: inner.Start, End: inner.Start}, legacyIDPrefix)
	}
}

// legacyChoice makes text of the message, or of the delta, of a choice. In a whole answer
// the place of a choice is its index; in a chunk it means nothing.
func (f *filler) legacyChoice(i int, whole bool) {
	if f.cur.Kind() != jsonscan.Object {
		f.cur.Skip()
		return
	}
	slot, members, said := len(f.out), 0, false
	wanted := []member{{"logprobs", "null"}, {"finish_reason", "null"}}
	if whole {
		wanted = append(wanted, member{"index", strconv.Itoa(i)})
	}
	f.object(wanted, func(name string) {
		members++
		switch {
		case (name == "message" || name == "delta") && f.cur.Kind() == jsonscan.Object && !said:
			said = true
			key := f.key
			text := f.legacyText()
			f.replace(jsonscan.Span{Start: key.Start, End: f.cur.Pos()}, text)
		case name == "text":
			said = true
			f.cur.Skip()
		case name == "logprobs":
			// The logprobs of chat have another shape, and none were asked for.
			f.replace(f.cur.Skip(), "null")
		default:
			f.skip(wanted, name)
		}
	})
	if !said {
		f.add(slot, `"text":""`, &members)
	}
}

// legacyText consumes a message and returns the members that stand for it.
func (f *filler) legacyText() string {
	text, rest := `""`, ""
	for f.cur.Enter(); ; {
		key, ok := f.cur.NextMember()
		if !ok {
			break
		}
		name, kind := string(key.Name(f.data)), f.cur.Kind()
		value := string(f.cur.Skip().Of(f.data))
		switch {
		case name == "content" && kind == jsonscan.String:
			text = value
		case name == "role", kind == jsonscan.Null, inLegacyChoice[name]:
		default:
			rest += `,"` + string(key.Span.Of(f.data)) + `":` + value
		}
	}
	return `"text":` + text + rest
}

// inLegacyChoice names the members that a choice has itself, so that no member of its
// message repeats them.
var inLegacyChoice = map[string]bool{"text": true, "index": true, "logprobs": true, "finish_reason": true}
