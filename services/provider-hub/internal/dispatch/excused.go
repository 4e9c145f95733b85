package dispatch

import (
	"time"

	"svc.internal/services/provider-hub/internal/meter"
)

// freeTime is how long after its dispatch a consumer who has seen no content may
// leave for nothing.
const freeTime = time.Second

// What a provider is given before time that ran out is its fault.
const (
	// promptRate is how many tokens of prompt a second any provider reads.
	promptRate = 500
	// answerRate is how many tokens a second any provider answers in.
	answerRate = 20
	// leastExcuse is what the time for a prompt must come to, so that it can excuse
	// a first attempt.
	leastExcuse = 5 * time.Second
	// leastPatience is how long any provider may be without content before a
	// consumer who leaves owes it nothing.
	leastPatience = 5 * time.Second
	// maxAnswering is how much longer a whole answer may be waited for, of which
	// nothing is seen before its end.
	maxAnswering = 20 * time.Second
	// fetchTime is how long an agent may fetch the media that an order names.
	fetchTime = 10 * time.Second
	// hearingRate is how many seconds of audio any provider transcribes in one.
	hearingRate = 5
)

// promptTime is what the prompt of an order takes: its media to be fetched, and all
// to be read at promptRate.
func (o *Order) promptTime() time.Duration {
	if o.Kind != meter.Chat {
		return 0 // other estimates are of other units
	}
	return o.fetching() + perRate(o.EstimatedPrompt, promptRate)
}

// fetching is how long the media of an order may take to be fetched, which is the
// consumer's doing, because it says from where.
func (o *Order) fetching() time.Duration {
	if o.NamesMedia {
		return fetchTime
	}
	return 0
}

// patience is how long a provider may be without content before a consumer who
// leaves owes nothing: twice the usual time of the model at the prompt's length. It
// is the provider's own word only in part, since the usual is the median over the
// model's providers. Where it is not known, it is what any provider reads the prompt
// in. Media that are named by address take fetchTime before.
func (o *Order) patience() time.Duration {
	usual := 2 * o.UsualFirstContent
	switch {
	case usual > 0:
	case o.Kind == meter.Transcriptions:
		usual = perRate(o.EstimatedPrompt, hearingRate*1000)
	default:
		usual = perRate(o.EstimatedPrompt, promptRate)
	}
	return o.fetching() + max(usual, leastPatience)
}

// answering is what a whole answer has besides, of which nothing is seen before its
// end: what the longest that the order allows takes, up to maxAnswering.
func (o *Order) answering() time.Duration {
	if o.Stream || o.Kind != meter.Chat {
		return 0
	}
	return min(perRate(o.MaxOutput, answerRate), maxAnswering)
}

// hung reports whether a consumer who leaves after so long owes nothing, because the
// provider had its time. One that lets consumers wait for whole answers again and
// again and gives none loses what whole answers have besides, so that it is not paid
// for them for ever.
func (a *attempt) hung(waited time.Duration) bool {
	late := waited - a.order.patience()
	more := a.order.answering()
	if late > 0 && more > 0 && a.dispatcher.silences.another(a.order.pair()) {
		more = 0
	}
	return late > more
}

func (o *Order) pair() pair { return pair{o.Provider, o.Model} }

// hurriedContent reports whether an order gives its provider less time to first
// content than it may need: the prompt is long, or earlier attempts took the time.
func (o *Order) hurriedContent() bool {
	prompt := o.promptTime()
	return (o.Attempt > 1 || prompt >= leastExcuse) && o.FirstContent < defaultFirstContent+prompt
}

// hurriedAnswer reports whether an order gives its provider less time for the whole
// answer than the longest that it allows may need.
func (o *Order) hurriedAnswer() bool {
	prompt, answer := o.promptTime(), time.Duration(0)
	if o.Kind == meter.Chat {
		answer = perRate(o.MaxOutput, answerRate) // choices are answered side by side
	}
	return prompt+answer >= defaultTotal-defaultFirstContent && o.Total < defaultFirstContent+prompt+answer
}

// perRate is how long a count takes at a rate a second, at most a day.
func perRate(count, rate int64) time.Duration {
	const most = 24 * time.Hour
	return min(time.Duration(min(count/rate, int64(most/time.Second)))*time.Second, most)
}

// excused reports whether a failure says little of the provider, so that it alone
// must not count: another has failed the same request, or the consumer may have
// brought it about.
func (a *attempt) excused(v *verdict) bool {
	return v.outcome == Failed && (a.order.FailedElsewhere || v.excused)
}
