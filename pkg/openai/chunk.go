package openai

import (
	"errors"
	"math/bits"
	"slices"

	"svc.internal/pkg/jsonscan"
)

// ErrDuplicateKey refuses a chunk or answer in which a member that decides what was
// delivered (choices, delta, content, …) stands twice in one object. Parsers differ in
// which of the two they show, so it cannot be counted.
var ErrDuplicateKey = errors.New("answer holds a member twice")

// maxEdits is how many model and usage members one chunk may hold.
const maxEdits = 6

// Chunk describes one chunk of a stream, or a whole answer. Spans are byte ranges of the
// scanned JSON. The span of a string includes the quotes.
type Chunk struct {
	// ID is the top-level "id", Model the top-level "model", whatever kind.
	ID, Model jsonscan.Span
	// Error is the top-level "error" unless it is null.
	Error jsonscan.Span
	// UsageSpan is the top-level "usage", null included; Usage is its content.
	UsageSpan jsonscan.Span
	Usage     Usage

	// HasChoices reports whether there is a "choices" array; Choices is its length.
	HasChoices bool
	Choices    int
	// DataItems is the length of a top-level "data" array: images, embeddings. Items is
	// how many of them, or of the event's own members, hold what was asked for: a vector
	// or an image (ScanEmbeddings, ScanImages, ScanEvent).
	DataItems, Items int
	// Type is the top-level "type" of an event, Text the top-level "text" when
	// it is a string (ScanEvent, ScanTranscription).
	Type, Text jsonscan.Span

	// ContentBytes is the decoded length of all delivered text: content, reasoning,
	// refusal, names and arguments of tools, legacy text. Text in unknown members counts
	// where it is longer than that. Tokens of logprobs count a byte each where there is
	// no text at all. Pictures, sound and arrays of numbers count as they are written.
	ContentBytes int64
	// Tokens is the estimate for that text, and Least and Plausible are its bounds (see
	// Counter). Tokens and Plausible include text in unknown members only for choices
	// that have no other. From a Tally they are what this chunk adds to the whole: they
	// fall with the first known text after such members.
	Tokens, Least, Plausible int
	// HasContent reports whether a choice carries content that a client waits for: text,
	// a tool call, reasoning, a refusal, audio.
	HasContent bool

	// FinishReason is the last finish_reason that is neither null nor blank.
	FinishReason jsonscan.Span
	// Finished has bit i set when the choice with index i < 64 has a finish_reason.
	// FinishCount counts finish_reasons at any index.
	Finished    uint64
	FinishCount int

	named bool // a client looks for a model, choices or not
	open  int  // offset behind the opening brace
	edits [maxEdits]edit
	nEdit int
}

// edit is a byte range that Rewrite replaces or removes.
type edit struct {
	span  jsonscan.Span
	model bool // replace by the model's name; otherwise remove when asked to
}

// UsageOnly reports whether the chunk holds no choice, no data and no error: it is there
// for the usage alone (or for an engine's own notes). A client that did not ask for usage
// must not see it, because many index choices[0].
func (c *Chunk) UsageOnly() bool {
	return c.Choices == 0 && c.DataItems == 0 && !c.Error.Found() &&
		(c.HasChoices || c.UsageSpan.Found())
}

// ScanChunk reads one chunk of a stream (a data payload other than [DONE]) in one pass.
// For text that is not one JSON object it returns an error with an offset alone. Unknown
// members are checked and ignored.
func ScanChunk(json []byte) (Chunk, error) {
	s := scan{data: json, body: "delta"}
	return s.run()
}

// ScanCompletion reads a whole answer: chat, completions, embeddings, images.
func ScanCompletion(json []byte) (Chunk, error) {
	s := scan{data: json, body: "message"}
	return s.run()
}

// seen is a set of names that were met in one object.
type seen uint32

// add reports whether the name is new in its object.
func (s *seen) add(bit seen) bool {
	fresh := *s&bit == 0
	*s |= bit
	return fresh
}

const (
	seenID seen = 1 << iota
	seenChoices
	seenError
	seenData
	seenBody
	seenText
	seenIndex
	seenFinish
	seenContent
	seenURL
	seenRefusal
	seenTools
	seenFunction
	seenAudio
	seenThoughts // and the bits above: each name of thoughts has its own
)

