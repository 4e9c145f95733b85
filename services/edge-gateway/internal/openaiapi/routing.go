package openaiapi

import (
	"fmt"
	"slices"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/jsonscan"
	"svc.internal/pkg/money"
)

// The bounds of a body's routing.
const (
	// MaxFallbackModels bounds models.
	MaxFallbackModels = 8
	// MaxProviders bounds each list of providers.
	MaxProviders = 32
	// MaxQuantizations bounds quantizations.
	MaxQuantizations = 16
	maxQuantization  = 32
	maxPrice         = 32 // bytes of one price
)

// Sort is the order of a model's providers.
type Sort string

// The sorts. All providers of a model ask the same price, so a sort by price changes
// nothing.
const (
	ByWeight     Sort = ""
	ByPrice      Sort = "price"
	ByThroughput Sort = "throughput"
	ByLatency    Sort = "latency"
)

// Routing is the body's provider: who may serve.
type Routing struct {
	// Order lists the providers that are tried first, Only the providers that may serve,
	// Ignore the providers that may not. No provider stands twice in a list. Providers in
	// Order are in Only too when Only is given. No provider in Order or Only is in
	// Ignore.
	Order, Only, Ignore []string
	// NoFallbacks is allow_fallbacks: false.
	NoFallbacks   bool
	Quantizations []string
	MaxPrice      MaxPrice
	Sort          Sort
}

// MaxPrice is the most that the consumer pays; nil is no bound.
type MaxPrice struct {
	// Prompt and Completion are for a token, Image for an image and Audio for a minute.
	Prompt, Completion, Image, Audio *money.PicoUSD
}

// Allows reports whether rates are within the bounds of their unit.
func (m MaxPrice) Allows(r money.Rates) bool {
	within := func(rate money.PicoUSD, bound *money.PicoUSD) bool { return bound == nil || rate <= *bound }
	switch r.Unit {
	case money.Image:
		return within(r.Output, m.Image)
	case money.AudioMinute:
		return within(r.Input, m.Audio)
	default:
		return within(r.Input, m.Prompt) && within(r.Output, m.Completion)
	}
}

// routing reads provider. A member that it does not know is refused, because a preference
// that is not honoured must not look as if it were.
func (p *parser) routing() {
	r := &p.req.Routing
	met := map[string]bool{}
	p.members(func(raw []byte) {
		name := string(raw)
		if met[name] {
			p.duplicate(name)
			return
		}
		read := map[string]func(){
			"order":           func() { r.Order = p.providers() },
			"only":            func() { r.Only = p.providers(); p.notEmpty(len(r.Only)) },
			"ignore":          func() { r.Ignore = p.providers() },
			"allow_fallbacks": func() { r.NoFallbacks = !p.boolean() },
			"quantizations":   func() { r.Quantizations = p.quantizations() },
			"max_price":       func() { p.maxPrice(&r.MaxPrice) },
			"sort":            func() { r.Sort = p.sort() },
		}[name]
		if read == nil {
			p.unknown(name, "order, only, ignore, allow_fallbacks, quantizations, max_price, sort")
			return
		}
		met[name] = true
		if p.cur.Kind() == jsonscan.Null {
			p.cur.Skip()
			return
		}
		p.push(name)
		read()
		p.leave()
	})
	if !p.stopped() {
		p.agree(r)
	}
}

// unknown refuses a member. A name that is no plain name is not repeated.
func (p *parser) unknown(name, known string) {
	if plainName(name) {
		p.push(name)
		p.refuse("is not known; there are %s", known)
		return
	}
	p.refuse("has a member that is not known; there are %s", known)
}

func plainName(name string) bool {
	return name != "" && len(name) <= maxFolded && !slices.ContainsFunc([]byte(name), func(c byte) bool {
		return c != '_' && (c < 'a' || 'z' < c) && (c < '0' || '9' < c)
	})
}

