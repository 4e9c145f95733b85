package dispatch

import (
	"time"

	"svc.internal/services/provider-hub/internal/meter"
)

// freeTime is how long after its dispatch a consumer who has seen no content may leave
// without owing the prompt.
const freeTime = time.Second

// freeTime is that of the order. A vendor's has none, because the vendor bills the platform for
// the prompt however early the consumer leaves. A provider's own queue costs nobody anything.
func (o *Order) freeTime() time.Duration {
	if o.Vendor {
		return 0
	}
	return freeTime
}

// The time that a provider has before running out of time is its fault.
const (
	// promptRate is the rate at which any provider reads a prompt, in tokens a second.
	promptRate = 500
	// answerRate is the rate at which any provider answers, in tokens a second.
	answerRate = 20
	// leastExcuse is the time for a prompt from which on it can excuse a first attempt.
	leastExcuse = 5 * time.Second
	// leastPatience is how long any provider may be without content before a consumer who
	// leaves owes nothing.
	leastPatience = 5 * time.Second
	// maxAnswering bounds the further time of a whole answer, which shows nothing before
	// its end.
	maxAnswering = 20 * time.Second
	// fetchTime is how long an agent may take to fetch the media that an order names by
	// address.
	fetchTime = 10 * time.Second
	// hearingRate is how many seconds of audio any provider transcribes in one second.
	hearingRate = 5
)

// promptTime is how long the prompt of an order may take: the fetch of its media, and
// then reading at promptRate.
func (o *Order) promptTime() time.Duration {
	if o.Kind != meter.Chat {
		return 0 // the estimates of other kinds are in other units
	}
	return o.fetching() + perRate(o.EstimatedPrompt, promptRate)
}

// fetching is how long the media of an order may take to be fetched. A slow fetch is the
// consumer's doing, because the consumer says where the media are. So running out of time
// while media are fetched is suspicion only.
func (o *Order) fetching() time.Duration {
	if o.NamesMedia {
		return fetchTime
	}
	return 0
}

// patience is how long a provider may be without content before a consumer who leaves
// owes nothing: twice the usual time of the model at the prompt's length, at least
// leastPatience. The usual time is the provider's own word only in part, because it is
// the median over the model's providers. Where it is not known, the time in which any
// provider reads the prompt takes its place. Media that are named by address take
// fetchTime before.
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

// answering is the further time of a whole answer, which shows nothing before its end in
// either dialect: as long as the longest answer that the order allows takes at
// answerRate, up to maxAnswering. Being late for it is suspicion only.
func (o *Order) answering() time.Duration {
	if o.Stream || o.Kind != meter.Chat {
		return 0
	}
	return min(perRate(o.MaxOutput, answerRate), maxAnswering)
}

// hung reports whether a consumer who leaves after so long owes nothing, because the
// provider had its time. A provider that again and again lets consumers wait for whole
// answers and gives none loses the time of answering, because it would otherwise be paid
// for such prompts for ever.
func (a *attempt) hung(waited time.Duration) bool {
	late := waited - a.order.patience()
	more := a.order.answering()
	if late > 0 && more > 0 && a.dispatcher.silences.another(a.order.pair()) {
		more = 0
	}
	return late > more
}

func (o *Order) pair() pair { return pair{o.Provider, o.Model} }

// hurriedContent reports whether an order gives its provider less time to first content
// than it may need, because the prompt is long or earlier attempts took the time.
func (o *Order) hurriedContent() bool {
	prompt := o.promptTime()
	return (o.Attempt > 1 || prompt >= leastExcuse) && o.FirstContent < defaultFirstContent+prompt
}

// hurriedAnswer reports whether an order gives its provider less time for the whole
// answer than the longest allowed answer may need.
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

// excused reports whether a failure says little of the provider, so that it must not
// count alone: another provider has failed the same request, or the consumer may have
// caused the failure.
func (a *attempt) excused(v *verdict) bool {
	return v.outcome == Failed && (a.order.FailedElsewhere || v.excused)
}
