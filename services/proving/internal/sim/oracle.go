package sim

import (
	"math/big"
	"slices"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/ledgersim"
)

// oracle looks at a history that has come to rest.
func (n *network) oracle() {
	n.judgeRest()
	x := n.atRest()
	for _, r := range x.order {
		s := x.stories[r]
		if s.hold == nil {
			if len(s.lines) > 0 {
				n.fail("drift: request %s is settled and was never admitted", r)
			}
			continue
		}
		n.judgeState(r, s)
		if len(s.lines) > 0 {
			n.judgeLine(r, s, s.lines[0])
		} else {
			n.judgeNothing(r, s)
		}
	}
}

// judgeRest wants nothing to be under way any more.
func (n *network) judgeRest() {
	for _, h := range n.hubs {
		if waiting, open, final := h.hub.Unsettled(); waiting+open+final > 0 {
			n.fail("unpaid: %s still has %d unsettled, %d open and %d final in its journal", h.name, waiting, open, final)
		}
	}
	for _, r := range n.db.billing.Quarantined() {
		n.fail("unpaid: usage of %s is in quarantine: %s %s", r.Request, r.Reason, r.Detail)
	}
	lines, rejected := n.db.settlement.Count()
	if rejected > 0 {
		n.fail("unpaid: settlement has put %d events aside", rejected)
	}
	if settled := len(n.db.billing.Lines()); lines > settled {
		note := n.fail
		if n.nats.wipes > 0 && slices.ContainsFunc(n.hubs, func(h *hub) bool { return h.lost }) {
			note = func(format string, args ...any) { n.tolerate(neverSettled, format, args...) }
		}
		note("drift: settlement has %d lines, the ledger %d", lines, settled)
	}
	for _, a := range n.accounts {
		if open := n.db.billing.OpenOf(a.key); open != 0 {
			n.fail("drift: key %s counts %d open holds at rest", a.key, open)
		}
	}
}

// judgeState wants a request to end once.
func (n *network) judgeState(r ids.RequestID, s *story) {
	orphan := len(s.lines) == 1 && s.lines[0].Source == ledgersim.Orphan
	switch {
	case s.hold.State == ledgersim.Open:
		n.fail("drift: the hold of %s stays open", r)
	case len(s.lines) > 1:
		n.fail("doubled: request %s is settled %d times", r, len(s.lines))
	case s.hold.State == ledgersim.Settled && (len(s.lines) == 0 || orphan):
		n.fail("drift: the hold of %s is settled, and there is no line", r)
	case s.hold.State != ledgersim.Settled && len(s.lines) > 0 && !orphan:
		n.fail("drift: the hold of %s is %s, and there is a line", r, s.hold.State)
	}
	if s.client != nil && len(s.client.words) > 1 {
		n.fail("doubled: the client of %s got words of %d providers", r, len(s.client.words))
	}
}

// judgeLine holds a settled request against what its client got and its engine
// sent.
func (n *network) judgeLine(r ids.RequestID, s *story, l ledgersim.Line) {
	e := l.Event
	run := s.runs[e.Attempt]
	switch {
	case run == nil && e.Ending == "client_gone" && e.Billable.Completion == 0:
		n.tolerate(promptUnseen, "doubled: request %s is billed for the prompt of attempt %d, which no engine saw", r, e.Attempt)
		return
	case run == nil:
		n.fail("doubled: request %s is billed for attempt %d, which no engine saw", r, e.Attempt)
		return
	case run.session.agent.provider != e.Provider:
		n.fail("unpaid: request %s was served by %s, and %s is paid", r, run.session.agent.provider, e.Provider)
	case e.Billable.Completion > run.most(e.Ending):
		n.fail("doubled: request %s is billed for %d tokens, the engine sent %d", r, e.Billable.Completion, run.sent)
	case e.Billable.Completion > s.hold.MaxCompletionTokens || e.Billable.Prompt > s.hold.PromptTokens:
		n.fail("overdrawn: request %s is billed for %v beyond its hold", r, e.Billable)
	}
	n.judgeAmounts(r, l)
	if s.client != nil {
		n.judgeCharge(r, s, l, run)
	}
}

// most is how many tokens may be billed of a run: what it sent, or what it claims
// of an answer that it has ended.
func (r *run) most(ending string) int64 {
	if r.claims && ending == "completed" {
		return max(int64(r.sent), r.claimed)
	}
	return int64(r.sent)
}

// judgeAmounts computes the amounts anew, another way.
func (n *network) judgeAmounts(r ids.RequestID, l ledgersim.Line) {
	tokens := l.Event.Billable
	list := price(tokens, int64(rates.Input), int64(rates.Output), true)
	payout := price(tokens, int64(rates.PayoutInput), int64(rates.PayoutOutput), false)
	if int64(l.ListPrice) != list || int64(l.Payout) != payout {
		n.fail("drift: request %s costs %d and pays %d, want %d and %d", r, l.ListPrice, l.Payout, list, payout)
	}
	if l.Source != ledgersim.Orphan && l.Charged+l.Shortfall != l.ListPrice {
		n.fail("drift: request %s is charged %d, and %d are short, of %d", r, l.Charged, l.Shortfall, l.ListPrice)
	}
	earned, ok := n.db.settlement.Line(r)
	if !ok || int64(earned.Payout) != payout || earned.ProviderID != l.Event.Provider {
		n.fail("drift: settlement has %d for %s (%v), the ledger %d by the word of the %s", earned.Payout, r, ok, payout, l.Event.EvidenceSource)
	}
}

