package openai

import (
	"bytes"

	"svc.internal/pkg/jsonscan"
)

// account is the text of one choice over all its chunks: known text, and the contents of
// unknown members. Engines send the same text in both, so the longer of the two is
// certain to have been delivered. The bill counts the known text alone, once there is
// any, because clients show that and an engine could fill a member that nobody reads.
type account struct {
	text, vendor Counter
	numbers      int // in arrays of unknown members, where ids of tokens may be all there is
	// What was counted of the two at the end of the previous choice, and what of them the
	// bill counts.
	textBefore, vendorBefore, billed counts
}

// worth returns what the bill counts so far.
func (a *account) worth() counts {
	if a.textBefore.tokens > 0 {
		return a.textBefore
	}
	return counts{tokens: max(a.vendorBefore.tokens, a.numbers), plausible: max(a.vendorBefore.plausible, a.numbers)}
}

// choiceScan is what one choice of one chunk adds to its account.
type choiceScan struct {
	begun       bool  // something was counted
	index       int64 // of the choice then
	textBytes   int64 // Chunk.ContentBytes before
	vendorBytes int64
	otherBytes  int64 // delivered, and no text: pictures, sound, numbers
	numbers     int
	probable    int // tokens of logprobs
}

// lateValue is a value of a choice that stands before the choice's index.
type lateValue struct {
	span   jsonscan.Span
	vendor bool
}

const (
	// maxLate bounds the values of a choice that may stand before its index.
	maxLate = 4
	// maxVendorDepth is the depth to which unknown members are searched for text.
	maxVendorDepth = 6
)

// saysNothing reports whether a member of a choice or of its message is known to carry
// nothing that was asked of the engine: marks, identities, and results of moderation.
func saysNothing(name string) bool {
	switch name {
	case "role", "id", "type", "format", "name", "index", "object", "signature", "encrypted_content", "annotations",
		"tool_call_id",
		"stop_reason", "matched_stop", "native_finish_reason", "content_filter_results", "content_filter_offsets",
		"finish_details", "prefix":
		return true
	}
	return false
}

// account returns the account of that choice.
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
	known := int64(0)
	if scan.begun {
		known = s.out.ContentBytes - scan.textBytes
	}
	s.out.HasContent = s.out.HasContent || scan.vendorBytes+scan.otherBytes > 0
	s.out.ContentBytes += max(0, scan.vendorBytes-known) + scan.otherBytes
	if known == 0 && scan.vendorBytes == 0 && scan.probable > 0 {
		s.out.HasContent = true
		s.out.ContentBytes += int64(scan.probable)
		s.add(counts{scan.probable, scan.probable, scan.probable})
		return
	}
	if !scan.begun {
		return
	}
	a := s.account(scan.index)
	var text, vendor, billed counts
	if known > 0 {
		text, a.textBefore = a.text.counts().since(a.textBefore)
	}
	if scan.vendorBytes > 0 {
		vendor, a.vendorBefore = a.vendor.counts().since(a.vendorBefore)
	}
	a.numbers += scan.numbers
	billed, a.billed = a.worth().since(a.billed)
	billed.least = max(text.least, vendor.least)
	s.add(billed)
}

func (s *scan) add(c counts) {
	s.out.Tokens += c.tokens
	s.out.Least += c.least
	s.out.Plausible += c.plausible
}

// since returns what was added since before, and the counts themselves.
func (c counts) since(before counts) (added, now counts) {
	return counts{c.tokens - before.tokens, c.least - before.least, c.plausible - before.plausible}, c
}

// vendor counts all strings of an unknown value. Numbers in arrays are delivered and have
// no text; the text of ids of tokens stands beside them.
func (s *scan) vendor(c *jsonscan.Cursor, a *account, depth int) {
	kind := c.Kind()
	switch {
	case depth == maxVendorDepth:
		s.vendorText(c.Skip().Of(s.data), a)
	case kind == jsonscan.String:
		raw := c.Skip().Of(s.data)
		switch {
		case len(raw) <= 2: // empty, or no JSON
		case bytes.HasPrefix(raw, []byte(`"data:`)):
			s.choiceOf.otherBytes += int64(len(raw) - 2)
		default:
			s.vendorText(raw[1:len(raw)-1], a)
		}
	case kind == jsonscan.Object:
		for c.Enter(); ; {
			key, ok := c.NextMember()
			if !ok {
				return
			}
			s.vendorMember(c, string(key.Name(s.data)), a, depth+1)
		}
	case kind == jsonscan.Array:
		for c.Enter(); c.NextElement(); {
			if c.Kind() == jsonscan.Number {
				s.choiceOf.otherBytes += int64(c.Skip().Len())
				s.choiceOf.numbers++
				continue
			}
			s.vendor(c, a, depth+1)
		}
	default:
		c.Skip()
	}
}

// vendorMember counts the value of an unknown member. Pictures and sounds, as data URLs
// or under the usual names of base64, are delivered and have no tokens, because no
// vocabulary says how many.
func (s *scan) vendorMember(c *jsonscan.Cursor, name string, a *account, depth int) {
	switch {
	case saysNothing(name):
		c.Skip()
	case (name == "data" || name == "b64_json") && c.Kind() == jsonscan.String:
		s.choiceOf.otherBytes += int64(max(c.Skip().Len()-2, 0))
	default:
		s.vendor(c, a, depth)
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
