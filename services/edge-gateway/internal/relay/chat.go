package relay

import (
	"strconv"
	"time"

	"svc.internal/pkg/jsonscan"
	"svc.internal/pkg/openai"
	hubv1 "svc.internal/proto/svc/hub/v1"
)

// chat is the form of chat completions, and of legacy completions, which are
// made of them.
type chat struct {
	withUsage bool     // the client of a stream asked for usage
	legacyID  string   // of a legacy completion whose engine gives none; empty for chat
	own       []member // of an answer whose engine gives none
	identity  identity
	deltas    deltas // what a stream's events must have
	first     []byte // the first event of a stream with usage
	part      *Part  // of an answer to several prompts
	held      []byte // the last event with usage, until it is known what is billed
	usageOnly bool   // held has nothing else
}

func newChat(call *Call, now time.Time) *chat {
	c := &chat{withUsage: call.IncludeUsage || call.IncludeCost, own: ownMembers(call, now), part: call.Part}
	c.identity.own = c.own
	c.deltas = deltas{choices: max(int(call.Choices), 1), noRole: call.Legacy}
	if call.Legacy {
		c.legacyID = call.RequestID
	}
	return c
}

// ownMembers are what a completion says of itself where its engine does not.
func ownMembers(call *Call, now time.Time) []member {
	object := openai.ObjectCompletion
	if call.Stream {
		object = openai.ObjectChunk
	}
	return []member{
		ownModel:   {"model", string(jsonscan.AppendString(nil, call.Order.ModelID))},
		ownCreated: {"created", strconv.FormatInt(now.Unix(), 10)},
		ownObject:  {"object", `"` + object + `"`},
		ownID:      {"id", string(jsonscan.AppendString(nil, chatIDPrefix+call.RequestID))},
	}
}

// Where the members stand in ownMembers; the last comes first in an answer.
const (
	ownModel = iota
	ownCreated
	ownObject
	ownID
)

func (c *chat) accept(body []byte) ([]byte, bool) { return body, c.part == nil || c.part.accept(body) }

// whole is fit for strict clients.
func (c *chat) whole(body []byte, billed usageOf) (contentType string, out []byte) {
	if c.legacyID != "" {
		return typeJSON, legacy(body, c.legacyID, &billed, c.own[ownModel], c.own[ownCreated])
	}
	return typeJSON, strict(body, billed, c.own...)
}

// event writes an event, but for one with usage when the client wants that: the
// last of them waits until it is known what is billed. One that has content
// waits no longer than until another event follows. All others say then that
// they have no usage.
func (c *chat) event(out *output, e *hubv1.DispatchEvent) {
	json := e.GetJson()
	if !c.withUsage {
		c.emit(out, json)
		return
	}
	if c.first == nil {
		c.first = json
	}
	var chunk openai.Chunk
	hold, names := false, false
	if mayTellUsage(json) {
		var err error
		chunk, err = openai.ScanChunk(json)
		hold = err == nil && hasValue(json, chunk.UsageSpan)
		names = err != nil || chunk.UsageSpan.Found()
	}
	if c.held != nil && (hold || !c.usageOnly) {
		c.cut(out)
	}
	if hold {
		c.held, c.usageOnly = json, chunk.UsageOnly()
		return
	}
	if !names {
		json = withNullUsage(json)
	}
	c.emit(out, json)
}

// emit writes an event in the form that the client asked for.
func (c *chat) emit(out *output, json []byte) {
	json = c.deltas.of(c.identity.of(json))
	if c.legacyID != "" {
		json = legacy(json, c.legacyID, nil)
	} else {
		json = withLogprobs(json)
	}
	out.event("", json)
}

// cut gives up an event that waits for what is billed. One that tells only an
// engine's usage is not shown.
func (c *chat) cut(out *output) {
	if c.held != nil && !c.usageOnly {
		c.emit(out, c.held)
	}
	c.held = nil
}

// end ends a stream. The usage that the client asked for is what is billed,
// whatever the engine said, and even if it said nothing.
func (c *chat) end(out *output, billed usageOf) {
	if c.withUsage {
		if c.held == nil {
			c.emit(out, usageEvent(c.first, billed))
		} else {
			c.emit(out, withBilled(c.held, billed))
		}
		c.held = nil
	}
	out.doneEvent()
}
