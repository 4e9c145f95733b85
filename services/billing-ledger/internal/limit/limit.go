// Package limit bounds callers: the rate of a key, the concurrency of an account, the
// visits of an address without a key, and how many calls of one kind work on the store at
// a time.
//
// A rate of n a minute lets n requests begin at once and another each minute/n (the
// generic cell rate algorithm) by the database's clock. Within any span of time w,
// wherever it begins, at most n + w/(minute/n) requests begin, so there is no moment at
// which a minute begins. The rate is kept where requests are admitted, so it is exact
// over all gateways and replicas.
//
// A request for a zero-priced model counts in its category, by key, and in one rate that
// all zero-priced models and all keys of the account share; the stricter decides. Only
// admitted requests count: a request that is refused, for whatever reason, takes nothing.
//
// Visits are counted within any window of time that ends now, exactly over all gateways
// and replicas. An address arrives as a hash under a key that only gateways have, so the
// ledger does not know who came. The address is forgotten when its last visit has left
// the window.
package limit

import (
	"svc.internal/pkg/fault"
	"svc.internal/pkg/money"
)

// LeftAtOnce is how many requests of an account its clients may leave in a minute within
// the time in which that is free.
const LeftAtOnce = 30

// Unlimited is the value of a limit that does not exist.
const Unlimited = -1

// Class is a rate in which requests count. The store keeps the numbers.
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

// ClassOf returns the class of a category's models.
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

// Category returns the category of the class's models; empty for ZeroPriced, which has models of
// all categories.
func (c Class) Category() string {
	switch c {
	case LLM:
		return "llm"
	case Multimodal:
		return "multimodal"
	case Embedding:
		return "embedding"
	case Image:
		return "image"
	case Audio:
		return "audio"
	case ZeroPriced:
	}
	return ""
}

// Unit returns the unit that models of the class are priced by.
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

// PerMinute returns the limits by class, LLM first.
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

// Limits are an account's own limits. RequestsPerMinute applies to each of its keys,
// ConcurrentRequests to all of them together. 0 means the default, and Unlimited none.
type Limits struct {
	RequestsPerMinute  int32
	ConcurrentRequests int32
	// Caps are the operators'; the account may have lower ones of its own.
	Caps
}

// PerMinute returns the limit of a class with this default. The account's limit replaces
// the limits of all categories.
func (l Limits) PerMinute(byDefault int32) int32 {
	if l.RequestsPerMinute == 0 {
		return byDefault
	}
	return l.RequestsPerMinute
}

// Validate refuses limits without a meaning.
func (l Limits) Validate() error {
	if l.RequestsPerMinute < Unlimited {
		return fault.New(fault.Invalid, fault.InvalidValue, "requests_per_minute must be -1 or more").On(
			"requests_per_minute")
	}
	if l.ConcurrentRequests < Unlimited {
		return fault.New(fault.Invalid, fault.InvalidValue, "concurrent_requests must be -1 or more").On(
			"concurrent_requests")
	}
	return l.Caps.Validate()
}
