package rewrite

import (
	"slices"

	"svc.internal/pkg/jsonscan"
)

// insertion is text that is inserted at an offset, in place of so many bytes.
type insertion struct {
	at   int
	drop int
	text string
}

// filler is one pass over an answer, or over one event of it.
type filler struct {
	data      []byte
	cur       jsonscan.Cursor
	out       []insertion
	key       jsonscan.Span // of the member that is being read, quotes included
	usageOnly bool          // leave the choices alone
	abandoned bool          // leave all as it is
	room      [8]insertion  // for out, as long as it suffices
}

// newFiller begins a pass over an answer, or over one event of it.
func newFiller(data []byte) *filler {
	f := &filler{data: data, cur: jsonscan.New(data, jsonscan.Options{}).Cursor()}
	f.out = f.room[:0]
	return f
}

// member is a member that an object must have.
type member struct{ name, value string }

// run makes the pass over an object. A value that is no object stays as it is.
func (f *filler) run(pass func()) []byte {
	if f.cur.Kind() != jsonscan.Object {
		return f.data
	}
	pass()
	if f.abandoned {
		return f.data
	}
	if f.cur.End() != nil {
		return f.data
	}
	return splice(f.data, f.out)
}

// abandon gives up the pass.
func (f *filler) abandon() bool {
	f.abandoned = true
	return false
}

// replace puts text in the place of a range.
func (f *filler) replace(span jsonscan.Span, text string) {
	if !f.cur.Failed() {
		f.out = append(f.out, insertion{at: span.Start, drop: span.Len(), text: text})
	}
}

// elements walks the array that begins here. each consumes an element.
func (f *filler) elements(each func(i int)) {
	f.cur.Enter()
	for i := 0; !f.abandoned && f.cur.NextElement(); i++ {
		each(i)
	}
}

// object walks the object that begins here; each consumes a member's value. At the start
// of the object it then inserts each wanted member that is missing.
func (f *filler) object(wanted []member, each func(name string)) {
	f.cur.Enter()
	at, slot, members := f.cur.Pos(), len(f.out), 0
	f.out = append(f.out, insertion{at: at})
	var met uint8
	for ; !f.abandoned; members++ {
		key, ok := f.cur.NextMember()
		if !ok {
			break
		}
		f.key = jsonscan.Span{Start: key.Span.Start - 1, End: key.Span.End + 1}
		name := nameOf(key.Name(f.data))
		if i := slices.IndexFunc(wanted, func(m member) bool { return m.name == name }); i >= 0 {
			met |= 1 << i
		}
		each(name)
	}
	for i, m := range wanted {
		if met&(1<<i) == 0 {
			f.add(slot, `"`+m.name+`":`+m.value, &members)
		}
	}
}

// usualNames are the names that most answers have.
var usualNames = func(names ...string) map[string]string {
	usual := map[string]string{}
	for _, name := range names {
		usual[name] = name
	}
	return usual
}("id", "object", "created", "model", "choices", "usage", "system_fingerprint", "index", "message", "delta", "logprobs",
	"finish_reason", "role", "content", "refusal", "tool_calls", "prompt_tokens", "completion_tokens", "total_tokens",
	"data", "embedding", "text")

// nameOf returns the name of a member, without an allocation for a usual one.
func nameOf(name []byte) string {
	if usual, ok := usualNames[string(name)]; ok {
		return usual
	}
	return string(name)
}

// skip consumes the value of a member. A null is replaced by the value that is wanted
// there.
func (f *filler) skip(wanted []member, name string) {
	null := f.cur.Kind() == jsonscan.Null
	span := f.cur.Skip()
	if !null {
		return
	}
	if i := slices.IndexFunc(wanted, func(m member) bool { return m.name == name }); i >= 0 && wanted[i].value != "null" {
		f.replace(span, wanted[i].value)
	}
}

// add puts a member at the start of an object of so many members.
func (f *filler) add(slot int, member string, members *int) {
	in := &f.out[slot]
	if *members > 0 || in.text != "" {
		in.text = "," + in.text
	}
	in.text = member + in.text
	*members++
}

// splice makes the insertions.
func splice(body []byte, in []insertion) []byte {
	size, same := len(body), true
	for _, i := range in {
		size += len(i.text)
		same = same && i.text == "" && i.drop == 0
	}
	if same {
		return body
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
