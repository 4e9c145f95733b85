//go:build watch

package watch

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/bus"
	eventsv1 "svc.internal/proto/svc/events/v1"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/intruder"
	"svc.internal/services/proving/internal/trial"
)

// nothingSettled has two tables locked as CREATE INDEX does it. Requests are admitted and
// served, but gateways cannot report them, and usage stays in the hubs' journals.
func nothingSettled(t *testing.T, m *trial.Market, s *server) {
	defer m.StartLoad(t, m.Key(), m.Model(), 2).Stop()
	end := stays(t, m, `LOCK TABLE billing.request_report, billing.usage_settlement IN SHARE MODE`)
	defer end()
	s.fires(t, "ReportsOfRequestsDropped", `,severity="ticket"`)
	s.fires(t, "HubJournalHalfFull", `,severity="page"`)
	end()
	s.quiet(t, "HubJournalHalfFull")
}

// tooManyModels has the verifier say something of more models of a provider than a router
// keeps: two reports fill the room, and the third has none.
func tooManyModels(t *testing.T, m *trial.Market, s *server) {
	nc, err := intruder.As(m.Fleet(), fleet.Verifier)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const provider = "00000000-0000-7000-8000-000000000001"
	report := func(revision int64, models int) {
		r := &eventsv1.TrustReport{ProviderId: provider, Revision: revision}
		for i := range models {
			r.Models = append(r.Models, &eventsv1.Trust{ProviderId: provider, Trust: 1, Lane: eventsv1.Lane_LANE_SHUT,
				ModelId: fmt.Sprintf("test/%d-%d", revision, i), Revision: revision})
		}
		text, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		refused, err := nc.Refused(bus.SubjectTrust(provider), text)
		if err != nil {
			t.Fatal(err)
		}
		if refused {
			t.Fatal("a report of the verifier: got it refused by NATS, want it taken")
		}
	}
	report(1, 256)
	report(2, 256)
	const kept = `min(sum without (lane) (svc_router_trust_pairs)) >= 512`
	trial.Until(t, "routers keep all models of two reports", func() bool { return len(s.query(t, kept)) > 0 })
	s.quiet(t, "TrustDropped")
	report(3, 1)
	s.fires(t, "TrustDropped", `,severity="ticket"`)
}
