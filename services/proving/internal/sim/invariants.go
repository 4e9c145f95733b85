package sim

import (
	"fmt"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/ledgersim"
	"svc.internal/services/proving/internal/auditor"
)

// check checks the money at every step.
func (n *network) check() {
	db := n.db.billing
	held, charged := map[ids.AccountID]money.NanoUSD{}, map[ids.AccountID]money.NanoUSD{}
	for _, h := range db.Holds() {
		if h.State == ledgersim.Open {
			held[h.Account] += h.Amount
		}
	}
	for _, l := range db.Lines() {
		charged[l.Account] += l.Charged
	}
	for _, a := range n.accounts {
		w := db.Wallet(a.id)
		if w.Posted < 0 || w.Held < 0 || w.Held > w.Posted {
			n.fail("overdrawn: account %s has %d, of which %d are held", a.id, w.Posted, w.Held)
		}
		if slices := db.Sliced(a.id); w.Held != held[a.id]+slices {
			n.fail("drift: account %s holds %d, its open holds %d, its slices %d", a.id, w.Held, held[a.id], slices)
		}
		if w.Posted != w.Granted-charged[a.id] {
			n.fail("drift: account %s has %d of %d, after charges of %d", a.id, w.Posted, w.Granted, charged[a.id])
		}
	}
}

// checkRest checks what none of the auditor's files has: journals and quarantines, which
// must be empty, who served each client, and which attempts engines saw.
func (x *rest) checkRest() {
	for _, h := range x.hubs {
		if waiting, open, final := h.hub.Unsettled(); waiting+open+final > 0 {
			x.fail("unpaid: %s still has %d unsettled, %d open and %d final in its journal", h.name, waiting, open, final)
		}
	}
	for _, r := range x.db.billing.Quarantined() {
		x.fail("unpaid: usage of %s is in quarantine: %s %s", r.Request, r.Reason, r.Detail)
	}
	if _, rejected := x.db.settlement.Count(); rejected > 0 {
		x.fail("unpaid: settlement has put %d events aside", rejected)
	}
	for _, r := range x.order {
		s := x.stories[r]
		if s.client != nil && len(s.client.words) > 1 {
			x.fail("doubled: the client of %s got words of %d providers", r, len(s.client.words))
		}
		if len(s.lines) > 0 {
			x.checkServed(r, s)
		}
	}
}

// mode is how an agent is reached, by the number of svc.events.v1.ConnectionMode.
func (a *agent) mode() int16 {
	if a.external {
		return 2
	}
	return 1
}

// checkServed checks that a settled request is an attempt that an engine of the credited
// provider saw, and of which the client got the words. Each word is one token, so the
// bounds are tighter than the auditor's where an engine reports no usage.
func (x *rest) checkServed(r ids.RequestID, s *story) {
	e := s.lines[0].Event
	run := s.runs[e.Attempt]
	if run == nil && e.Ending == "client_gone" && e.Billable.Completion == 0 {
		x.network.tolerate(promptUnseen,
			"doubled: request %s is billed for the prompt of attempt %d, which no engine saw", r, e.Attempt)
		return
	}
	if run == nil {
		x.fail("doubled: request %s is billed for attempt %d, which no engine saw", r, e.Attempt)
		return
	}
	if run.session.agent.provider != e.Provider {
		x.fail("unpaid: request %s was served by %s, and %s is paid", r, run.session.agent.provider, e.Provider)
	}
	// A gateway does not know the mode. What a hub said of it stays where the gateway's count
	// overrules the hub's.
	if want := run.session.agent.mode(); e.Mode != want && (e.Mode != 0 || e.EvidenceSource == ledgersim.Hub) {
		x.fail("mode: request %s was served in mode %d, and is settled in mode %d", r, want, e.Mode)
	}
	if sent, _ := run.reported(); e.Billable.Completion > sent {
		x.fail("doubled: request %s is billed for %d tokens, and the engine sent %d", r, e.Billable.Completion, sent)
	}
	if c := s.client; c != nil && c.count() > 0 {
		if c.words[run.session.agent.letter] == 0 {
			x.fail("doubled: request %s is billed for another provider's answer than the client got", r)
		}
		if got := int64(c.count()); c.complete && e.Billable.Completion < got {
			x.found(auditor.Unpaid, auditor.Finding{
				Subject: "request " + r.String(),
				Text:    fmt.Sprintf("its client got %d tokens, and %d are settled", got, e.Billable.Completion),
			})
		}
	}
}
