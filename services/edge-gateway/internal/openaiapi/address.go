package openaiapi

import (
	"bytes"
	"strings"

	"svc.internal/pkg/dialguard"
	"svc.internal/pkg/jsonscan"
)

// An engine fetches the addresses in a content part, from within its owner's network. So
// each address in a part must be a data address or lead to a public host by http or
// https, at port 80, 443, 8080 or 8443, whether or not the gateway knows the part.
// dialguard judges the host as it is written, and the program that fetches it judges the
// address that the name resolves to.

// vendor consumes a member of a content part whose meaning is the engine's own.
// It is counted like any other, and the addresses in it are checked.
func (p *parser) vendor(name []byte) {
	before := p.cur
	p.addresses(name)
	if p.stopped() {
		return
	}
	p.cur = before
	p.foreign(len(name))
}

// addresses consumes the value of a member and checks each address in it.
func (p *parser) addresses(name []byte) {
	p.push(shownName(name))
	p.addressesWithin(namesAddress(name))
	p.leave()
}

// addressesWithin consumes a value. isAddress reports whether its strings, and the
// strings in its arrays, are addresses.
func (p *parser) addressesWithin(isAddress bool) {
	switch p.cur.Kind() {
	case jsonscan.Object:
		p.members(p.addresses)
	case jsonscan.Array:
		p.cur.Enter()
		for !p.stopped() && p.cur.NextElement() {
			p.addressesWithin(isAddress)
		}
	case jsonscan.String:
		raw := p.cur.Skip().Of(p.data)
		if isAddress && !p.stopped() {
			p.address(raw)
		}
	default:
		p.cur.Skip()
	}
}

// namesAddress reports whether the string under a name is an address: a name that ends in
// url or uri, or in the plural of either, whatever the case. The long s is an s to
// engines written in Go.
func namesAddress(name []byte) bool {
	ending := strings.ToLower(string(name[max(0, len(name)-len("url\u017f")):]))
	ending = strings.TrimSuffix(strings.TrimSuffix(ending, "s"), "\u017f")
	return strings.HasSuffix(ending, "url") || strings.HasSuffix(ending, "uri")
}

// shownName returns a member's name for the path of a fault. A name that may be anything
// is not repeated.
func shownName(name []byte) string {
	if text := string(name); plainName(text) {
		return text
	}
	return "*"
}

// address checks a raw JSON string that an engine may fetch. An empty string leads
// nowhere.
func (p *parser) address(raw []byte) {
	text, ok := p.decoded(raw)
	if !ok || len(text) == 0 {
		return
	}
	limit := MaxImageURLBytes
	if hasScheme(text, "data:") {
		limit = MaxImageDataBytes
	}
	if len(text) > limit {
		p.refuse("must have at most %d bytes", limit)
		return
	}
	p.reachable(text)
}

// reachable refuses an address that does not lead to the public internet, and notes an
// address that does.
func (p *parser) reachable(text []byte) {
	if hasScheme(text, "data:") {
		return
	}
	if err := dialguard.URL(string(text)); err != nil {
		p.refuse("%v", err)
	}
	p.req.NamesMedia = true
}

// blobOrAddress checks a raw JSON string that should be base64, because an engine that
// takes an address in its place fetches it. Base64 has no colon.
func (p *parser) blobOrAddress(raw []byte) {
	const scheme = 16 // bytes within which the scheme of an address ends, escapes included
	if text := raw[1 : len(raw)-1]; bytes.ContainsAny(text[:min(len(text), scheme)], `:\`) {
		p.address(raw)
	}
}

// decoded returns the text of a raw JSON string of at most MaxImageDataBytes.
func (p *parser) decoded(raw []byte) ([]byte, bool) {
	text := raw[1 : len(raw)-1]
	if len(text) > 2*MaxImageDataBytes {
		p.refuse("must have at most %d bytes", MaxImageDataBytes)
		return nil, false
	}
	if bytes.IndexByte(text, '\\') < 0 {
		return text, true
	}
	text, err := jsonscan.AppendDecoded(nil, raw)
	if err != nil {
		p.refuse("must be of type string")
		return nil, false
	}
	return text, true
}

func hasScheme(text []byte, scheme string) bool {
	return len(text) >= len(scheme) && strings.EqualFold(string(text[:len(scheme)]), scheme)
}
