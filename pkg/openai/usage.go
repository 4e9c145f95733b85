package openai

import "svc.internal/pkg/jsonscan"

// maxTokens is the largest count that is believed. Above it a float64 no longer holds
// every integer, and no model has such a context window.
const maxTokens = 1 << 53

// UsageState says how far an engine's usage can be used.
type UsageState uint8

// The states of a usage.
const (
	// UsageAbsent: no usage member, null, or an object without any count.
	UsageAbsent UsageState = iota
	// UsageValid: the counts are whole, in range and agree with each other.
	UsageValid
	// UsageAbsurd: there is a usage that must not be billed; Usage.Reason says why.
	UsageAbsurd
)

// String names the state for logs and events.
func (s UsageState) String() string {
	switch s {
	case UsageValid:
		return "valid"
	case UsageAbsurd:
		return "absurd"
	default:
		return "absent"
	}
}

// UsageReason is why a usage is absurd.
type UsageReason string

// The reasons, in the order in which they win.
const (
	// UsageNotObject: usage is a string, number, boolean or array.
	UsageNotObject UsageReason = "not_object"
	// UsageNotInteger: a count is a string, has a fraction or exponent, …
	UsageNotInteger UsageReason = "not_integer"
	// UsageNegative: a count is below zero.
	UsageNegative UsageReason = "negative"
	// UsageTooLarge: a count is above 2^53.
	UsageTooLarge UsageReason = "too_large"
	// UsageDuplicate: the same count, or usage itself, stands twice in one
	// object with different values.
	UsageDuplicate UsageReason = "duplicate"
	// UsageIncomplete: there are counts, but the count of prompt tokens is missing.
	UsageIncomplete UsageReason = "incomplete"
	// UsageTotalMismatch: total is not prompt + completion.
	UsageTotalMismatch UsageReason = "total_mismatch"
	// UsageDetailMismatch: more cached than prompt tokens, or more reasoning
	// than completion tokens.
	UsageDetailMismatch UsageReason = "detail_mismatch"
)

// Usage is what an engine says it used, in tokens. The counts mean something only when
// State is UsageValid. A count that is missing is zero with a false Has flag, so that an
// explicit zero differs from silence.
type Usage struct {
	State  UsageState
	Reason UsageReason

	PromptTokens     int64
	CompletionTokens int64
	// TotalTokens is prompt + completion where the engine left it out.
	TotalTokens     int64
	CachedTokens    int64
	ReasoningTokens int64

	HasPrompt, HasCompletion, HasTotal, HasCached, HasReasoning bool
}

// SameCounts reports whether two usages have the same counts.
func (u Usage) SameCounts(v Usage) bool {
	return u.State == v.State &&
		u.PromptTokens == v.PromptTokens && u.CompletionTokens == v.CompletionTokens &&
		u.TotalTokens == v.TotalTokens && u.CachedTokens == v.CachedTokens &&
		u.ReasoningTokens == v.ReasoningTokens
}

// ParseUsage reads a usage value: an object of chat, completions, embeddings or images
// (whose input_tokens and output_tokens are prompt and completion), or null. Text that is
// not JSON is absurd.
func ParseUsage(raw []byte) Usage {
	c := jsonscan.NewCursor(raw, jsonscan.Options{})
	u := readUsage(raw, &c)
	if c.End() != nil {
		u.refuse(UsageNotObject)
	}
	return u
}

func (u *Usage) refuse(why UsageReason) {
	u.State = UsageAbsurd
	if u.Reason == "" {
		u.Reason = why
	}
}

// readUsage consumes the value at the cursor.
func readUsage(data []byte, c *jsonscan.Cursor) Usage {
	var u Usage
	switch c.Kind() {
	case jsonscan.Null:
		c.Skip()
	case jsonscan.Object:
		u.readMembers(data, c, "")
		u.judge()
	default:
		c.Skip()
		u.refuse(UsageNotObject)
	}
	return u
}

// readMembers consumes a usage object (within is empty) or one of its details.
func (u *Usage) readMembers(data []byte, c *jsonscan.Cursor, within string) {
	c.Enter()
	for {
		key, ok := c.NextMember()
		if !ok {
			return
		}
		kind := c.Kind()
		name := key.Name(data)
		count, has := u.field(within, name)
		switch {
		case count != nil:
			u.readCount(count, has, kind, c.Skip().Of(data))
		case within == "" && kind == jsonscan.Object && isDetails(name):
			u.readMembers(data, c, detailsOf(name))
		default:
			c.Skip()
		}
	}
}

func isDetails(name []byte) bool { return detailsOf(name) != "" }

func detailsOf(name []byte) string {
	switch string(name) {
	case "prompt_tokens_details", "input_tokens_details":
		return "prompt"
	case "completion_tokens_details", "output_tokens_details":
		return "completion"
	}
	return ""
}

// field returns where the count of that name belongs, or nil.
func (u *Usage) field(within string, name []byte) (count *int64, has *bool) {
	switch within {
	case "":
		switch string(name) {
		case "prompt_tokens", "input_tokens":
			return &u.PromptTokens, &u.HasPrompt
		case "completion_tokens", "output_tokens":
			return &u.CompletionTokens, &u.HasCompletion
		case "total_tokens":
			return &u.TotalTokens, &u.HasTotal
		}
	case "prompt":
		if string(name) == "cached_tokens" {
			return &u.CachedTokens, &u.HasCached
		}
	case "completion":
		if string(name) == "reasoning_tokens" {
			return &u.ReasoningTokens, &u.HasReasoning
		}
	}
	return nil, nil
}

// readCount checks one count; null is silence.
func (u *Usage) readCount(count *int64, has *bool, kind jsonscan.Kind, raw []byte) {
	if kind == jsonscan.Null || kind == jsonscan.Invalid {
		return
	}
	if kind != jsonscan.Number {
		u.refuse(UsageNotInteger)
		return
	}
	n, err := jsonscan.Int(raw)
	switch {
	case err != nil:
		u.refuse(countFault(raw))
		return
	case n < 0 || raw[0] == '-':
		u.refuse(UsageNegative)
		return
	case n > maxTokens:
		u.refuse(UsageTooLarge)
		return
	case *has && *count != n:
		u.refuse(UsageDuplicate)
		return
	}
	*count, *has = n, true
}

// countFault returns whether a number is no integer or out of range.
func countFault(raw []byte) UsageReason {
	for _, b := range raw {
		if b == '.' || b == 'e' || b == 'E' {
			return UsageNotInteger
		}
	}
	if len(raw) > 0 && raw[0] == '-' {
		return UsageNegative
	}
	return UsageTooLarge
}

// judge sets the state once all members are read.
func (u *Usage) judge() {
	if u.State == UsageAbsurd {
		return
	}
	switch {
	case !u.HasPrompt && !u.HasCompletion && !u.HasTotal:
		u.State = UsageAbsent
		return
	case !u.HasPrompt:
		u.refuse(UsageIncomplete)
		return
	case !u.HasTotal:
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
	case u.TotalTokens != u.PromptTokens+u.CompletionTokens:
		u.refuse(UsageTotalMismatch)
		return
	}
	if u.CachedTokens > u.PromptTokens || u.ReasoningTokens > u.CompletionTokens {
		u.refuse(UsageDetailMismatch)
		return
	}
	u.State = UsageValid
}
