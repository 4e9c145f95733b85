package openai

import (
	"bytes"

	"svc.internal/pkg/jsonscan"
)

// account is the text of one choice over all its chunks: what is known to be
// text, and what members hold that nobody here knows. Engines send the same text
// in both, so the longer of the two counts.
type account struct {
	text, vendor Counter
	// What was counted of the two at the end of the choice before.
	textBefore, vendorBefore counts
}

// choiceScan is what one choice of one chunk adds to its account.
type choiceScan struct {
	begun       bool  // something was counted
	index       int64 // of the choice then
	textBytes   int64 // Chunk.ContentBytes before
	vendorBytes int64
	probable    int // tokens of logprobs
}

// lateValue is a value of a choice that stands before the choice's index.
type lateValue struct {
	span   jsonscan.Span
	vendor bool
}

const (
	// maxLate is how many values of a choice may stand before its index.
	maxLate = 4
	// maxVendorDepth is how deep text is looked for in unknown members.
	maxVendorDepth = 6
)

// saysNothing reports whether a member of a choice or of its message is known to
// carry nothing that an engine was asked for: marks, identities, and what moderation
// says.
func saysNothing(name string) bool {
	switch name {
	case "role", "id", "type", "format", "name", "index", "object", "signature", "encrypted_content", "annotations", "tool_call_id",
		"stop_reason", "matched_stop", "native_finish_reason", "content_filter_results", "content_filter_offsets", "finish_details", "prefix":
		return true
	}
	return false
}

// account is where the text of that choice is counted.
func (s *scan) account(index int64) *account {
	scan := &s.choiceOf
	if !scan.begun {
		scan.begun, scan.index, scan.textBytes = true, index, s.out.ContentBytes
		s.local = account{}
	}
	if s.tally == nil {
		return &s.local
	}
	return s.tally.account(scan.index)
}

// endChoice adds what the choice held to the chunk.
func (s *scan) endChoice() {
	scan := &s.choiceOf
	var text, vendor counts
	known := int64(0)
	if scan.begun {
		a := s.account(scan.index)
		if known = s.out.ContentBytes - scan.textBytes; known > 0 {
			text, a.textBefore = a.text.counts().since(a.textBefore)
		}
		if scan.vendorBytes > 0 {
			vendor, a.vendorBefore = a.vendor.counts().since(a.vendorBefore)
		}
	}
	s.out.HasContent = s.out.HasContent || scan.vendorBytes > 0
	s.out.ContentBytes += max(0, scan.vendorBytes-known)
	if known == 0 && scan.vendorBytes == 0 && scan.probable > 0 {
		s.out.HasContent = true
		s.out.ContentBytes += int64(scan.probable)
		text = counts{scan.probable, scan.probable, scan.probable}
	}
	s.out.Tokens += max(text.tokens, vendor.tokens)
	s.out.Least += max(text.least, vendor.least)
	s.out.Plausible += max(text.plausible, vendor.plausible)
}

// since is what came since before, and the counts themselves.
func (c counts) since(before counts) (added, now counts) {
	return counts{c.tokens - before.tokens, c.least - before.least, c.plausible - before.plausible}, c
}

// vendor counts all strings, and all numbers in arrays, of a value that nobody
// here knows: ids of tokens are text, too. Data URLs are pictures and sounds,
// which have no tokens.
func (s *scan) vendor(c *jsonscan.Cursor, a *account, depth int) {
	kind := c.Kind()
	switch {
	case depth == maxVendorDepth:
		s.vendorText(c.Skip().Of(s.data), a)
	case kind == jsonscan.String:
		if raw := c.Skip().Of(s.data); len(raw) > 2 && !bytes.HasPrefix(raw, []byte(`"data:`)) {
			s.vendorText(raw[1:len(raw)-1], a)
		}
	case kind == jsonscan.Object:
		for c.Enter(); ; {
			key, ok := c.NextMember()
			if !ok {
				return
			}
			if saysNothing(string(key.Name(s.data))) {
				c.Skip()
				continue
			}
			s.vendor(c, a, depth+1)
		}
	case kind == jsonscan.Array:
		for c.Enter(); c.NextElement(); {
			if c.Kind() == jsonscan.Number {
				s.vendorText(c.Skip().Of(s.data), a)
				continue
			}
			s.vendor(c, a, depth+1)
		}
	default:
		c.Skip()
	}
}

func (s *scan) vendorText(raw []byte, a *account) {
	s.choiceOf.vendorBytes += int64(len(raw))
	a.vendor.Write(raw)
}

// logprobs counts the tokens of the lists in the logprobs of a choice: content
// and refusal, or tokens of the legacy form.
func (s *scan) logprobs(c *jsonscan.Cursor) {
	for c.Enter(); ; {
		key, ok := c.NextMember()
		if !ok {
			return
		}
		switch name := string(key.Name(s.data)); {
		case c.Kind() != jsonscan.Array, name != "content" && name != "refusal" && name != "tokens":
			c.Skip()
		default:
			for c.Enter(); c.NextElement(); {
				c.Skip()
				s.choiceOf.probable++
			}
		}
	}
}
