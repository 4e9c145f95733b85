package events

import (
	"context"
	"regexp"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// hubPattern keeps a hub's id fit to be part of a subject.
var hubPattern = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

// notices are the requests that each hub is to hear of.
type notices map[string][]string

// add notes a request of a hub; what names no hub or no request is nobody's.
func (n notices) add(event *eventsv1.UsageEvent) {
	hub := event.GetHubId()
	if _, err := ids.ParseRequest(event.GetRequestId()); err != nil || !hubPattern.MatchString(hub) {
		return
	}
	n[hub] = append(n[hub], event.GetRequestId())
}

// tell tells the hubs of every event of theirs that needs nothing more from
// them: recorded now, recorded before, or set aside for a person. A notice that
// is lost is given again when the hub asks by publishing again.
func (c *Consumer) tell(ctx context.Context, n notices) {
	for hub, requests := range n {
		data, err := proto.Marshal(&eventsv1.SettledNotice{RequestIds: requests})
		if err == nil {
			err = c.bus.Publish(ctx, bus.SubjectRecorded(hub), data, nil)
		}
		if err != nil {
			c.log.WarnContext(ctx, "hub could not be told what is recorded", "hub_id", hub, "requests", len(requests), "error", err)
		}
	}
}
