package openaiapi

import (
	"svc.internal/pkg/jsonscan"
)

// messageFacts is what one message shows before its role is known for sure.
type messageFacts struct {
	role       string
	content    jsonscan.Kind // Invalid when absent
	parts      int
	toolCallID bool
	met        uint8
}

const (
	metRole uint8 = 1 << iota
	metContent
)

var roles = map[string]bool{
	"developer": true, "system": true, "user": true, "assistant": true, "tool": true, "function": true,
}

func (p *parser) messages() {
	n := p.elements(MaxMessages, func(int) { p.message() })
	if p.stopped() {
		return
	}
	if n == 0 {
		p.refuse("must not be empty")
	}
	p.req.Messages = int64(n)
}

func (p *parser) message() {
	var m messageFacts
	p.members(func(name []byte) {
		switch {
		case string(name) == "role":
			p.once(&m.met, metRole, "role")
			p.push("role")
			if m.role = p.text(MaxNameBytes); !roles[m.role] {
				p.refuse("must be one of developer, system, user, assistant, tool, function")
			}
			p.leave()
		case string(name) == "content":
			p.once(&m.met, metContent, "content")
			p.content(&m)
		case foldsTo(name, "role"):
			p.duplicate("role")
		case foldsTo(name, "content"):
			p.duplicate("content")
		default:
			m.toolCallID = m.toolCallID || string(name) == "tool_call_id" && p.cur.Kind() == jsonscan.String
			p.other(len(name))
		}
	})
	if !p.stopped() {
		p.checkMessage(&m)
	}
}

func (p *parser) once(met *uint8, bit uint8, name string) {
	if *met&bit != 0 {
		p.duplicate(name)
	}
	*met |= bit
}

// leave pops the path unless it is needed to name a fault.
func (p *parser) leave() {
	if p.fault == nil {
		p.pop()
	}
}

func (p *parser) checkMessage(m *messageFacts) {
	switch {
	case m.role == "":
		p.missing("role")
	case m.role == "tool" && !m.toolCallID:
		p.missing("tool_call_id")
	case m.role == "assistant" || m.role == "function":
	case m.content == jsonscan.Invalid || m.content == jsonscan.Null:
		p.missing("content")
	case m.content == jsonscan.Array && m.parts == 0:
		p.push("content")
		p.refuse("must not be empty")
	}
}

// content reads a string, an array of parts, or null.
func (p *parser) content(m *messageFacts) {
	p.push("content")
	defer p.leave()
	switch m.content = p.cur.Kind(); m.content {
	case jsonscan.Null:
		p.cur.Skip()
	case jsonscan.String:
		raw := p.cur.Skip().Of(p.data)
		if !p.cur.Failed() {
			p.count(raw[1 : len(raw)-1])
		}
	case jsonscan.Array:
		m.parts = p.elements(MaxParts, func(int) { p.part() })
	default:
		p.wrongKind("string or array")
	}
}

// payloads names the member that a part of each type carries. Parts of other
// types are the engine's own.
var payloads = map[string]string{
	"text": "text", "image_url": "image_url", "input_audio": "input_audio", "file": "file", "refusal": "refusal",
}

// part reads one content part. Its type may stand behind its payload, so each
// payload is read by its own name and the two are compared at the end. A part of
// a type that is not known here passes as it is, its addresses checked: video_url
// for one.
func (p *parser) part() {
	kind, payload, carried := "", "", 0
	p.members(func(name []byte) {
		if string(name) == "type" {
			if kind != "" {
				p.duplicate("type")
				return
			}
			p.push("type")
			if kind = p.text(MaxNameBytes); kind == "" {
				p.refuse("must not be empty")
			}
			p.leave()
			return
		}
		if _, known := payloads[string(name)]; !known {
			p.vendor(name)
			return
		}
		payload = string(name)
		carried++
		p.push(payload)
		p.payload(payload)
		p.leave()
	})
	want, known := payloads[kind]
	switch {
	case p.stopped():
	case kind == "":
		p.missing("type")
	case !known:
		p.req.PromptBound += int64(len(kind))
	case carried > 1:
		p.duplicate(payload)
	case payload != want:
		p.missing(want)
	}
}

func (p *parser) payload(name string) {
	switch name {
	case "image_url":
		p.image()
	case "input_audio":
		p.sound()
	case "file":
		p.file()
	default:
		raw := p.kind(jsonscan.String)
		if !p.stopped() {
			p.count(raw[1 : len(raw)-1])
		}
	}
}
