package auditor

import "slices"

// vouched holds the parties whose counts may be used.
type vouched struct {
	call   *call
	engine *engineCall
	hold   *hold
}

// of is the number behind a count, of the prompt or of the completion.
func (v vouched) of(c count, prompt bool) int64 {
	switch c {
	case nothing:
	case one:
		return 1
	case received:
		return v.call.received
	case perByte:
		return v.call.bytes
	case sent:
		if v.engine != nil {
			return v.engine.tokens.completion
		}
	case reported:
		return v.reported(prompt)
	case coverage:
		return v.covered()
	case greatest:
		return max(v.reported(true), v.covered())
	}
	return 0
}

func (v vouched) covered() int64 {
	if v.hold == nil {
		return 0
	}
	return v.hold.prompt
}

// reported is the engine's usage, or the usage that the client got.
func (v vouched) reported(prompt bool) int64 {
	var t tokens
	switch {
	case v.engine != nil:
		t = v.engine.tokens
	case v.call.usage != nil:
		t = *v.call.usage
	}
	if prompt {
		return t.prompt
	}
	return t.completion
}

// engineOf is the record of the engine that served a settled request. A record of the
// credited provider is preferred, then a record that ended properly, then the record with
// the most completion tokens. If whole is set, the proper end goes before the provider.
func (q *request) engineOf(s *settlement, whole bool) *engineCall {
	var best *engineCall
	rank := func(e *engineCall) []int64 {
		r := []int64{0, 0, 0, e.tokens.completion}
		if whole && e.complete {
			r[0] = 1
		}
		if e.provider == s.provider {
			r[1] = 1
		}
		if e.complete {
			r[2] = 1
		}
		return r
	}
	for i := range q.engines {
		e := &q.engines[i]
		if best == nil || slices.Compare(rank(e), rank(best)) > 0 {
			best = e
		}
	}
	return best
}