// thoughts are the members for a model's thoughts. Engines send the same text under
// several of them.
var thoughts = [...]string{"reasoning_content", "reasoning", "reasoning_details", "thinking", "thinking_blocks"}

// isThought finds the bit of a name among thoughts.
func isThought(name string) (bit seen, ok bool) {
	i := slices.Index(thoughts[:], name)
	return seenThoughts << max(i, 0), i >= 0
}

// scan is one pass over a chunk or answer.
type scan struct {
	data  []byte
	body  string // the member of a choice that holds the text
	media media  // what else than choices is looked for
	tally *Tally // nil for a scan by itself
	out   Chunk

	duplicate bool
	local     account // of one choice, without a tally
	choiceOf  choiceScan
}

func (s *scan) run() (Chunk, error) {
	doc := jsonscan.New(s.data, jsonscan.Options{})
	c := doc.Cursor()
	if c.Kind() != jsonscan.Object {
		if err := doc.Valid(); err != nil {
			return Chunk{}, err
		}
		return Chunk{}, &jsonscan.Error{Reason: jsonscan.ReasonNotObject}
	}
	c.Enter()
	s.out.open = c.Pos()
	s.members(&c)
	if err := c.End(); err != nil {
		return Chunk{}, err
	}
	if s.duplicate {
		return Chunk{}, ErrDuplicateKey
	}
	return s.out, nil
}

// members walks the top-level object.
func (s *scan) members(c *jsonscan.Cursor) {
	var met seen
	leading := true // Rewrite may remove every member so far
	dangling := -1  // the edit whose removal extends to the next key
	end := s.out.open
	for {
		key, ok := c.NextMember()
		if !ok {
			return
		}
		start := key.Span.Start - 1
		if dangling >= 0 {
			s.out.edits[dangling].span.End = start
			dangling = -1
		}
		name := key.Name(s.data)
		switch {
		case jsonscan.EqualFold(name, "usage"):
			value := s.usage(c, string(name) == "usage")
			cut := jsonscan.Span{Start: end, End: value.End}
			if leading {
				cut.Start = start
				dangling = s.out.nEdit
			}
			if !s.edit(edit{span: cut}) {
				dangling = -1
			}
			end = value.End
			continue
		case jsonscan.EqualFold(name, "model"):
			value := c.Skip()
			if string(name) == "model" && !s.out.Model.Found() {
				s.out.Model = value
			}
			s.edit(edit{span: value, model: true})
		default:
			s.member(c, name, &met)
		}
		leading = false
		end = c.Pos()
	}
}

// edit records a range for Rewrite. Too many ranges are refused.
func (s *scan) edit(e edit) bool {
	if s.out.nEdit == maxEdits {
		s.duplicate = true
		return false
	}
	s.out.edits[s.out.nEdit] = e
	s.out.nEdit++
	return true
}

// usage consumes a usage member. A second one with other counts makes the
// usage absurd.
func (s *scan) usage(c *jsonscan.Cursor, exact bool) jsonscan.Span {
	if !exact {
		return c.Skip()
	}
	c.Kind() // moves to the value
	start := c.Pos()
	u := readUsage(s.data, c)
	span := jsonscan.Span{Start: start, End: c.Pos()}
	if s.out.UsageSpan.Found() && !s.out.Usage.SameCounts(u) {
		u.refuse(UsageDuplicate)
	}
	s.out.UsageSpan, s.out.Usage = span, u
	return span
}

// member consumes any other top-level member.
func (s *scan) member(c *jsonscan.Cursor, name []byte, met *seen) {
	kind := c.Kind()
	switch string(name) {
	case "id":
		s.once(met, seenID)
		s.out.ID = c.Skip()
	case "error":
		s.once(met, seenError)
		if span := c.Skip(); kind != jsonscan.Null {
			s.out.Error = span
		}
	case "choices":
		s.once(met, seenChoices)
		if kind != jsonscan.Array {
			c.Skip()
			return
		}
		s.choices(c)
	case "data":
		s.once(met, seenData)
		if kind != jsonscan.Array {
			c.Skip()
			return
		}
		for c.Enter(); c.NextElement(); s.out.DataItems++ {
			s.dataItem(c)
		}
	default:
		if s.media < transcripts {
			c.Skip()
			return
		}
		s.mediaMember(c, name, kind, met)
	}
}

