package relay

import (
	"slices"
	"strconv"

	"svc.internal/pkg/jsonscan"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// insertion is text that goes in at an offset, in place of so many bytes.
type insertion struct {
	at   int
	drop int
	text string
}

// usageOf is what a whole answer says of its usage.
type usageOf struct {
	finished *hubv1.DispatchFinished
	cost     string // empty to leave it out
}

// strict gives a whole answer the members that strict clients require and
// engines often leave out, as nulls: choices[].logprobs, and content and
// refusal of the message. An answer without usage gets what is billed. Every
// other byte stays. An answer that cannot be scanned is left as it is.
func strict(body []byte, usage usageOf) []byte {
	f := filler{data: body, cur: jsonscan.New(body, jsonscan.Options{}).Cursor()}
	if f.cur.Kind() != jsonscan.Object {
		return body
	}
	f.top(usage)
	if f.cur.End() != nil {
		return body
	}
	return splice(body, f.out)
}

// filler is one pass over a whole answer.
type filler struct {
	data []byte
	cur  jsonscan.Cursor
	out  []insertion
}

// object walks the object that begins here. Then it inserts, at its start, a
// null for each wanted name that is missing. each consumes a member's value.
func (f *filler) object(wanted []string, each func(name string)) {
	f.cur.Enter()
	at, slot, members := f.cur.Pos(), len(f.out), 0
	f.out = append(f.out, insertion{at: at})
	var met uint8
	for ; ; members++ {
		key, ok := f.cur.NextMember()
		if !ok {
			break
		}
		name := string(key.Name(f.data))
		if i := slices.Index(wanted, name); i >= 0 {
			met |= 1 << i
		}
		each(name)
	}
	for i, name := range wanted {
		if met&(1<<i) == 0 {
			f.add(slot, `"`+name+`":null`, &members)
		}
	}
}

// add puts a member at the start of an object of so many members.
func (f *filler) add(slot int, member string, members *int) {
	in := &f.out[slot]
	if *members > 0 {
		in.text = "," + in.text
	}
	in.text = member + in.text
	*members++
}

func (f *filler) top(usage usageOf) {
	found, members := false, 0
	slot := len(f.out)
	f.object(nil, func(name string) {
		members++
		kind := f.cur.Kind()
		switch {
		case name == "choices" && kind == jsonscan.Array:
			f.choices()
		case name == "usage" && kind == jsonscan.Object:
			found = true
			f.usage(usage.cost)
		case name == "usage":
			found = true
			span := f.cur.Skip()
			if kind == jsonscan.Null && usage.finished != nil {
				f.out = append(f.out, insertion{at: span.Start, drop: span.Len(), text: usage.object()})
			}
		default:
			f.cur.Skip()
		}
	})
	if !found && usage.finished != nil {
		f.add(slot, `"usage":`+usage.object(), &members)
	}
}

func (f *filler) choices() {
	for f.cur.Enter(); f.cur.NextElement(); {
		if f.cur.Kind() != jsonscan.Object {
			f.cur.Skip()
			continue
		}
		f.object([]string{"logprobs"}, func(name string) {
			if name == "message" && f.cur.Kind() == jsonscan.Object {
				f.object([]string{"content", "refusal"}, func(string) { f.cur.Skip() })
				return
			}
			f.cur.Skip()
		})
	}
}

func (f *filler) usage(cost string) {
	members, slot := 0, len(f.out)
	f.object(nil, func(string) { members++; f.cur.Skip() })
	if cost != "" {
		f.add(slot, `"cost":`+cost, &members)
	}
}

// object is the usage as what is billed.
func (u usageOf) object() string {
	prompt, completion := u.finished.GetBillablePromptTokens(), u.finished.GetBillableCompletionTokens()
	text := `{"prompt_tokens":` + strconv.FormatInt(prompt, 10) +
		`,"completion_tokens":` + strconv.FormatInt(completion, 10) +
		`,"total_tokens":` + strconv.FormatInt(prompt+completion, 10)
	if u.cost != "" {
		text += `,"cost":` + u.cost
	}
	return text + "}"
}

func splice(body []byte, in []insertion) []byte {
	size := len(body)
	for _, i := range in {
		size += len(i.text)
	}
	if size == len(body) {
		return body // nothing is ever dropped without a text in its place
	}
	out := make([]byte, 0, size)
	at := 0
	for _, i := range in {
		out = append(out, body[at:i.at]...)
		out = append(out, i.text...)
		at = i.at + i.drop
	}
	return append(out, body[at:]...)
}

func isObject(json []byte, span jsonscan.Span) bool { return span.Found() && json[span.Start] == '{' }

// addCost appends the event with the cost put into its usage.
func addCost(dst, json []byte, usage jsonscan.Span, cost string) []byte {
	if !isObject(json, usage) {
		return append(dst, json...)
	}
	at := usage.Start + 1
	dst = append(append(append(dst, json[:at]...), `"cost":`...), cost...)
	inside := jsonscan.New(json, jsonscan.Options{}).CursorAt(usage)
	inside.Enter()
	if _, more := inside.NextMember(); more {
		dst = append(dst, ',')
	}
	return append(dst, json[at:]...)
}
