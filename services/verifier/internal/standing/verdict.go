package standing

import (
	"crypto/sha256"
	"fmt"

	"svc.internal/services/verifier/internal/evidence"
	"svc.internal/services/verifier/internal/ladder"
	"svc.internal/services/verifier/internal/probe"
)

// tell adds a verdict to the outcome and returns its id.
func (m *move) tell(k Kind, trigger string, e ladder.Effects) probe.VerdictID {
	return m.tellOf(k, trigger, e, probe.VerdictID{})
}

// tellOf adds a verdict about a penalty.
func (m *move) tellOf(k Kind, trigger string, e ladder.Effects, of probe.VerdictID) probe.VerdictID {
	v := Verdict{
		ID: m.id(k, trigger), Offer: m.world.Offer, Kind: k, Trigger: trigger, At: m.at, Of: of,
		Effects: e, NeedsOperator: e.NeedsOperator,
	}
	if k == Misrepresentation {
		v.Leading = m.Led
	}
	v.Summary = v.summary()
	m.out.Verdicts = append(m.out.Verdicts, v)
	return v.ID
}

// id returns a UUID of version 7 that follows from the event alone, so that trying an event
// again gives the same id.
func (m *move) id(k Kind, trigger string) probe.VerdictID {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "svc verdict v1\n%s\n%d %s\n%d %s\n%s %s", m.world.Offer.Provider,
		len(m.world.Offer.Model), m.world.Offer.Model, len(m.world.Key), m.world.Key, k, trigger) // a hash never fails
	var id probe.VerdictID
	copy(id[6:], h.Sum(nil))
	ms := uint64(max(0, m.at.UnixMilli()))
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// subjects say for people what a family looks at.
var subjects = map[evidence.Family]string{
	evidence.Greedy:   "answers at temperature 0",
	evidence.Sampled:  "sampled answers",
	evidence.Logprobs: "stated log-probabilities",
	evidence.Recall:   "the context window",
	evidence.Usage:    "claimed tokens and endings",
	evidence.Files:    "files of the model",
	evidence.Visible:  "answers to challenges",
}

// said is what a trigger means for people.
var said = map[string]string{
	string(ladder.Notify):  "%s differ from what is stated; a notice was given",
	string(ladder.Pursue):  "%s still differ from what is stated; a confirmation with another reference began",
	string(ladder.Acquit):  "the confirmation did not confirm that %s differ from what is stated",
	string(ladder.Recover): "%s agree again with what is stated",
	string(ladder.Convict): "it was confirmed that %s differ from what is stated",
	string(ladder.Settle):  "the penalty is final; what happens from now on counts from nothing",
	string(ladder.Reverse): "the penalty was reversed",
	string(ladder.Pass):    "the benchmark was passed",
	string(ladder.Fail):    "the benchmark was failed",
	string(ladder.Undo):    "the penalty for a failed benchmark was reversed",
	Approve:                "an operator has agreed to the penalty",
	Refuse:                 "an operator has refused the penalty",
	Withdraw:               "the notice was taken back, because its observations are void",
}

// summary says in one sentence what was decided. It names no threshold.
func (v Verdict) summary() string {
	text := said[v.Trigger]
	switch v.Trigger {
	case string(ladder.Notify), string(ladder.Pursue), string(ladder.Acquit), string(ladder.Recover),
		string(ladder.Convict):
		subject, ok := subjects[v.Leading]
		if !ok {
			subject = "answers"
		}
		text = fmt.Sprintf(text, subject)
	}
	switch {
	case v.NeedsOperator:
		text += "; a penalty waits for an operator"
	case v.Effects.Slash > 0:
		text += fmt.Sprintf("; the penalty is %d%% of the collateral", v.Effects.Slash/100)
	}
	if v.Effects.Remove {
		text += " and removal from the network"
	}
	return text + "."
}
