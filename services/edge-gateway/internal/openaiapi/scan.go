package openaiapi

import (
	"strconv"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/jsonscan"
	"svc.internal/pkg/openai"
)

// parser is one pass over one body. The first fault stops it.
type parser struct {
	grammar *grammar
	data    []byte
	cur     jsonscan.Cursor
	req     *Request
	fault   *fault.Fault
	met     [fieldCount]bool // stood in the body, null included
	present [fieldCount]bool // had a value
	at      [fieldCount]int  // where its value begins
	path    []segment

	open          int           // offset behind the opening brace
	key           jsonscan.Span // of the top-level member that is being read, quotes included
	streamOptions optionsAt
	// Where the two bounds of an answer stand, if they do.
	maxTokens, maxCompletionTokens jsonscan.Span

	bestOf int64 // of a legacy completion

	// aside and asideBound are the tokens of members beside the messages or
	// inputs, and the bound of them.
	aside, asideBound int64
}

// segment is one step into the document: a member's name, or an index.
type segment struct {
	name  string
	index int
}

// stopped reports whether the pass has ended, so that all loops are left.
func (p *parser) stopped() bool { return p.fault != nil || p.cur.Failed() }

// refuse stops the pass. The format is about the value at the path.
func (p *parser) refuse(format string, args ...any) {
	if p.fault == nil {
		param := p.param()
		p.fault = fault.New(fault.Invalid, fault.InvalidValue, "%s "+format, append([]any{param}, args...)...).On(param)
	}
}

func (p *parser) missing(name string) {
	if p.fault == nil {
		p.push(name)
		param := p.param()
		p.fault = fault.New(fault.Invalid, MissingRequiredParameter, "missing required parameter: %s", param).On(param)
	}
}

func (p *parser) duplicate(name string) {
	if p.fault == nil {
		p.push(name)
		param := p.param()
		p.fault = fault.New(fault.Invalid, DuplicateField,
			"%s is given twice, or under a name that differs only in case", param).On(param)
	}
}

func (p *parser) push(name string) { p.path = append(p.path, segment{name: name}) }
func (p *parser) pushIndex(i int)  { p.path = append(p.path, segment{index: i}) }
func (p *parser) pop()             { p.path = p.path[:len(p.path)-1] }

// param is the path as OpenAI writes it: messages[3].content[0].type.
func (p *parser) param() string {
	var out []byte
	for _, s := range p.path {
		if s.name == "" {
			out = append(out, '[')
			out = strconv.AppendInt(out, int64(s.index), 10)
			out = append(out, ']')
			continue
		}
		if len(out) > 0 {
			out = append(out, '.')
		}
		out = append(out, s.name...)
	}
	return string(out)
}

// object walks the top-level members.
func (p *parser) object() {
	p.cur.Enter()
	p.open = p.cur.Pos()
	strip := stripper{end: p.open, leading: true, dangling: -1}
	for n := 1; ; n++ {
		key, ok := p.cur.NextMember()
		if !ok || p.fault != nil {
			return
		}
		if n > MaxMembers {
			p.fault = fault.New(fault.Invalid, fault.InvalidRequest, "the body has more than %d members", MaxMembers)
			return
		}
		p.key = jsonscan.Span{Start: key.Span.Start - 1, End: key.Span.End + 1}
		strip.next(p.req.edits, p.key.Start)
		f, known, exact := p.grammar.match(key.Name(p.data))
		switch {
		case !known:
			p.req.EngineMembers = p.req.EngineMembers || p.cur.Kind() != jsonscan.Null
			p.beside(p.key.Len() - len(`""`))
		case !exact || p.met[f]:
			p.duplicate(fieldNames[f])
			return
		default:
			p.met[f] = true
			p.member(f)
		}
		if p.stopped() {
			return
		}
		if known && p.grammar.dropped[f] {
			p.req.edits = strip.cut(p.req.edits, p.key.Start, p.cur.Pos())
		} else {
			strip.kept(p.cur.Pos())
		}
	}
}

// member reads the value of a known top-level member.
func (p *parser) member(f field) {
	kind := p.cur.Kind()
	p.at[f] = p.cur.Pos()
	if kind == jsonscan.Null {
		p.cur.Skip()
		return
	}
	p.present[f] = true
	p.push(fieldNames[f])
	p.grammar.read(p, f)
	if !p.stopped() {
		p.pop()
	}
}

// null returns the place of the null that a member has for a value.
func (p *parser) null(f field) jsonscan.Span {
	return jsonscan.Span{Start: p.at[f], End: p.at[f] + len("null")}
}

