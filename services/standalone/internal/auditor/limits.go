package auditor

import (
	"cmp"
	"slices"
)

// checkLimits asks whether more ran at once, or began in one minute, than the
// setup allows an account. Both take every order that the rows allow, as replay
// does: a request runs from the end of its admission's span to the earlier of
// its hold's end and the gateway's word, and one that was admitted in the last
// moments of a minute may count in the next. The rate is that of one model,
// for the limit of an account is one for each category of models.
func (a *audit) checkLimits() {
	type perMinute struct {
		key    id
		model  string
		minute int64
	}
	edges := map[id][]edge{}
	rate := map[perMinute]int64{}
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
		if limits.RequestsPerMinute > 0 && h.admittedAt%minute < minute-a.skew {
			at := perMinute{h.key, h.model, h.admittedAt / minute}
			if rate[at]++; rate[at] == limits.RequestsPerMinute+1 {
				a.r.found(Overdrawn, about("request", u), "it is above %d requests of %s in one minute of key %v", limits.RequestsPerMinute, h.model, h.key)
			}
		}
	}
	for _, key := range sortedIDs(edges) {
		a.checkConcurrency(key, edges[key])
	}
}

// edge is the begin or the end of a request's run.
type edge struct {
	at      int64
	change  int64
	request *hold
}

// span is the time in which a request surely ran; nothing when that is not
// known.
func (a *audit) span(q *request) []edge {
	from, to := q.hold.admittedAt+a.skew, q.hold.closed
	if to == 0 {
		to = max(a.exportedAt, from)
	}
	if q.witness != nil {
		to = min(to, q.witness.recordedAt)
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
