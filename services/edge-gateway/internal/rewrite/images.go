package rewrite

import (
	"errors"
	"strconv"
	"time"

	"svc.internal/pkg/dialguard"
	"svc.internal/pkg/jsonscan"
)

// images is the form of generated images. Their cost is in a header and in the receipt,
// and in their usage for a client that asks. The rest of their usage is the engine's own,
// because images and not its tokens are billed. A stream of images has named events and
// ends without [DONE].
type images struct {
	now      func() time.Time
	withCost bool   // the client asked for it
	held     *Event // the last image, until it is known what it costs
}

// typeCompleted is the type of an event with a finished image.
const typeCompleted = "image_generation.completed"

func (i *images) Accept(body []byte) ([]byte, bool) { return body, i.Fits(body) }

// Fits refuses an answer, or an event of one, with an address that only its engine's
// network can reach, such as the engine's own address, because the address is of no use
// to the client and reveals the provider's network.
func (*images) Fits(body []byte) bool {
	cur := jsonscan.New(body, jsonscan.Options{}).Cursor()
	return reachable(body, &cur, false)
}

// reachable consumes a value and reports whether every string in it under the name url is
// an address that anybody can reach, at whatever port.
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

func (i *images) Whole(body []byte, billed Usage) (contentType string, out []byte) {
	return TypeJSON, withMembers(body, billed.Cost, member{"created", strconv.FormatInt(i.now().Unix(), 10)})
}

// Event passes an event on, except the last image when the client asked for its cost.
func (i *images) Event(dst []Event, e Event) []Event {
	dst = i.Cut(dst)
	if i.withCost && (e.Name == typeCompleted || e.Name == "" && hasType(e.JSON, typeCompleted)) {
		held := e
		i.held = &held
		return dst
	}
	return append(dst, i.dated(e, ""))
}

// dated dates an event, and adds its name as its type, unless its line would become too
// long.
func (i *images) dated(e Event, cost string) Event {
	if len(e.JSON) > MaxEvent-eventRoom || cost == "" && !IsEventName(e.Name) {
		return e
	}
	var wanted []member
	if IsEventName(e.Name) {
		wanted = []member{
			{"created_at", strconv.FormatInt(i.now().Unix(), 10)},
			{"type", string(jsonscan.AppendString(nil, e.Name))},
		}
	}
	return Event{Name: e.Name, JSON: withMembers(e.JSON, cost, wanted...)}
}

// Cut passes the image on that waits, because it is complete whatever becomes of the
// stream.
func (i *images) Cut(dst []Event) []Event { return i.End(dst, Usage{}) }

func (i *images) End(dst []Event, billed Usage) []Event {
	if i.held != nil {
		dst = append(dst, i.dated(*i.held, billed.Cost))
		i.held = nil
	}
	return dst
}

// withMembers gives an object the members that it lacks and, unless cost is empty, the
// cost in its usage. Where the engine reports no usage, the cost stands alone, because
// zeros would be counts that nobody has made.
func withMembers(json []byte, cost string, wanted ...member) []byte {
	f := newFiller(json)
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