func (s *scan) once(met *seen, bit seen) {
	if !met.add(bit) {
		s.duplicate = true
	}
}

func (s *scan) choices(c *jsonscan.Cursor) {
	s.out.HasChoices = true
	for c.Enter(); c.NextElement(); s.out.Choices++ {
		if c.Kind() != jsonscan.Object {
			c.Skip()
			continue
		}
		s.choice(c, s.out.Choices)
	}
}

// choice walks one choice; position is its index when it has none.
func (s *scan) choice(c *jsonscan.Cursor, position int) {
	var met seen
	var late [maxLate]lateValue // what came before the index
	lates := 0
	index := int64(position)
	finish := false
	s.choiceOf = choiceScan{}
	c.Enter()
	for {
		key, ok := c.NextMember()
		if !ok {
			break
		}
		kind := c.Kind()
		name := string(key.Name(s.data))
		switch {
		case name == "index":
			s.once(&met, seenIndex)
			if n, err := jsonscan.Int(c.Skip().Of(s.data)); err == nil {
				index = n
			}
		case name == "finish_reason":
			s.once(&met, seenFinish)
			if span := c.Skip(); kind == jsonscan.String && span.Len() > 2 {
				s.out.FinishReason = span
				finish = true
			}
		case name == s.body && kind == jsonscan.Object, name == "text" && kind == jsonscan.String:
			if name == "text" {
				s.once(&met, seenText)
			} else {
				s.once(&met, seenBody)
			}
			if s.tally != nil && met&seenIndex == 0 && lates < len(late) {
				late[lates] = lateValue{span: c.Skip()}
				lates++
				continue
			}
			s.text(c, s.account(index))
		case name == "logprobs" && kind == jsonscan.Object:
			s.logprobs(c)
		case kind == jsonscan.Null || kind == jsonscan.Bool || kind == jsonscan.Number || saysNothing(name):
			c.Skip()
		case s.tally != nil && met&seenIndex == 0 && lates < len(late):
			late[lates] = lateValue{span: c.Skip(), vendor: true}
			lates++
		default:
			s.vendor(c, s.account(index), 0)
		}
	}
	for _, v := range late[:lates] {
		sub := jsonscan.New(s.data, jsonscan.Options{}).CursorAt(v.span)
		if v.vendor {
			s.vendor(&sub, s.account(index), 0)
		} else {
			s.text(&sub, s.account(index))
		}
	}
	s.endChoice()
	if finish {
		s.finish(index)
	}
}

func (s *scan) finish(index int64) {
	s.out.FinishCount++
	if index >= 0 && index < 64 {
		s.out.Finished |= 1 << index
	}
}

// text counts the text of one choice: a delta, a message or a plain string.
func (s *scan) text(c *jsonscan.Cursor, a *account) {
	if c.Kind() == jsonscan.Object {
		s.message(c, a)
	} else {
		s.count(c, &a.text)
	}
}

// message walks a delta or message.
func (s *scan) message(c *jsonscan.Cursor, a *account) {
	counter := &a.text
	var met seen
	reasoned := false
	c.Enter()
	for {
		key, ok := c.NextMember()
		if !ok {
			return
		}
		kind := c.Kind()
		switch name := string(key.Name(s.data)); name {
		case "content":
			s.once(&met, seenContent)
			s.prose(c, a)
		case "refusal":
			s.once(&met, seenRefusal)
			s.count(c, counter)
		case "tool_calls":
			s.once(&met, seenTools)
			s.toolCalls(c, counter)
		case "function_call":
			s.once(&met, seenFunction)
			s.named(c, counter, "name", "arguments")
		case "audio":
			s.once(&met, seenAudio)
			s.out.HasContent = s.out.HasContent || kind == jsonscan.Object
			s.audio(c, a)
		default:
			bit, thought := isThought(name)
			if !thought {
				s.vendorMember(c, name, a, 0)
				continue
			}
			s.once(&met, bit)
			if reasoned {
				c.Skip()
				continue
			}
			before := s.out.ContentBytes
			s.prose(c, a)
			reasoned = s.out.ContentBytes > before
		}
	}
}

