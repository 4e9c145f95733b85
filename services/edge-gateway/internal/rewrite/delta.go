package rewrite

import (
	"bytes"
	"math/bits"
	"strconv"

	"svc.internal/pkg/jsonscan"
)

// deltas completes the choices of a stream, as strict does for a whole answer:
// the index of a choice, the role in its first delta, and the index of a tool call.
// Clients put the pieces of an answer together by these, and some engines leave them out.
// An event that has them is not changed and is scanned no further than it takes to see
// that.
type deltas struct {
	choices int    // how many were asked for
	noRole  bool   // a text completion has none
	begun   uint32 // a bit for each choice that has had its first delta
	calls   map[int]*toolCalls
}

// toolCalls numbers the tool calls of a choice whose engine does not number them.
type toolCalls struct {
	ids        map[string]int
	next, last int
}

const (
	// maxDeltas is more choices than can be asked for.
	maxDeltas = 32
	// maxToolCalls bounds the ids that are remembered of one choice.
	maxToolCalls = 256
)

var indexName, toolCallsName = []byte(`"index"`), []byte(`"tool_calls"`)

// of adds to an event what it lacks.
func (d *deltas) of(event []byte) []byte {
	if d.haveBegun() && bytes.Contains(event, indexName) && !bytes.Contains(event, toolCallsName) {
		return event
	}
	f := newFiller(event)
	return f.run(func() {
		f.object(nil, func(name string) {
			if name == "choices" && f.cur.Kind() == jsonscan.Array {
				f.elements(func(i int) { d.choice(f, i) })
				return
			}
			f.cur.Skip()
		})
	})
}

func (d *deltas) haveBegun() bool { return d.noRole || bits.OnesCount32(d.begun) >= d.choices }

// choice completes the i-th choice of an event.
func (d *deltas) choice(f *filler, i int) {
	if f.cur.Kind() != jsonscan.Object {
		f.cur.Skip()
		return
	}
	index := f.indexAhead(i)
	wanted := []member{{"index", strconv.Itoa(i)}}
	var role []member
	switch {
	case d.noRole:
	case index < maxDeltas && d.begun&(1<<index) == 0:
		d.begun |= 1 << index
		role = []member{{"role", `"assistant"`}}
		wanted = append(wanted, member{"delta", `{"role":"assistant"}`})
	default:
		wanted = append(wanted, member{"delta", `{}`})
	}
	f.object(wanted, func(name string) {
		if name != "delta" || f.cur.Kind() != jsonscan.Object {
			f.skip(wanted, name)
			return
		}
		f.object(role, func(name string) {
			if name == "tool_calls" && f.cur.Kind() == jsonscan.Array {
				f.elements(func(int) { d.toolCall(f, index) })
				return
			}
			f.skip(role, name)
		})
	})
}

// toolCall gives a piece of a tool call its index.
func (d *deltas) toolCall(f *filler, choice int) {
	if f.cur.Kind() != jsonscan.Object {
		f.cur.Skip()
		return
	}
	calls := d.calls[choice]
	if calls == nil {
		if d.calls == nil {
			d.calls = map[int]*toolCalls{}
		}
		calls = &toolCalls{}
		d.calls[choice] = calls
	}
	wanted := []member{{"index", strconv.Itoa(calls.place(f))}}
	f.object(wanted, func(name string) { f.skip(wanted, name) })
}

// place finds the index of the tool call that begins at the cursor: its own index, the
// index of an earlier piece with the same id, or the next index for a piece with a new id
// or with a name. A piece with neither belongs to the last tool call.
func (c *toolCalls) place(f *filler) int {
	ahead, id, named := f.cur, "", false
	for ahead.Enter(); ; {
		key, ok := ahead.NextMember()
		if !ok {
			break
		}
		name, kind := string(key.Name(f.data)), ahead.Kind()
		span := ahead.Skip()
		if ahead.Failed() {
			break
		}
		switch {
		case name == "index" && kind == jsonscan.Number:
			if n, err := jsonscan.Int(span.Of(f.data)); err == nil && n >= 0 && n < maxToolCalls {
				c.last, c.next = int(n), max(c.next, int(n)+1)
				return c.last
			}
		case name == "id" && kind == jsonscan.String:
			id = string(span.Of(f.data))
		case name == "function" && kind == jsonscan.Object:
			named = hasName(span.Of(f.data))
		}
	}
	at, known := c.ids[id]
	switch {
	case known:
	case id != "" && id != `""`, named, c.next == 0:
		at = c.next
		c.next++
		if c.ids == nil {
			c.ids = map[string]int{}
		}
		if id != "" && id != `""` && len(c.ids) < maxToolCalls {
			c.ids[id] = at
		}
	default:
		at = c.last
	}
	c.last = at
	return at
}

// hasName reports whether a function has a name that is not empty, which the
// first piece of a tool call has.
func hasName(function []byte) bool {
	for m, err := range jsonscan.New(function, jsonscan.Options{}).Members() {
		if err == nil && m.Kind == jsonscan.String && m.Value.Len() > len(`""`) && string(m.Key.Name(function)) == "name" {
			return true
		}
	}
	return false
}

// indexAhead returns the index of the choice that begins at the cursor, or otherwise if
// it has none. The cursor stays where it is.
func (f *filler) indexAhead(otherwise int) int {
	ahead := f.cur
	for ahead.Enter(); ; {
		key, ok := ahead.NextMember()
		if !ok {
			return otherwise
		}
		kind := ahead.Kind()
		span := ahead.Skip()
		if kind != jsonscan.Number || ahead.Failed() || string(key.Name(f.data)) != "index" {
			continue
		}
		if n, err := jsonscan.Int(span.Of(f.data)); err == nil && n >= 0 && n < maxDeltas {
			return int(n)
		}
		return otherwise
	}
}
