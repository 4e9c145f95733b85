// Package limit has what bounds callers: the rate and the concurrency of a key,
// the visits of an address without a key, and how many calls of one kind work on
// the store at a time.
//
// A rate of n a minute lets n requests begin at once and another each minute/n
// (the generic cell rate algorithm) by the database's clock: within any span of
// time w, wherever it begins, at most n + w/(minute/n). It is kept where requests
// are admitted, so that it is exact however many gateways and replicas there are.
//
// A request for a zero-priced model counts in its category and in the one rate
// that all zero-priced models of the key share; the stricter decides. Only
// admitted requests count: one that is refused for whatever reason takes nothing.
//
// Visits are counted within any window of time that ends now, exact over all
// gateways and all replicas. An address comes as a keyed hash, whose key gateways
// have, so that the ledger does not know who came. The address is forgotten when
// its last visit has left the window.
package limit

import (
	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
)

// LeftAtOnce is how many requests of an account a minute may be left by their
// clients within the time in which that is free.
const LeftAtOnce = 30

// Unlimited stands for no limit.
const Unlimited = -1

// Class is a rate that requests count in. The numbers are kept in the store.
type Class int16

// The classes.
const (
	LLM        Class = 1
	Multimodal Class = 2
	Embedding  Class = 3
	// ZeroPriced is shared by all models that cost nothing.
	ZeroPriced Class = 4
	Image      Class = 5
	Audio      Class = 6
)

// ClassOf is the class that the models of a category count in.
func ClassOf(category string) (Class, bool) {
	switch category {
	case "llm":
		return LLM, true
	case "multimodal":
		return Multimodal, true
	case "embedding":
		return Embedding, true
	case "image":
		return Image, true
	case "audio":
		return Audio, true
	}
	return 0, false
}

// Unit is what models of the class are priced by.
func (c Class) Unit() money.Unit {
	switch c {
	case Image:
		return money.Image
	case Audio:
		return money.AudioMinute
	case LLM, Multimodal, Embedding, ZeroPriced:
	}
	return money.Token
}

// Defaults apply where an account has no limits of its own; Unlimited is none.
type Defaults struct {
	LLMPerMinute        int32
	MultimodalPerMinute int32
	EmbeddingPerMinute  int32
	ZeroPricedPerMinute int32
	ImagePerMinute      int32
	AudioPerMinute      int32
	Concurrent          int32
}

// PerMinute lists the limits by class, that of LLM first.
func (d Defaults) PerMinute() []int32 {
	return []int32{
		d.LLMPerMinute, d.MultimodalPerMinute, d.EmbeddingPerMinute, d.ZeroPricedPerMinute, d.ImagePerMinute,
		d.AudioPerMinute,
	}
}

// Valid reports whether each limit is Unlimited or above zero.
func (d Defaults) Valid() bool {
	for _, n := range append(d.PerMinute(), d.Concurrent) {
		if n != Unlimited && n < 1 {
			return false
		}
	}
	return true
}

// Limits are an account's own: they apply to each of its keys, 0 takes the
// default and Unlimited is none.
type Limits struct {
	RequestsPerMinute  int32
	ConcurrentRequests int32
}

// PerMinute is the limit of a class with a default of its own: the account's
// replaces those of all categories.
func (l Limits) PerMinute(byDefault int32) int32 {
	if l.RequestsPerMinute == 0 {
		return byDefault
	}
	return l.RequestsPerMinute
}

// Validate refuses what means nothing.
func (l Limits) Validate() error {
	if l.RequestsPerMinute < Unlimited {
		return fault.New(fault.Invalid, fault.InvalidValue, "requests_per_minute must be -1 or more").On(
			"requests_per_minute")
	}
	if l.ConcurrentRequests < Unlimited {
		return fault.New(fault.Invalid, fault.InvalidValue, "concurrent_requests must be -1 or more").On(
			"concurrent_requests")
	}
	return nil
}
