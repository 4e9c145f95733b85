package events

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"svc.internal/pkg/money"
	"svc.internal/pkg/money/moneypb"
	eventsv1 "svc.internal/proto/svc/events/v1"
	moneyv1 "svc.internal/proto/svc/money/v1"
)

// claimed is what the verifier reads of a UsageEvent. Texts alias the event.
type claimed struct {
	request, hub, provider, model      []byte
	rates                              money.Rates
	billablePrompt, billableCompletion int64
	state                              eventsv1.ClaimState
	claimedPrompt, claimedCompletion   int64
	source                             eventsv1.EvidenceSource
	settled                            bool
	unit                               moneyv1.Unit
}

// readClaimed reads an encoded UsageEvent without allocating: each event is read here twice, and
// a whole UsageEvent costs 18 allocations. It reports false for what is no message. Where
// protobuf itself reads the event, both agree. Fields that the verifier does not use are not
// looked into, because what cannot be read is the ledger's to set aside.
func readClaimed(event []byte) (c claimed, ok bool) {
	for len(event) > 0 {
		number, kind, n := protowire.ConsumeTag(event)
		if n < 0 {
			return claimed{}, false
		}
		size := protowire.ConsumeFieldValue(number, kind, event[n:])
		if size < 0 {
			return claimed{}, false
		}
		value := event[n : n+size]
		event = event[n+size:]
		switch kind { //nolint:exhaustive // what else there is is skipped
		case protowire.BytesType:
			body, _ := protowire.ConsumeBytes(value)
			if !c.setText(number, body) {
				return claimed{}, false
			}
		case protowire.VarintType:
			v, _ := protowire.ConsumeVarint(value)
			c.setNumber(number, v)
		}
	}
	c.rates.Unit = moneypb.ToUnit(c.unit)
	return c, true
}

// setText reads a text or the rates. It reports false for a text that is not UTF-8, and for rates
// that are no message.
func (c *claimed) setText(number protowire.Number, body []byte) bool {
	switch number {
	case 1:
		c.request = body
	case 3:
		c.hub = body
	case 4:
		c.provider = body
	case 6:
		c.model = body
	case 8:
		return c.setRates(body)
	default:
		return true
	}
	return utf8.Valid(body)
}

func (c *claimed) setNumber(number protowire.Number, v uint64) {
	switch number { //nolint:exhaustive // what else there is is skipped
	case 10:
		c.billablePrompt = int64(v)
	case 11:
		c.billableCompletion = int64(v)
	case 12:
		c.state = eventsv1.ClaimState(v)
	case 13:
		c.claimedPrompt = int64(v)
	case 14:
		c.claimedCompletion = int64(v)
	case 22:
		c.source = eventsv1.EvidenceSource(v)
	case 23:
		c.settled = protowire.DecodeBool(v)
	}
}

// setRates reads rates. Rates that come twice are merged, as protobuf demands.
func (c *claimed) setRates(rates []byte) bool {
	for len(rates) > 0 {
		number, kind, n := protowire.ConsumeTag(rates)
		if n < 0 {
			return false
		}
		size := protowire.ConsumeFieldValue(number, kind, rates[n:])
		if size < 0 {
			return false
		}
		if kind == protowire.VarintType {
			v, _ := protowire.ConsumeVarint(rates[n:])
			c.setRate(number, v)
		}
		rates = rates[n+size:]
	}
	return true
}

func (c *claimed) setRate(number protowire.Number, v uint64) {
	switch rate := money.PicoUSD(v); number { //nolint:exhaustive // what else there is is skipped
	case 1:
		c.rates.Input = rate
	case 2:
		c.rates.Output = rate
	case 3:
		c.rates.PayoutInput = rate
	case 4:
		c.rates.PayoutOutput = rate
	case 5:
		c.unit = moneyv1.Unit(v)
	case 6:
		c.rates.PayoutCachedInput = rate
	}
}
