package auditor

import "slices"

// judgeClients compares what was charged and paid with what clients got and engines sent.
func (a *audit) judgeClients() {
	callers := map[id]bool{}
	for _, c := range a.calls {
		callers[c.account] = true
		a.judgeCall(c)
	}
	for _, u := range a.ordered {
		q := a.requests[u]
		if len(q.calls) == 0 && len(q.lines) > 0 && callers[q.lines[0].account] {
			a.judgeUncalled(u, q)
		}
		a.judgeShared(u, q)
	}
}

// judgeUncalled judges a settled request without a call. If an engine served it, or may
// have, its client may have got no id.
func (a *audit) judgeUncalled(u id, q *request) {
	s := &q.lines[0]
	switch {
	case s.tokens == tokens{}:
	case len(q.engines) == 0 && a.mayHaveServed(s):
		a.r.doubt(about("request", u),
			"it is settled, no client knows its id, and an engine that knows no ids may have served it")
	case len(q.engines) == 0:
		a.r.found(Doubled, about("request", u),
			"%d + %d tokens are settled of a request that no client made and no engine served",
			s.tokens.prompt, s.tokens.completion)
	default:
		a.r.doubt(about("request", u), "it is settled and served, and no client's record is of it")
	}
}

// mayHaveServed reports whether one of the loose answers could belong to a settled
// request.
func (a *audit) mayHaveServed(s *settlement) bool {
	return slices.ContainsFunc(a.loose, func(e engineCall) bool {
		return e.provider == s.provider && e.model == s.model && e.tokens.completion >= s.tokens.completion
	})
}

// judgeShared finds an id that was given to two calls.
func (a *audit) judgeShared(u id, q *request) {
	whole := 0
	for _, c := range q.calls {
		if c.sight() == sawWhole {
			whole++
		}
	}
	if whole > 1 {
		a.r.found(Lost, about("request", u), "%d calls got a whole answer under this one id", whole)
	}
}

// judgeCall judges one call by its request.
func (a *audit) judgeCall(c *call) {
	if len(c.requests) == 0 {
		a.judgeUntied(c)
		return
	}
	a.judgeRepeats(c)
	u := c.requests[0]
	if i := slices.IndexFunc(c.requests, func(u id) bool { return len(a.requests[u].lines) > 0 }); i > 0 {
		u = c.requests[i]
	}
	q := a.requests[u]
	for _, s := range q.lines {
		if s.account != c.account {
			a.r.found(Doubled, about("request", u), "account %v is charged for a call of account %v", s.account, c.account)
			return
		}
	}
	if q.hold != nil && q.hold.model != c.model {
		a.r.found(Drift, about("request", u), "model %q was asked for and %q was admitted", c.model, q.hold.model)
	}
	a.r.Judged++
	if len(q.lines) == 0 {
		a.judgeUnsettled(u, q, c)
		return
	}
	a.judgeSettled(u, q, c)
}

// judgeUntied judges a call without an id anywhere.
func (a *audit) judgeUntied(c *call) {
	a.r.Untied++
	if s := c.sight(); c.bytes > 0 {
		a.r.doubt("call "+c.nonce, "its client got content (%s) and no request id", s)
	}
}

// judgeRepeats finds a call that became several requests with a cost.
func (a *audit) judgeRepeats(c *call) {
	var paid []id
	for _, u := range c.requests {
		for _, s := range a.requests[u].lines {
			if s.payout > 0 || s.listPrice > 0 {
				paid = append(paid, u)
				break
			}
		}
	}
	if len(paid) > 1 {
		a.r.found(Doubled, about("request", paid[1]), "call %s is settled twice, as %v too", c.nonce, paid[0])
	}
}

// judgeUnsettled judges a call without a settled request.
func (a *audit) judgeUnsettled(u id, q *request, c *call) {
	subject := about("request", u)
	state := "there is no hold"
	if q.hold != nil {
		state = "its hold is " + q.hold.state
	}
	saw := c.sight()
	switch {
	case saw == sawWhole && a.wantsNothing(q):
	case saw == sawWhole:
		a.r.found(Lost, subject, "its client got a whole answer of %d tokens, and nothing is settled: %s", c.received, state)
		a.r.found(Unpaid, subject, "its client got %d tokens, and no provider is credited: %s", c.received, state)
	case c.received > 0:
		a.r.found(Unpaid, subject, "its client got %d tokens (%s), and no provider is credited: %s", c.received, saw, state)
	}
}

// wantsNothing reports whether the engine itself says that its whole answer cost nothing.
func (a *audit) wantsNothing(q *request) bool {
	return slices.ContainsFunc(q.engines, func(e engineCall) bool {
		return e.complete && !e.silent && e.tokens == tokens{}
	})
}