// audio walks {"transcript","data"}.
func (s *scan) audio(c *jsonscan.Cursor, a *account) {
	if c.Kind() != jsonscan.Object {
		c.Skip()
		return
	}
	var met seen
	for c.Enter(); ; {
		key, ok := c.NextMember()
		if !ok {
			return
		}
		if name := string(key.Name(s.data)); name != "transcript" {
			s.vendorMember(c, name, a, 0)
			continue
		}
		s.once(&met, seenText)
		s.count(c, &a.text)
	}
}

// count consumes a value and counts it when it is a string that is not empty.
func (s *scan) count(c *jsonscan.Cursor, counter *Counter) {
	kind := c.Kind()
	raw := c.Skip().Of(s.data)
	if kind != jsonscan.String || len(raw) <= 2 {
		return
	}
	s.out.HasContent = true
	s.out.ContentBytes += int64(jsonscan.DecodedLen(raw))
	counter.Write(raw[1 : len(raw)-1])
}

// prose consumes a value that holds text: a string, or an array of parts.
func (s *scan) prose(c *jsonscan.Cursor, a *account) {
	switch c.Kind() {
	case jsonscan.Array:
		for c.Enter(); c.NextElement(); {
			s.part(c, a)
		}
	case jsonscan.Object:
		s.vendor(c, a, 0)
	default:
		s.count(c, &a.text)
	}
}

// part walks {"type":"text","text":…}, and parts of other types: thoughts and refusals
// are text, and everything else in them is the engine's own.
func (s *scan) part(c *jsonscan.Cursor, a *account) {
	if c.Kind() != jsonscan.Object {
		s.vendor(c, a, 0)
		return
	}
	var met seen
	for c.Enter(); ; {
		key, ok := c.NextMember()
		if !ok {
			return
		}
		name := string(key.Name(s.data))
		bit, thought := isThought(name)
		switch {
		case name == "text":
			bit = seenText
		case name == "refusal":
			bit = seenRefusal
		case !thought:
			s.vendorMember(c, name, a, 0)
			continue
		}
		s.once(&met, bit)
		s.prose(c, a)
	}
}

// toolCalls walks an array of {"function":{"name","arguments"}} or
// {"custom":{"name","input"}}.
func (s *scan) toolCalls(c *jsonscan.Cursor, counter *Counter) {
	if c.Kind() != jsonscan.Array {
		c.Skip()
		return
	}
	for c.Enter(); c.NextElement(); {
		s.out.HasContent = true
		if c.Kind() != jsonscan.Object {
			c.Skip()
			continue
		}
		var met seen
		c.Enter()
		for {
			key, ok := c.NextMember()
			if !ok {
				break
			}
			switch string(key.Name(s.data)) {
			case "function":
				s.once(&met, seenFunction)
				s.named(c, counter, "name", "arguments")
			case "custom":
				s.once(&met, seenText)
				s.named(c, counter, "name", "input")
			default:
				c.Skip()
			}
		}
	}
}

// named consumes a value and, if it is an object, counts its members of these two names.
// Arguments that are JSON instead of a string count as written.
func (s *scan) named(c *jsonscan.Cursor, counter *Counter, first, second string) {
	if c.Kind() != jsonscan.Object {
		c.Skip()
		return
	}
	var met seen
	c.Enter()
	for {
		key, ok := c.NextMember()
		if !ok {
			return
		}
		name := string(key.Name(s.data))
		switch {
		case name == first:
			s.once(&met, seenText)
		case second != "" && name == second:
			s.once(&met, seenContent)
		default:
			c.Skip()
			continue
		}
		if k := c.Kind(); k == jsonscan.Object || k == jsonscan.Array {
			raw := c.Skip().Of(s.data)
			s.out.HasContent = true
			s.out.ContentBytes += int64(len(raw))
			counter.Write(raw)
			continue
		}
		s.count(c, counter)
	}
}

// FinishedChoices returns how many different choices with an index below 64 have a
// finish_reason.
func (c *Chunk) FinishedChoices() int { return bits.OnesCount64(c.Finished) }