// agree refuses lists that contradict each other.
func (p *parser) agree(r *Routing) {
	for _, list := range []struct {
		name      string
		providers []string
	}{{"order", r.Order}, {"only", r.Only}} {
		for i, provider := range list.providers {
			switch {
			case slices.Contains(r.Ignore, provider):
				p.contradiction(list.name, i, "ignore names too")
			case list.name == "order" && len(r.Only) > 0 && !slices.Contains(r.Only, provider):
				p.contradiction(list.name, i, "only does not name")
			default:
				continue
			}
			return
		}
	}
}

func (p *parser) contradiction(list string, i int, what string) {
	p.push(list)
	p.pushIndex(i)
	p.refuse("is a provider that %s", what)
}

// providers reads a list of provider ids.
func (p *parser) providers() []string {
	var out []string
	p.elements(MaxProviders, func(int) {
		text := p.text(MaxNameBytes)
		if p.stopped() {
			return
		}
		id, err := ids.ParseProvider(text)
		switch {
		case err != nil && p.fault == nil:
			param := p.param()
			p.fault = fault.New(fault.Invalid, fault.InvalidProvider, "%s must be a provider id", param).On(param)
		case slices.Contains(out, id.String()):
			p.refuse("stands in the list already")
		default:
			out = append(out, id.String())
		}
	})
	return out
}

// notEmpty refuses an empty list, which could mean nobody or anybody.
func (p *parser) notEmpty(n int) {
	if n == 0 && !p.stopped() {
		p.refuse("must not be empty")
	}
}

func (p *parser) quantizations() []string {
	var out []string
	p.elements(MaxQuantizations, func(int) {
		text := p.text(maxQuantization)
		switch {
		case p.stopped():
		case text == "":
			p.refuse("must not be empty")
		case slices.Contains(out, text):
			p.refuse("stands in the list already")
		default:
			out = append(out, text)
		}
	})
	p.notEmpty(len(out))
	return out
}

func (p *parser) sort() Sort {
	sort := Sort(p.text(maxQuantization))
	if sort != ByPrice && sort != ByThroughput && sort != ByLatency {
		p.refuse("must be price, throughput or latency")
	}
	return sort
}

// maxPrice reads bounds in dollars: prompt and completion per 1M tokens, image
// per image and audio per minute.
func (p *parser) maxPrice(m *MaxPrice) {
	met := map[string]bool{}
	p.members(func(raw []byte) {
		name := string(raw)
		if met[name] {
			p.duplicate(name)
			return
		}
		bound := map[string]struct {
			at   **money.PicoUSD
			unit money.Unit
		}{
			"prompt": {&m.Prompt, money.Token}, "completion": {&m.Completion, money.Token},
			"image": {&m.Image, money.Image}, "audio": {&m.Audio, money.AudioMinute},
		}[name]
		if bound.at == nil {
			p.unknown(name, "prompt, completion, image, audio")
			return
		}
		met[name] = true
		if p.cur.Kind() == jsonscan.Null {
			p.cur.Skip()
			return
		}
		p.push(name)
		rate := p.price(bound.unit)
		*bound.at = &rate
		p.leave()
	})
}

// price reads dollars, written as a JSON number or as a string, exactly.
func (p *parser) price(unit money.Unit) money.PicoUSD {
	var text string
	switch p.cur.Kind() {
	case jsonscan.String:
		text = p.text(maxPrice)
	case jsonscan.Number:
		text = string(p.cur.Skip().Of(p.data))
	default:
		p.wrongKind("number or string")
		return 0
	}
	rate, err := unit.ParseRate(text)
	if text == "" || len(text) > maxPrice || err != nil || rate < 0 {
		p.refuse("must be a price in dollars, written as a decimal of at most %s decimals", decimals[unit])
	}
	return rate
}

// decimals is how exact a price may be.
var decimals = map[money.Unit]string{money.Token: "six", money.Image: "nine", money.AudioMinute: "nine"}

// fallbackModels reads models. A model that stands there twice is tried once.
func (p *parser) fallbackModels() {
	p.elements(MaxFallbackModels, func(int) {
		name := p.text(MaxNameBytes)
		switch {
		case p.stopped():
		case name == "":
			p.refuse("must not be empty")
		default:
			p.req.Models = append(p.req.Models, name)
		}
	})
}

// ModelParam names an entry of models.
func ModelParam(i int) string { return fmt.Sprintf("models[%d]", i) }