// read consumes the value of a member of a chat completion, or of a member that means the
// same wherever it stands. echo: true is refused, because text of the prompt would count
// as the answer's. include_reasoning: false is refused, because an engine bills thoughts
// that nobody would see, and its count is held against the visible text.
func (p *parser) read(f field) {
	switch f {
	case fieldModel:
		p.model()
	case fieldMessages:
		p.messages()
	case fieldStream:
		p.req.Stream = p.boolean()
	case fieldStreamOptions:
		p.options()
	case fieldMaxTokens, fieldMaxCompletionTokens:
		p.answerLimit(f)
	case fieldN, fieldBestOf:
		p.req.Choices = max(p.req.Choices, p.integer(1, MaxChoices))
	case fieldTemperature:
		p.req.Greedy = p.number(0, 2) == 0
	case fieldTopP:
		p.number(0, 1)
	case fieldPresencePenalty, fieldFrequencyPenalty:
		p.number(-2, 2)
	case fieldLogprobs:
		p.req.Logprobs = p.boolean() || p.req.Logprobs
	case fieldTopLogprobs, fieldPromptLogprobs:
		p.req.Logprobs = p.integer(0, MaxTopLogprobs) > 0 || p.req.Logprobs
	case fieldStop:
		p.stop()
	case fieldSeed:
		p.integer(-1<<63, 1<<63-1)
	case fieldLogitBias:
		p.logitBias()
	case fieldResponseFormat:
		p.counted(p.responseFormat)
	case fieldTools:
		p.counted(p.tools)
	case fieldFunctions:
		p.counted(p.functions)
	case fieldToolChoice, fieldFunctionCall:
		if p.cur.Kind() != jsonscan.Object {
			p.either(jsonscan.String, jsonscan.Object)
			return
		}
		p.beside(0)
	case fieldParallelToolCalls, fieldStore:
		p.boolean()
	case fieldUser:
		p.text(MaxNameBytes)
	case fieldMetadata:
		if p.cur.Kind() != jsonscan.Object {
			p.wrongKind(jsonscan.Object.String())
			return
		}
		p.beside(0)
	case fieldDocuments, fieldChatTemplate:
		p.req.EngineMembers = true // engines have them, the API has not
		p.counted(func() { p.either(jsonscan.String, jsonscan.Array) })
	case fieldEcho:
		if p.boolean() { // text of the prompt would count as an answer's
			p.refuse("is not available on this endpoint")
		}
	case fieldIncludeReasoning:
		if !p.boolean() && !p.stopped() { // an engine's count is held against what is seen
			p.refuse("must be true: thoughts are billed, so they are delivered")
		}
	case fieldUsage:
		p.usage()
	case fieldProvider:
		p.routing()
	case fieldModels:
		p.fallbackModels()
	default:
		p.cur.Skip()
	}
}

// answerLimit reads max_tokens or max_completion_tokens.
func (p *parser) answerLimit(f field) {
	start := p.cur.Pos()
	if n := p.integer(1, MaxTokens); n > p.req.MaxTokens {
		p.req.MaxTokens, p.req.MaxTokensParam = n, fieldNames[f]
	}
	span := jsonscan.Span{Start: start, End: p.cur.Pos()}
	if f == fieldMaxTokens {
		p.maxTokens = span
	} else {
		p.maxCompletionTokens = span
	}
}

func (p *parser) model() {
	p.req.model = jsonscan.Span{Start: p.cur.Pos()}
	p.req.Model = p.text(MaxNameBytes)
	p.req.model.End = p.cur.Pos()
	if p.req.Model == "" && !p.stopped() {
		p.refuse("must not be empty")
	}
}

// counted adds the tokens of the whole value that read consumes.
func (p *parser) counted(read func()) {
	start := p.cur.Pos()
	read()
	if !p.stopped() {
		p.count(p.data[start:p.cur.Pos()])
	}
}

func (p *parser) count(text []byte) {
	tokens, bound := openai.EstimateAndBound(text)
	p.req.PromptTokens += int64(tokens)
	p.req.PromptBound += int64(bound)
}

// usage reads our own usage:{"include":true}.
func (p *parser) usage() {
	met := false
	p.members(func(name []byte) {
		switch {
		case string(name) != "include":
			p.cur.Skip()
		case met:
			p.duplicate("include")
		default:
			met = true
			p.push("include")
			p.req.IncludeCost = p.optionalBoolean()
			p.pop()
		}
	})
}
