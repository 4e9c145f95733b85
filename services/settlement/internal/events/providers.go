package events

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	eventsv1 "svc.internal/proto/svc/events/v1"
)

// HearProviders calls heard for each provider in the presence reports of hubs, until stop
// is called. Hubs report every session every 10 seconds, so what is missed comes again.
func HearProviders(conn *bus.Conn, heard func(ids.ProviderID)) (stop func() error, err error) {
	sub, err := conn.Subscribe(bus.SubjectPresenceAll, "", func(_ context.Context, m bus.Message) {
		for _, id := range providersIn(m.Data) {
			heard(id)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listen to presence: %w", err)
	}
	return sub.Stop, nil
}

// providersIn lists the providers of a presence report, without vendors. What cannot be
// read is passed over.
func providersIn(payload []byte) []ids.ProviderID {
	var report eventsv1.Presence
	if proto.Unmarshal(payload, &report) != nil {
		return nil
	}
	list := make([]ids.ProviderID, 0, len(report.GetSessions()))
	for _, session := range report.GetSessions() {
		// A vendor has no collateral.
		if id, err := ids.ParseProvider(session.GetProviderId()); err == nil && !session.GetVendor() {
			list = append(list, id)
		}
	}
	return list
}
