package relay

import (
	"errors"
	"strconv"
	"time"

	"svc.internal/pkg/dialguard"
	"svc.internal/pkg/jsonscan"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// images is the form of generated images. What they cost is told by a header and
// by the receipt, and in their usage to whoever asks: for the rest their usage is
// the engine's own, whose tokens are not what is billed. A stream of them has
// named events and ends without [DONE].
type images struct {
	now      func() time.Time
	withCost bool                 // the client asked for it
	held     *hubv1.DispatchEvent // the last image, until it is known what it costs
}

// typeCompleted is the type of an event with an image that is ready.
const typeCompleted = "image_generation.completed"

func (i *images) accept(body []byte) ([]byte, bool) { return body, i.fit(body) }

// fit refuses an answer, or an event of one, that hands out an address which only
// its engine's network can reach, as that of the engine itself: it is of no use to
// the client, and tells of the provider's network.
func (*images) fit(body []byte) bool {
	cur := jsonscan.New(body, jsonscan.Options{}).Cursor()
	return reachable(body, &cur, false)
}

// reachable consumes a value and reports whether every string in it under the name
// url is an address that anybody can reach, at whatever port.
func reachable(body []byte, cur *jsonscan.Cursor, isAddress bool) bool {
	fine := true
	switch cur.Kind() {
	case jsonscan.Object:
		for cur.Enter(); fine; {
			key, ok := cur.NextMember()
			if !ok {
				break
			}
			fine = reachable(body, cur, jsonscan.EqualFold(key.Name(body), "url"))
		}
	case jsonscan.Array:
		for cur.Enter(); fine && cur.NextElement(); {
			fine = reachable(body, cur, isAddress)
		}
	case jsonscan.String:
		raw := cur.Skip().Of(body)
		if !isAddress || cur.Failed() || len(raw) == len(`""`) {
			break
		}
		text, err := jsonscan.DecodeString(raw)
		if err == nil {
			err = dialguard.URL(text)
		}
		fine = err == nil || errors.Is(err, dialguard.ErrPort)
	default:
		cur.Skip()
	}
	return fine
}

func (i *images) whole(body []byte, billed usageOf) (contentType string, out []byte) {
	return typeJSON, withMembers(body, billed.cost, member{"created", strconv.FormatInt(i.now().Unix(), 10)})
}

// event writes an event, but for the last image when the client asked for its
// cost.
func (i *images) event(out *output, e *hubv1.DispatchEvent) {
	i.cut(out)
	if i.withCost && (e.GetName() == typeCompleted || e.GetName() == "" && hasType(e.GetJson(), typeCompleted)) {
		i.held = e
		return
	}
	i.emit(out, e, "")
}

// emit dates an event, and lets one that has a name say it itself, unless its
// line would become too long.
func (i *images) emit(out *output, e *hubv1.DispatchEvent, cost string) {
	if len(e.GetJson()) > maxEvent-eventRoom || cost == "" && !isEventName(e.GetName()) {
		out.event(e.GetName(), e.GetJson())
		return
	}
	var wanted []member
	if isEventName(e.GetName()) {
		wanted = []member{
			{"created_at", strconv.FormatInt(i.now().Unix(), 10)},
			{"type", string(jsonscan.AppendString(nil, e.GetName()))},
		}
	}
	out.event(e.GetName(), withMembers(e.GetJson(), cost, wanted...))
}

// cut writes what waits: the image has come, whatever becomes of the stream.
func (i *images) cut(out *output) { i.end(out, usageOf{}) }

func (i *images) end(out *output, billed usageOf) {
	if i.held != nil {
		i.emit(out, i.held, billed.cost)
		i.held = nil
	}
}

// withMembers gives an object the members that it lacks and, unless it is empty,
// the cost in its usage. Where the engine tells no usage the cost is all there is:
// zeros would be counts that nobody has counted.
func withMembers(json []byte, cost string, wanted ...member) []byte {
	f := filler{data: json, cur: jsonscan.New(json, jsonscan.Options{}).Cursor()}
	alone := `{"cost":` + cost + `}`
	if cost != "" {
		wanted = append(wanted, member{"usage", alone})
	}
	return f.run(func() {
		f.object(wanted, func(name string) {
			kind := f.cur.Kind()
			switch {
			case cost == "" || name != "usage":
				f.skip(wanted, name)
			case kind == jsonscan.Object:
				f.withCost(cost)
			default:
				f.replace(f.cur.Skip(), alone)
			}
		})
	})
}
