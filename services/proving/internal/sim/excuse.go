package sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/services/billing-ledger/ledgersim"
	"svc.internal/services/proving/internal/auditor"
)

// story is everything that is known of one request outside of the ledger.
type story struct {
	client *client
	hold   *ledgersim.Hold
	lines  []ledgersim.Line
	runs   map[int32]*run // by attempt
	calls  map[int32]*dispatchCall
}

// rest is a history that has come to rest, by its requests.
type rest struct {
	*network
	stories map[ids.RequestID]*story
	order   []ids.RequestID
	// counted are the limits that were counted for a subject, because one loss may show
	// as several findings.
	counted map[[2]string]bool
}

// atRest gathers the story of every request, in a fixed order.
func (n *network) atRest() *rest {
	x := &rest{network: n, stories: map[ids.RequestID]*story{}, counted: map[[2]string]bool{}}
	for _, h := range n.db.billing.Holds() {
		x.story(h.Request).hold = h
	}
	for _, l := range n.db.billing.Lines() {
		s := x.story(l.Event.Request)
		s.lines = append(s.lines, l)
	}
	for _, c := range n.clients {
		if r, err := ids.ParseRequest(c.header.Get("X-Svc-Request-Id")); err == nil {
			x.story(r).client = c
		}
	}
	for _, a := range n.agents {
		for _, r := range a.runs {
			if id, err := ids.ParseRequest(r.request); err == nil {
				s := x.story(id)
				s.runs[int32(r.attempt)], s.calls[int32(r.attempt)] = r, r.call
			}
		}
	}
	return x
}

// story is the story of a request, made when it is new.
func (x *rest) story(r ids.RequestID) *story {
	s := x.stories[r]
	if s == nil {
		s = &story{runs: map[int32]*run{}, calls: map[int32]*dispatchCall{}}
		x.stories[r] = s
		x.order = append(x.order, r)
	}
	return s
}

// undecided is the verdict on what the auditor cannot judge.
const undecided auditor.Verdict = "undecided"

// found notes a finding: as a failure, or as the cost of a known limit.
func (x *rest) found(v auditor.Verdict, f auditor.Finding) {
	if limit, ok := x.excuse(v, f.Subject); ok {
		x.tolerate(limit, f.Subject, "%s: %s: %s", v, f.Subject, f.Text)
		return
	}
	x.fail("%s: %s: %s", v, f.Subject, f.Text)
}

// excuse names the known limit of the design that explains a finding.
func (x *rest) excuse(v auditor.Verdict, subject string) (limit string, ok bool) {
	kind, id, _ := strings.Cut(subject, " ")
	switch kind {
	case "provider":
		provider, err := ids.ParseProvider(id)
		return neverSettled, err == nil && v == auditor.Drift && x.hubForgot() && x.accruals(provider)
	case "request":
		request, err := ids.ParseRequest(id)
		s := x.stories[request]
		switch {
		case err != nil || s == nil || s.hold == nil:
		case len(s.lines) > 0:
			return x.settled(v, s)
		case v == auditor.Drift:
			_, earned := x.db.settlement.Line(request)
			return neverSettled, earned && s.hold.State != ledgersim.Settled && x.hubForgot()
		case v == auditor.Lost || v == auditor.Unpaid:
			return x.unsettled(s)
		}
	}
	return "", false
}

// hubForgot reports whether usage can have been in a stream and on a disk that
// are both gone.
func (x *rest) hubForgot() bool {
	return x.nats.wipes > 0 && slices.ContainsFunc(x.hubs, func(h *hub) bool { return h.lost })
}

// accruals reports whether the two ledgers have accrued the same to a provider, except
// for requests that the ledger has not settled.
func (x *rest) accruals(provider ids.ProviderID) bool {
	var difference money.NanoUSD
	for request, s := range x.stories {
		if len(s.lines) == 0 {
			continue
		}
		if earned, ok := x.db.settlement.Line(request); ok && earned.ProviderID == provider {
			difference += earned.Payout
		}
		for _, l := range s.lines {
			if l.Event.Provider == provider {
				difference -= l.Payout
			}
		}
	}
	return difference == 0
}

// settled excuses the amount for which a request is settled. It does not excuse a request
// that is settled twice, nor a difference between the two ledgers.
func (x *rest) settled(v auditor.Verdict, s *story) (limit string, ok bool) {
	c, l := s.client, s.lines[0]
	earned, stands := x.db.settlement.Line(l.Event.Request)
	if c == nil || len(s.lines) > 1 || !stands || earned.Payout != l.Payout || earned.ProviderID != l.Event.Provider {
		return "", false
	}
	call := s.calls[l.Event.Attempt]
	if c.complete && (v == auditor.Lost || v == auditor.Unpaid) {
		return c.shortOf(l, call)
	}
	if c.complete || c.left || c.broken || v != auditor.Doubled {
		return "", false
	}
	// The client got an error for its request, and pays as if it had not.
	hubDied := call != nil && call.hubLife != call.hub.life && c.gateway.mute > keepAlive
	return endLost, call != nil && !call.outcome && (call.said || hubDied)
}

// shortOf excuses that less is settled of a whole answer than its client got, or that the
// platform pays for it.
func (c *client) shortOf(l ledgersim.Line, call *dispatchCall) (limit string, ok bool) {
	byGateway := l.Event.EvidenceSource == ledgersim.Gateway
	switch {
	case c.lived(c.gateway.setBack):
		return backInTime, true
	case c.lived(c.gateway.unasked) && c.gateway.mute > ledgersim.Lease:
		return notAsked, true
	case call != nil && (byGateway || l.Source == ledgersim.Orphan) && call.gwLife != c.gateway.life:
		return lastRenewal, true
	}
	return relayedOnly, byGateway && l.Source != ledgersim.Orphan && l.Event.Billable.Completion >= int64(c.count())
}

// unsettled excuses that a client got content and nothing of it is settled. Each call
// that has served it must have an excuse.
func (x *rest) unsettled(s *story) (limit string, ok bool) {
	c := s.client
	if c == nil {
		return "", false
	}
	for _, attempt := range slices.Sorted(maps.Keys(s.calls)) {
		call := s.calls[attempt]
		if call.task != c.task || call.session == nil || c.words[call.session.agent.letter] == 0 {
			continue
		}
		if limit, ok = call.died(c); !ok {
			return "", false
		}
	}
	return limit, ok
}

// died names the limit by which the deaths of a call's gateway and hub explain that
// nobody can know its outcome.
func (call *dispatchCall) died(c *client) (limit string, ok bool) {
	gatewayDied, hubDied := call.gwLife != c.gateway.life, call.hubLife != call.hub.life
	switch {
	case gatewayDied && !call.committed && !c.complete:
		return commitLost, true
	case hubDied && c.gateway.mute > ledgersim.Lease && !c.complete:
		return nobodyTold, true
	case gatewayDied && hubDied && (call.hub.lost || !c.complete):
		return bothDied, true
	}
	return "", false
}

// lived reports whether one of the times is within the call.
func (c *client) lived(times []time.Duration) bool {
	return slices.ContainsFunc(times, func(at time.Duration) bool { return at >= c.began && at <= c.overAt })
}

// tolerate notes a finding that a known limit explains.
func (x *rest) tolerate(limit, subject, format string, args ...any) {
	if key := [2]string{limit, subject}; !x.counted[key] || x.cfg.Strict {
		x.counted[key] = true
		x.network.tolerate(limit, format, args...)
	}
}
