package auditor

import (
	"cmp"
	"slices"
)

// checkLimits checks that no more requests ran at once, or began within any span of time,
// than the setup allows an account. Concurrency is judged in every order that the rows
// allow, as in replay: a request runs from the end of its admission's span to the earlier
// of its hold's end and the gateway's report. A rate is that of one model, because an
// account has one limit for each category of models.
func (a *audit) checkLimits() {
	edges := map[id][]edge{}
	begun := map[paced][]begin{}
	for _, u := range a.ordered {
		q := a.requests[u]
		h := q.hold
		if h == nil {
			continue
		}
		limits, ok := a.setup.accounts[h.account]
		if !ok {
			continue
		}
		if limits.ConcurrentRequests > 0 {
			edges[h.key] = append(edges[h.key], a.span(q)...)
		}
		if limits.RequestsPerMinute > 0 {
			to := paced{h.key, h.model, limits.RequestsPerMinute}
			begun[to] = append(begun[to], begin{h.admittedAt, u})
		}
	}
	for to, all := range begun {
		a.checkRate(to, all)
	}
	for _, key := range sortedIDs(edges) {
		a.checkConcurrency(key, edges[key])
	}
}

// paced is a group with one rate: that many requests may begin at once, and one more each
// minute divided by as many.
type paced struct {
	key       id
	model     string
	perMinute int64
}

// begin is the admission of a request.
type begin struct {
	at      int64
	request id
}

// checkRate finds the first request that began too soon. Each request's share is back
// after those before it, so the time at which all of it is back suffices.
func (a *audit) checkRate(to paced, all []begin) {
	slices.SortFunc(all, func(x, y begin) int {
		return cmp.Or(cmp.Compare(x.at, y.at), slices.Compare(x.request[:], y.request[:]))
	})
	every := (minute + to.perMinute - 1) / to.perMinute
	var full int64
	for _, b := range all {
		if full-b.at > (to.perMinute-1)*every {
			a.r.found(Overdrawn, about("request", b.request), "it is above %d requests of %s a minute of key %v", to.perMinute,
				to.model, to.key)
			return
		}
		full = max(full, b.at) + every
	}
}

// edge is the begin or the end of a request's run.
type edge struct {
	at      int64
	change  int64
	request *hold
}

// span is the time in which a request surely ran; nothing when that is not known.
func (a *audit) span(q *request) []edge {
	from, to := q.hold.admittedAt+a.skew, q.hold.closed
	if to == 0 {
		to = max(a.exportedAt, from)
	}
	if q.report != nil {
		to = min(to, q.report.recordedAt)
	}
	if from >= to {
		return nil
	}
	return []edge{{from, 1, q.hold}, {to, -1, q.hold}}
}

func (a *audit) checkConcurrency(key id, edges []edge) {
	slices.SortFunc(edges, func(x, y edge) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.change, y.change)) })
	var running int64
	for _, e := range edges {
		running += e.change
		if limit := a.setup.accounts[e.request.account].ConcurrentRequests; running > limit {
			a.r.found(Overdrawn, about("key", key), "%d requests ran at once, of %d allowed", running, limit)
			return
		}
	}
}
