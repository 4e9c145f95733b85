package openaiapi

import (
	"bytes"
	"strings"

	"svc.internal/pkg/jsonscan"
)

// image reads {"url":…,"detail":…}. The gateway never fetches the address; it
// only refuses schemes that could make an engine read something local.
func (p *parser) image() {
	found := 0
	p.members(func(name []byte) {
		if string(name) != "url" {
			p.other()
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
	p.req.PromptTokens += imageTokens
}

// imageURL checks a raw JSON string.
func (p *parser) imageURL(raw []byte) {
	text := raw[1 : len(raw)-1]
	if len(text) > 2*MaxImageDataBytes {
		p.refuse("must have at most %d bytes", MaxImageDataBytes)
		return
	}
	if bytes.IndexByte(text, '\\') >= 0 {
		decoded, err := jsonscan.AppendDecoded(nil, raw)
		if err != nil {
			p.refuse("must be of type string")
			return
		}
		text = decoded
	}
	switch {
	case hasScheme(text, "https://"), hasScheme(text, "http://"):
		if len(text) > MaxImageURLBytes {
			p.refuse("must have at most %d bytes", MaxImageURLBytes)
		}
	case hasScheme(text, "data:image/"):
		if len(text) > MaxImageDataBytes {
			p.refuse("must have at most %d bytes", MaxImageDataBytes)
		}
	default:
		p.refuse("must be an http, https or data:image address")
	}
}

func hasScheme(text []byte, scheme string) bool {
	return len(text) >= len(scheme) && strings.EqualFold(string(text[:len(scheme)]), scheme)
}
