package openaiapi

import (
	"svc.internal/pkg/jsonscan"
)

// image reads {"url":…,"detail":…}. The gateway never fetches the address.
func (p *parser) image() {
	found := 0
	p.members(func(name []byte) {
		if string(name) != "url" {
			p.vendor(name)
			return
		}
		found++
		p.push("url")
		raw := p.kind(jsonscan.String)
		if !p.stopped() {
			p.imageURL(raw)
		}
		p.leave()
	})
	switch {
	case p.stopped():
	case found == 0:
		p.missing("url")
	case found > 1:
		p.duplicate("url")
	}
}

// imageURL checks a raw JSON string.
func (p *parser) imageURL(raw []byte) {
	text, ok := p.decoded(raw)
	if !ok {
		return
	}
	switch {
	case hasScheme(text, "https://"), hasScheme(text, "http://"):
		if len(text) > MaxImageURLBytes {
			p.refuse("must have at most %d bytes", MaxImageURLBytes)
			return
		}
		p.reachable(text)
	case hasScheme(text, "data:image/"):
		if len(text) > MaxImageDataBytes {
			p.refuse("must have at most %d bytes", MaxImageDataBytes)
		}
	default:
		p.refuse("must be an http, https or data:image address")
	}
	if !p.stopped() {
		p.picture(text)
	}
}
