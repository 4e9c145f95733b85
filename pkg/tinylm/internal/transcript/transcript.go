// Package transcript lays a conversation out as the bytes that tinylm reads.
//
//	[0x01 system text] (0x02 user text 0x03 assistant text 0x04)*
//
// The model answers after a 0x03 and ends its answer with a 0x04. Control
// characters other than tab and line feed are left out of texts, so that no text
// can imitate a marker.
package transcript

import "strings"

// The markers. Each is one byte, and so one token.
const (
	System    = 0x01
	User      = 0x02
	Assistant = 0x03
	End       = 0x04
)

// AppendSystem appends the system text.
func AppendSystem(to []byte, text string) []byte { return appendText(append(to, System), text) }

// AppendUser appends a user text.
func AppendUser(to []byte, text string) []byte { return appendText(append(to, User), text) }

// AppendAnswer appends a finished assistant text.
func AppendAnswer(to []byte, text string) []byte {
	return append(appendText(append(to, Assistant), text), End)
}

// AppendCue appends the marker after which the model answers.
func AppendCue(to []byte) []byte { return append(to, Assistant) }

// Printable reports whether b may stand in a text.
func Printable(b byte) bool { return b >= ' ' && b != 0x7f || b == '\n' || b == '\t' }

func appendText(to []byte, text string) []byte {
	text = strings.TrimSpace(text)
	for i := range len(text) {
		if Printable(text[i]) {
			to = append(to, text[i])
		}
	}
	return to
}
