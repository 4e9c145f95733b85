package plan

import (
	"svc.internal/pkg/money"
	"svc.internal/services/verifier/internal/probe"
)

// Cost estimates what a hidden probe costs at the model's price: all its tokens, with an
// answer as long as it may be. A visible probe costs nothing. An amount that does not fit
// is more than any budget.
func Cost(p probe.Plan, r money.Rates) money.NanoUSD {
	if p.Flow != probe.Hidden {
		return 0
	}
	amount, err := r.Charge(money.Tokens{Prompt: int64(p.PromptTokens), Completion: int64(p.MaxTokens)})
	if err != nil {
		return unaffordable
	}
	return amount
}

const (
	// unaffordable is more than every budget.
	unaffordable money.NanoUSD = 1 << 62
	// leastADay is what an offer's probes of a day may always cost: $.02. payoutPart is how
	// many times as much its payout of a day is where they may cost more: 1% of it.
	leastADay  money.NanoUSD = money.USD / 50
	payoutPart               = 100
	// picoPerNano is the pico-USD in one nano-USD.
	picoPerNano = 1000
)

// allowance returns what the offer's probes of a UTC day may cost.
func (o Offer) allowance() money.NanoUSD { return max(leastADay, o.PayoutADay/payoutPart) }

// affordable returns how many tokens of a prompt an amount pays for, beside an answer.
func affordable(amount money.NanoUSD, answer int, r money.Rates) int {
	if r.Input <= 0 {
		return probe.MaxPromptTokens
	}
	left := float64(amount)*picoPerNano - float64(r.Output)*float64(answer)
	return int(max(0, min(left/float64(r.Input), probe.MaxPromptTokens)))
}