// price is tokens times rates in nano-USD, the half rounded to even or all
// rounded down.
func price(t money.Tokens, input, output int64, halfEven bool) int64 {
	pico := new(big.Int).Add(
		new(big.Int).Mul(big.NewInt(t.Prompt), big.NewInt(input)), new(big.Int).Mul(big.NewInt(t.Completion), big.NewInt(output)))
	nano, rest := new(big.Int).DivMod(pico, big.NewInt(1000), new(big.Int))
	if halfEven && (rest.Int64() > 500 || rest.Int64() == 500 && nano.Bit(0) == 1) {
		nano.Add(nano, big.NewInt(1))
	}
	return nano.Int64()
}

// judgeCharge is the table of stream endings as the client sees it.
func (n *network) judgeCharge(r ids.RequestID, s *story, l ledgersim.Line, run *run) {
	c, e := s.client, l.Event
	got := int64(c.count())
	if got > 0 && c.words[run.session.agent.letter] == 0 {
		n.fail("doubled: request %s is billed for another provider's answer than the client got", r)
	}
	switch {
	case c.complete:
		note := n.fail
		if call := s.calls[e.Attempt]; call != nil && (e.EvidenceSource == ledgersim.Gateway || l.Source == ledgersim.Orphan) && call.gwLife != c.gateway.life {
			note = func(format string, args ...any) { n.tolerate(lastRenewal, format, args...) }
		}
		switch {
		case c.lived(c.gateway.setBack):
			note = func(format string, args ...any) { n.tolerate(backInTime, format, args...) }
		case c.lived(c.gateway.unasked) && c.gateway.mute > ledgersim.Lease:
			note = func(format string, args ...any) { n.tolerate(notAsked, format, args...) }
		}
		if l.Source == ledgersim.Orphan && l.ListPrice > 0 {
			note("lost: the client of %s got a whole answer, and the platform pays for it", r)
		}
		if e.Billable.Completion < got {
			note("unpaid: the client of %s got a whole answer of %d tokens, and %d are billed", r, got, e.Billable.Completion)
		}
	case c.left, c.broken:
		// What was on the way, nobody can tell.
	default:
		n.judgeFailed(r, s, l)
	}
	if e.Ending == "client_gone" && !c.left {
		n.fail("doubled: the client of %s pays as one who left", r)
	}
	switch e.Ending {
	case "completed", "client_gone", "wall_limit":
	default:
		if e.Billable.Prompt > 0 {
			n.fail("doubled: request %s ended as %s and its prompt is billed", r, e.Ending)
		}
	}
}

// judgeNothing wants a reason for a request that is not billed.
func (n *network) judgeNothing(r ids.RequestID, s *story) {
	c := s.client
	if c == nil || c.count() == 0 {
		return
	}
	served := false
	for _, call := range s.calls {
		if call.task == c.task && call.session != nil && c.words[call.session.agent.letter] > 0 {
			served = true
			n.judgeLost(r, c, call)
		}
	}
	if !served {
		n.fail("lost: the client of %s got %d tokens of no engine", r, c.count())
	}
}

// judgeLost wants a reason for content that nobody pays.
func (n *network) judgeLost(r ids.RequestID, c *client, call *dispatchCall) {
	gatewayDied, hubDied := call.gwLife != c.gateway.life, call.hubLife != call.hub.life
	const text = "lost: the client of %s got %d tokens (whole: %v), and nothing is settled (gateway died %v, hub died %v)"
	args := []any{r, c.count(), c.complete, gatewayDied, hubDied}
	switch {
	case gatewayDied && !call.committed && !c.complete:
		n.tolerate(commitLost, text, args...)
	case hubDied && c.gateway.mute > ledgersim.Lease && !c.complete:
		n.tolerate(nobodyTold, text, args...)
	case gatewayDied && hubDied && (call.hub.lost || !c.complete):
		n.tolerate(bothDied, text, args...)
	default:
		n.fail(text, args...)
	}
}

// judgeFailed is for a client that was told that its request failed: it pays
// for what it got, and for no prompt.
func (n *network) judgeFailed(r ids.RequestID, s *story, l ledgersim.Line) {
	e, got := l.Event, int64(s.client.count())
	note := n.fail
	if call := s.calls[e.Attempt]; call != nil && !call.outcome && (call.said || call.hubLife != call.hub.life && s.client.gateway.mute > keepAlive) {
		note = func(format string, args ...any) { n.tolerate(endLost, format, args...) }
	}
	if e.Billable.Prompt > 0 && e.Ending != "wall_limit" {
		note("doubled: the client of %s was told that it failed, and pays a prompt of %d (%s)", r, e.Billable.Prompt, e.Ending)
	}
	if e.Billable.Completion > got {
		note("doubled: the client of %s was told that it failed after %d tokens, and pays %d (%s)", r, got, e.Billable.Completion, e.Ending)
	}
}
