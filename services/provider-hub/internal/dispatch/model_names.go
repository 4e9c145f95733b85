package dispatch

import (
	"bytes"

	"svc.internal/pkg/jsonscan"
	"svc.internal/services/provider-hub/internal/session"
)

// maxRawName is how long a JSON string can be, in bytes and with its quotes, that
// stands for a name of maxIDText bytes; of a longer one no more than that is read.
const maxRawName = 6*maxIDText + 2

// maxAnsweredAs bounds what is kept of what an engine calls a model, in characters.
const maxAnsweredAs = 200

// modelNames notices an engine that calls the model otherwise than it may: by another
// name than the body that its provider was sent, than the one that the provider
// declared, and than the catalog's.
// The first such name of an attempt is kept. Nothing rests on it here.
type modelNames struct {
	catalog string
	// asked is the body's name where it is another; empty where not.
	asked string
	// declared is what the agent said that its engine calls the model, cleaned;
	// empty for nothing.
	declared string
	// agreed is a name that may stand, as the engine escapes it. Engines repeat it
	// in every event.
	agreed []byte
	// other is the name that may not, cleaned.
	other string
}

// askedFor is the model's name in the body where it is not the catalog's. One
// that is too long for the catalog is none.
func askedFor(o *Order) string {
	raw := o.Body[o.ModelOffset : o.ModelOffset+o.ModelLength]
	if len(raw) > maxRawName || jsonscan.StringIs(raw, o.Model) || string(raw) == o.Model {
		return ""
	}
	if name, err := jsonscan.DecodeString(raw); err == nil {
		return name
	}
	return string(raw) // as it stands in a form
}

// look takes the name at a place of an event or a whole answer. It does not
// allocate while names agree, but once for a name with escapes.
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

// head is the beginning of a JSON string that is valid, cut between two of its
// characters or escapes where it is too long.
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
