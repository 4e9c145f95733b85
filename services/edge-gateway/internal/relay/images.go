package relay

import (
	"strconv"
	"time"

	"svc.internal/pkg/jsonscan"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// images is the form of generated images. What they cost is told by a header and
// by the receipt: their usage is the engine's own. A stream of them has named
// events and ends without [DONE].
type images struct{ now func() time.Time }

func (*images) accept(body []byte) ([]byte, bool) { return body, true }

func (i *images) whole(body []byte, _ usageOf) (contentType string, out []byte) {
	f := filler{data: body, cur: jsonscan.New(body, jsonscan.Options{}).Cursor()}
	created := member{"created", strconv.FormatInt(i.now().Unix(), 10)}
	return typeJSON, f.run(func() { f.object([]member{created}, func(string) { f.cur.Skip() }) })
}

// event dates an event, and lets one that has a name say it itself, unless its
// line would become too long.
func (i *images) event(out *output, e *hubv1.DispatchEvent) {
	if !isEventName(e.GetName()) || len(e.GetJson()) > maxEvent-eventRoom {
		out.event(e.GetName(), e.GetJson())
		return
	}
	f := filler{data: e.GetJson(), cur: jsonscan.New(e.GetJson(), jsonscan.Options{}).Cursor()}
	wanted := []member{
		{"created_at", strconv.FormatInt(i.now().Unix(), 10)},
		{"type", string(jsonscan.AppendString(nil, e.GetName()))},
	}
	out.event(e.GetName(), f.run(func() { f.object(wanted, func(string) { f.cur.Skip() }) }))
}

func (*images) cut(*output)          {}
func (*images) end(*output, usageOf) {}
