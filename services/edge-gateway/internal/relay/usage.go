package relay

import (
	"bytes"
	"strconv"

	"svc.internal/pkg/jsonscan"
)

// usageOf is what an answer says of its usage: what is billed.
type usageOf struct {
	prompt, completion int64
	cost               string // empty to leave it out
	promptOnly         bool   // of what has no completion
}

// object is the usage as a JSON object.
func (u usageOf) object() string {
	text := `{"prompt_tokens":` + strconv.FormatInt(u.prompt, 10)
	if !u.promptOnly {
		text += `,"completion_tokens":` + strconv.FormatInt(u.completion, 10)
	}
	text += `,"total_tokens":` + strconv.FormatInt(u.prompt+u.completion, 10)
	if u.cost != "" {
		text += `,"cost":` + u.cost
	}
	return text + "}"
}

// agrees reports whether an engine's usage says the same, with every count, so
// that no reader of it can take it for anything else.
func (u usageOf) agrees(json []byte, usage jsonscan.Span) bool {
	counts := []struct {
		name string
		want int64
	}{{"prompt_tokens", u.prompt}, {"completion_tokens", u.completion}, {"total_tokens", u.prompt + u.completion}}
	met := 0
	for member, err := range jsonscan.New(json, jsonscan.Options{}).Object(usage) {
		if err != nil {
			return false
		}
		name := member.Key.Name(json)
		for i, count := range counts {
			if !jsonscan.EqualFold(name, count.name) {
				continue
			}
			if n, err := jsonscan.Int(member.Value.Of(json)); err != nil || n != count.want {
				return false
			}
			if string(name) == count.name {
				met |= 1 << i
			}
		}
	}
	if u.promptOnly {
		met |= 1 << completionCount
	}
	return met == 1<<len(counts)-1
}

// completionCount is where the completion stands among the counts.
const completionCount = 1

// mayTellUsage is false for an event that cannot have a member named usage, in
// whichever letters, which is nearly every one: it is far cheaper than a scan.
func mayTellUsage(json []byte) bool {
	if bytes.IndexByte(json, '\\') >= 0 {
		return true // a name may be written with escapes
	}
	for rest := json; ; {
		i := bytes.IndexByte(rest, 'g')
		if i < 0 {
			break
		}
		if rest = rest[i+1:]; endsName(rest) {
			return true
		}
	}
	for rest := json; ; {
		i := bytes.IndexByte(rest, 'G')
		if i < 0 {
			return false
		}
		if rest = rest[i+1:]; endsName(rest) {
			return true
		}
	}
}

// endsName reports whether a string ends here with the last letter of usage.
func endsName(rest []byte) bool {
	return len(rest) > 1 && rest[0]|0x20 == 'e' && rest[1] == '"'
}

// hasValue reports whether there is a usage other than null.
func hasValue(json []byte, usage jsonscan.Span) bool {
	return usage.Found() && json[usage.Start] != 'n'
}

// withNullUsage gives an event that names no usage one that is null.
func withNullUsage(event []byte) []byte {
	const usage = `"usage":null`
	open := bytes.IndexByte(event, '{') + 1
	if open == 0 {
		return event
	}
	out := make([]byte, 0, len(event)+len(usage)+1)
	out = append(append(out, event[:open]...), usage...)
	if rest := bytes.TrimLeft(event[open:], " \t\r\n"); len(rest) > 0 && rest[0] != '}' {
		out = append(out, ',')
	}
	return append(out, event[open:]...)
}

// withBilled gives an event the usage that is billed.
func withBilled(event []byte, usage usageOf) []byte {
	f := filler{data: event, cur: jsonscan.New(event, jsonscan.Options{}).Cursor(), usageOnly: true}
	return f.run(func() { f.top(usage) })
}

// usageEvent is the event that ends a stream whose engine told no usage. It
// names itself as the stream's other events do.
func usageEvent(like []byte, usage usageOf) []byte {
	event := []byte(`{`)
	object := []byte(`"chat.completion.chunk"`)
	for member, err := range jsonscan.New(like, jsonscan.Options{}).Members() {
		if err != nil {
			break
		}
		value := member.Value.Of(like)
		switch name := string(member.Key.Name(like)); name {
		case "object":
			object = value
		case "id", "created", "model":
			event = append(event, `"`+name+`":`...)
			event = append(append(event, value...), ',')
		}
	}
	event = append(append(event, `"object":`...), object...)
	return append(event, `,"choices":[],"usage":`+usage.object()+`}`...)
}
