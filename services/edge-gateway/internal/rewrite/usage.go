package rewrite

import (
	"bytes"
	"strconv"

	"svc.internal/pkg/jsonscan"
)

// Usage is the usage that an answer shows: what is billed.
type Usage struct {
	Prompt, Completion int64
	Cost               string // empty to leave it out
	promptOnly         bool   // of what has no completion
}

// Object is the usage as a JSON object.
func (u Usage) Object() string {
	text := `{"prompt_tokens":` + strconv.FormatInt(u.Prompt, 10)
	if !u.promptOnly {
		text += `,"completion_tokens":` + strconv.FormatInt(u.Completion, 10)
	}
	text += `,"total_tokens":` + strconv.FormatInt(u.Prompt+u.Completion, 10)
	if u.Cost != "" {
		text += `,"cost":` + u.Cost
	}
	return text + "}"
}

// agrees reports whether an engine's usage has the same counts, all of them, so that no
// reader can take it for anything else.
func (u Usage) agrees(json []byte, usage jsonscan.Span) bool {
	counts := []struct {
		name string
		want int64
	}{{"prompt_tokens", u.Prompt}, {"completion_tokens", u.Completion}, {"total_tokens", u.Prompt + u.Completion}}
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

// completionCount is the place of the completion among the counts.
const completionCount = 1

// mayTellUsage reports whether an event may have a member named usage, in whichever
// letters. It is false for nearly every event, and far cheaper than a scan.
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

// withNullUsage adds a usage of null to an event that has none.
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

// usageEvent is the event that ends a stream whose engine reported no usage. It has the
// name of the stream's other events.
func usageEvent(like []byte, usage Usage) []byte {
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
	return append(event, `,"choices":[],"usage":`+usage.Object()+`}`...)
}

// usage keeps a usage that agrees with what is billed, with its details, and replaces any
// other by the billed one.
func (f *filler) usage(usage Usage) {
	ahead := f.cur
	kind, span := f.cur.Kind(), f.cur.Skip()
	if kind != jsonscan.Object || !usage.agrees(f.data, span) {
		f.out = append(f.out, insertion{at: span.Start, drop: span.Len(), text: usage.Object()})
		return
	}
	if usage.Cost != "" {
		f.cur = ahead
		f.withCost(usage.Cost)
	}
}

// withCost puts the cost into the usage that begins here, in place of a cost that an
// engine reports.
func (f *filler) withCost(cost string) {
	f.object([]member{{"cost", cost}}, func(name string) {
		if span := f.cur.Skip(); name == "cost" {
			f.replace(span, cost)
		}
	})
}
