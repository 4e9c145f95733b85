package dispatch

import (
	"bytes"

	"svc.internal/pkg/jsonscan"
	"svc.internal/services/provider-hub/internal/session"
)

// maxRawName bounds a JSON string that stands for a name of maxIDText bytes: its length
// in bytes with its quotes. No more is read of a longer string.
const maxRawName = 6*maxIDText + 2

// maxAnsweredAs bounds the name that is kept of an engine's model, in characters.
const maxAnsweredAs = 200

// modelNames notices an engine that calls the model by a name that may not stand. Three
// names may stand: the catalog's, the name in the body that the provider was sent, and
// the name that the provider declared. modelNames keeps the first other name of an
// attempt. Nothing here depends on that name.
type modelNames struct {
	catalog string
	// asked is the body's name where it is not the catalog's; else empty.
	asked string
	// declared is the name that the agent says its engine uses, cleaned; empty for none.
	declared string
	// agreed is a name that may stand, as the engine escapes it. It is kept because
	// engines repeat it in every event.
	agreed []byte
	// other is the first name that may not stand, cleaned.
	other string
}

// askedFor is the model's name in the body where it is not the catalog's. A name that is
// too long for the catalog counts as none.
func askedFor(o *Order) string {
	raw := o.Body[o.ModelOffset : o.ModelOffset+o.ModelLength]
	if len(raw) > maxRawName || jsonscan.StringIs(raw, o.Model) || string(raw) == o.Model {
		return ""
	}
	if name, err := jsonscan.DecodeString(raw); err == nil {
		return name
	}
	return string(raw) // in a form the name stands without quotes
}

// look takes the name at a place of an event or a whole answer. It does not allocate
// while names agree, but once for a name with escapes.
func (n *modelNames) look(json []byte, at jsonscan.Span) {
	if n.other != "" || !at.Found() {
		return
	}
	raw := at.Of(json)
	if raw[0] != '"' || bytes.Equal(raw, n.agreed) {
		return // null and the like name nothing
	}
	if len(raw) <= maxRawName && n.may(raw) {
		if bytes.IndexByte(raw, '\\') >= 0 {
			n.agreed = bytes.Clone(raw)
		}
		return
	}
	text, err := jsonscan.AppendDecoded(nil, head(raw))
	if err != nil {
		return
	}
	if name := session.Clean(string(text), maxAnsweredAs); name != n.catalog && name != n.asked && name != n.declared {
		n.other = name
	}
}

func (n *modelNames) may(raw []byte) bool {
	return jsonscan.StringIs(raw, n.catalog) || n.asked != "" && jsonscan.StringIs(raw, n.asked) ||
		n.declared != "" && jsonscan.StringIs(raw, n.declared)
}

// head is the beginning of a valid JSON string. A string that is too long is cut between
// two of its characters or escapes.
func head(raw []byte) []byte {
	if len(raw) <= maxRawName {
		return raw
	}
	end := 1
	for end < maxRawName-1 {
		switch {
		case raw[end] != '\\':
			end++
		case raw[end+1] == 'u':
			end += 6
		default:
			end += 2
		}
	}
	return append(bytes.Clone(raw[:end]), '"')
}
