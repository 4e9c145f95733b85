package rewrite

import (
	"strconv"

	"svc.internal/pkg/jsonscan"
)

// strict adds the members to a whole answer that strict clients require and engines often
// leave out: its own, where they are missing or null, the index of a choice and the role
// of its message, and as nulls choices[].logprobs and the members in it, and content and
// refusal of the message. Its usage is what is billed. Every other byte stays. An answer
// that cannot be scanned is left as it is.
func strict(body []byte, usage Usage, own ...member) []byte {
	f := newFiller(body)
	return f.run(func() { f.top(usage, own...) })
}

// withBilled gives an event the usage that is billed.
func withBilled(event []byte, usage Usage) []byte {
	f := newFiller(event)
	f.usageOnly = true
	return f.run(func() { f.top(usage) })
}

// top makes the pass over a whole answer, or over an event with usage.
func (f *filler) top(usage Usage, own ...member) {
	found, members := false, 0
	slot := len(f.out)
	f.object(own, func(name string) {
		members++
		switch {
		case name == "choices" && f.cur.Kind() == jsonscan.Array && !f.usageOnly:
			f.choices()
		case name == "usage":
			found = true
			f.usage(usage)
		default:
			f.skip(own, name)
		}
	})
	if !found {
		f.add(slot, `"usage":`+usage.Object(), &members)
	}
}

func (f *filler) choices() {
	f.elements(func(i int) {
		if f.cur.Kind() != jsonscan.Object {
			f.cur.Skip()
			return
		}
		wanted := []member{{"logprobs", "null"}, {"index", strconv.Itoa(i)}}
		f.object(wanted, func(name string) {
			switch kind := f.cur.Kind(); {
			case name == "message" && kind == jsonscan.Object:
				f.object(messageHas, func(name string) { f.skip(messageHas, name) })
			case name == "logprobs" && kind == jsonscan.Object:
				f.logprobs()
			default:
				f.skip(wanted, name)
			}
		})
	})
}
