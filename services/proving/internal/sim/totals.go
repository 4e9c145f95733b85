package sim

import "svc.internal/services/billing-ledger/ledgersim"

// totals counts what happened.
func (x *rest) totals() Totals {
	t := Totals{
		Histories: 1, Events: x.world.events, Requests: len(x.clients), Struck: len(x.cfg.Faults), Known: x.known,
		FromMemory: x.db.billing.FromMemory, FromTickets: x.db.billing.FromTickets,
	}
	for _, s := range x.stories {
		if s.client != nil && s.client.complete {
			t.Complete++
		}
		if s.hold == nil {
			continue
		}
		t.Admitted++
		switch s.hold.State {
		case ledgersim.Settled:
			t.Settled++
		case ledgersim.Released:
			t.Released++
		case ledgersim.Expired:
			t.Expired++
		case ledgersim.Open: // the auditor finds it
		}
		for _, l := range s.lines {
			if l.Source == ledgersim.Orphan {
				t.Orphans++
			}
			if l.Event.EvidenceSource == ledgersim.Gateway {
				t.ByGateway++
			}
		}
	}
	return t
}