// judgeSettled judges the settled request of a call.
func (a *audit) judgeSettled(u id, q *request, c *call) {
	if q.lines[0].rates.unit != unitToken {
		a.r.note("settled requests of images or audio, which no record of a call counts")
		return
	}
	subject, s, saw := about("request", u), &q.lines[0], c.sight()
	e := q.engineOf(s, saw == sawWhole)
	if a.unknowable(subject, c, e) {
		return
	}
	told := a.circumstance(q, c, e)
	r := ruleFor(saw, told)
	v := vouched{call: c, engine: e, hold: q.hold}
	floor := tokens{v.of(r.prompt.floor, true), v.of(r.completion.floor, false)}
	ceiling := tokens{v.of(r.prompt.ceiling, true), v.of(r.completion.ceiling, false)}
	if q.hold != nil {
		// Nothing is billed beyond what was admitted.
		floor.prompt, floor.completion = min(floor.prompt, q.hold.prompt), min(floor.completion, q.hold.maxCompletion)
	}
	if (s.tokens.prompt > ceiling.prompt || s.tokens.completion > ceiling.completion) &&
		!a.corrected(u, q, ceiling, v.of(sent, false)) {
		a.r.found(Doubled, subject, "%d + %d tokens are settled as %s, and the table allows at most %d + %d (%s)",
			s.tokens.prompt, s.tokens.completion, s.ending, ceiling.prompt, ceiling.completion, r.lines)
	}
	if s.tokens.prompt < floor.prompt || s.tokens.completion < floor.completion {
		a.tooLittle(subject, s, r, floor)
	}
	if saw == sawWhole && s.source == sourceOrphan && s.listPrice > 0 {
		a.r.found(Lost, subject,
			"its client got a whole answer, and the platform pays for it: its hold was %s when it was settled", q.state())
	}
	if saw == sawWhole && c.usage != nil && told == ordinary && *c.usage != s.tokens && !q.clamped(*c.usage) {
		a.r.found(Drift, subject, "its client was told of %d + %d tokens, and %d + %d are settled",
			c.usage.prompt, c.usage.completion, s.tokens.prompt, s.tokens.completion)
	}
	a.judgeProvider(subject, q, s, c)
	a.noteShort(u, s, r, c)
}

// tooLittle notes a settled request below what the table gives.
func (a *audit) tooLittle(subject string, s *settlement, r rule, floor tokens) {
	v := Unpaid
	if r.saw == sawWhole {
		v = Lost
		a.r.found(Unpaid, subject, "provider %v is credited for %d + %d tokens, and the table gives it %d + %d",
			s.provider, s.tokens.prompt, s.tokens.completion, floor.prompt, floor.completion)
	}
	a.r.found(v, subject, "%d + %d tokens are settled as %s, and the table wants at least %d + %d (%s)",
		s.tokens.prompt, s.tokens.completion, s.ending, floor.prompt, floor.completion, r.lines)
}

// unknowable notes a call whose engine's record is missing or contradicts the client's.
func (a *audit) unknowable(subject string, c *call, e *engineCall) bool {
	switch {
	case c.bytes == 0:
		return false // nothing came, and an answer without a record was not sent
	case e == nil && c.sight() == sawWhole && c.usage != nil:
		return false // the client's copy of the usage is used instead
	case e == nil:
		a.r.doubt(subject, "its client got content (%s), and no engine's record is of it", c.sight())
		return true
	case c.sight() == sawWhole && !e.complete:
		a.r.doubt(subject, "its client got a whole answer, and its engine's record is not of one")
		return true
	case e.tokens.completion < c.received:
		a.r.doubt(subject, "its client got %d tokens, and its engine's record has %d", c.received, e.tokens.completion)
		return true
	}
	return false
}

// noteShort counts what the platform's own failure took from providers. It is allowed,
// because nobody can know it, and worth a look.
func (a *audit) noteShort(request id, s *settlement, r rule, c *call) {
	if r.told == crashed && s.tokens.completion < c.received {
		a.r.note("requests lost by the platform and paid for in part")
	}
	if (r.told == finished || r.told == unreported) && a.givenBack(request) == 0 {
		a.r.note("requests whose usage settled before the word that they broke off")
	}
}

// judgeProvider checks that the credited provider sent content and, if the client saw the
// proper end of the answer, that this provider ended the answer properly.
func (a *audit) judgeProvider(subject string, q *request, s *settlement, c *call) {
	if len(q.engines) == 0 || s.tokens == (tokens{}) || c.received == 0 {
		return
	}
	whole := c.sight() == sawWhole
	for _, e := range q.engines {
		if e.provider.zero() {
			return // the engine does not know whose it is
		}
		if e.provider == s.provider && e.tokens.completion > 0 && (e.complete || !whole) {
			return
		}
	}
	a.r.found(Unpaid, subject, "provider %v is credited, and another served it: %v", s.provider,
		q.engines[len(q.engines)-1].provider)
}

// circumstance is what changes the bounds of a call.
func (a *audit) circumstance(q *request, c *call, e *engineCall) circumstance {
	s := &q.lines[0]
	switch {
	case c.sight() == sawWhole:
		if e != nil && e.silent {
			return uncounted
		}
	case s.ending == endingPlatformLost:
		return crashed
	case q.report != nil && q.report.gone:
		return vanished
	case s.ending == endingWallLimit:
		return overtime
	case e != nil && e.complete && s.ending == endingCompleted &&
		(q.report == nil || s.settledAt < q.report.recordedAt+a.skew):
		if e.silent {
			return unreported
		}
		return finished
	}
	return ordinary
}

// state is the state of the hold as text for a finding.
func (q *request) state() string {
	if q.hold == nil {
		return "missing"
	}
	return q.hold.state
}

// clamped reports whether usage is beyond what was admitted.
func (q *request) clamped(t tokens) bool {
	return q.hold != nil && (t.prompt > q.hold.prompt || t.completion > q.hold.maxCompletion)
}
