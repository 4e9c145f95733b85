package openaiapi

import (
	"svc.internal/pkg/jsonscan"
)

// tools reads [{"type":"function","function":{"name":…}}]. Tools of other
// types are the engine's own.
func (p *parser) tools() {
	p.elements(MaxTools, func(int) {
		p.req.Tools = true
		kind, function := "", false
		p.members(func(name []byte) {
			switch string(name) {
			case "type":
				p.push("type")
				kind = p.text(MaxNameBytes)
				p.leave()
			case "function":
				function = true
				p.push("function")
				p.function()
				p.leave()
			default:
				p.cur.Skip()
			}
		})
		switch {
		case p.stopped():
		case kind == "":
			p.missing("type")
		case kind == "function" && !function:
			p.missing("function")
		}
	})
}

// functions reads the deprecated [{"name":…}].
func (p *parser) functions() {
	p.elements(MaxTools, func(int) {
		p.req.Tools = true
		p.function()
	})
}

// function reads {"name":…,"parameters":{…}}.
func (p *parser) function() {
	named := false
	p.members(func(name []byte) {
		switch string(name) {
		case "name":
			named = true
			p.push("name")
			p.label()
			p.leave()
		case "parameters":
			p.push("parameters")
			if p.cur.Kind() == jsonscan.Null {
				p.cur.Skip()
			} else {
				p.kind(jsonscan.Object)
			}
			p.leave()
		default:
			p.cur.Skip()
		}
	})
	if !named && !p.stopped() {
		p.missing("name")
	}
}

// responseFormat reads {"type":…} and, for json_schema, the schema with it.
func (p *parser) responseFormat() {
	kind, schema := "", false
	p.members(func(name []byte) {
		switch string(name) {
		case "type":
			p.push("type")
			kind = p.text(MaxNameBytes)
			p.leave()
		case "json_schema":
			if p.cur.Kind() == jsonscan.Null {
				p.cur.Skip()
				return
			}
			schema = true
			p.push("json_schema")
			p.jsonSchema()
			p.leave()
		default:
			p.cur.Skip()
		}
	})
	if p.stopped() {
		return
	}
	switch kind {
	case "":
		p.missing("type")
	case "text", "json_object":
	case "json_schema":
		if !schema {
			p.missing("json_schema")
		}
	default:
		p.push("type")
		p.refuse("must be one of text, json_object, json_schema")
	}
}

// jsonSchema reads {"name":…,"schema":{…}}.
func (p *parser) jsonSchema() {
	named, schema := false, false
	p.members(func(name []byte) {
		switch string(name) {
		case "name":
			named = true
			p.push("name")
			p.label()
			p.leave()
		case "schema":
			schema = true
			p.push("schema")
			p.kind(jsonscan.Object)
			p.leave()
		default:
			p.cur.Skip()
		}
	})
	switch {
	case p.stopped():
	case !named:
		p.missing("name")
	case !schema:
		p.missing("schema")
	}
}
