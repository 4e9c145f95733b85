package rewrite

import (
	"time"

	"svc.internal/pkg/openai"
)

// chat is the form of chat completions, and of text completions, which are made of chat
// completions.
type chat struct {
	fitsAlways
	withUsage bool     // the client of a stream asked for usage
	legacyID  string   // of a legacy completion whose engine gives none; empty for chat
	own       []member // of an answer whose engine gives none
	identity  identity
	deltas    deltas // what a stream's events must have
	first     []byte // the first event of a stream with usage
	held      []byte // the last event with usage, until it is known what is billed
	usageOnly bool   // held has nothing else
}

func newChat(s *Spec, now time.Time) *chat {
	c := &chat{withUsage: s.ShowUsage || s.ShowCost, own: ownMembers(s, now)}
	c.identity.own = c.own
	c.deltas = deltas{choices: max(s.Choices, 1), noRole: s.Kind == Completion}
	if s.Kind == Completion {
		c.legacyID = s.RequestID
	}
	return c
}

func (*chat) Accept(body []byte) ([]byte, bool) { return body, true }

// Whole returns an answer that strict clients can read.
func (c *chat) Whole(body []byte, billed Usage) (contentType string, out []byte) {
	if c.legacyID != "" {
		return TypeJSON, legacy(body, c.legacyID, &billed, c.own[ownModel], c.own[ownCreated])
	}
	return TypeJSON, strict(body, billed, c.own...)
}

// Event passes an event on. When the client wants the usage, the last event with usage
// waits until it is known what is billed; if it has content, it waits no longer than
// until another event follows. All other events then have a null usage.
func (c *chat) Event(dst []Event, e Event) []Event {
	json := e.JSON
	if !c.withUsage {
		return append(dst, c.shown(json))
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
		dst = c.Cut(dst)
	}
	if hold {
		c.held, c.usageOnly = json, chunk.UsageOnly()
		return dst
	}
	if !names {
		json = withNullUsage(json)
	}
	return append(dst, c.shown(json))
}

// shown is an event in the form that the client asked for.
func (c *chat) shown(json []byte) Event {
	json = c.deltas.of(c.identity.of(json))
	if c.legacyID != "" {
		json = legacy(json, c.legacyID, nil)
	} else {
		json = withLogprobs(json)
	}
	return Event{JSON: json}
}

// Cut returns the event that waits for what is billed. An event that has only an engine's
// usage is dropped.
func (c *chat) Cut(dst []Event) []Event {
	if c.held != nil && !c.usageOnly {
		dst = append(dst, c.shown(c.held))
	}
	c.held = nil
	return dst
}

// End ends a stream. The usage that the client asked for is what is billed, whatever the
// engine reported, and even if it reported nothing.
func (c *chat) End(dst []Event, billed Usage) []Event {
	if !c.withUsage {
		return dst
	}
	last := c.held
	c.held = nil
	if last == nil {
		return append(dst, c.shown(usageEvent(c.first, billed)))
	}
	return append(dst, c.shown(withBilled(last, billed)))
}
