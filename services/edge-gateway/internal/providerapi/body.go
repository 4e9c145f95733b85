package providerapi

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"unicode/utf8"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/jsonscan"

	"svc.internal/services/edge-gateway/internal/apierror"
)

const (
	// maxMembers bounds the members of a body. Agents may send members that are not
	// known.
	maxMembers = 32
	maxDepth   = 8
)

// member is one member of a body. Its value is read into text, number, flag, amount or, from
// hexadecimal digits after 0x, bytes.
type member struct {
	name   string
	text   *string
	number *int64
	flag   *bool
	bytes  *[]byte
	// amount is a positive decimal number of dollars, which may be written as a string or
	// as a number: as it is written, at most maxAmount characters.
	amount *string
	// raw is the value as it is written, for a member that is a list or an object.
	raw *[]byte
	// given, when set, reports whether the member is there.
	given *bool
	// limit bounds a text in characters, bytes in bytes, or a number, which is at least
	// 0.
	limit int64
	// required refuses a body without the member, or with an empty text in it. A number has
	// no empty value.
	required bool
}

// read reads the members of a call's body.
func (c Call) read(members ...member) error {
	if c.Unread != nil {
		return c.Unread
	}
	return readBody(c.Body, members...)
}

// readBody reads the members of a body. It passes over members that are not known,
// because agents send more than is asked for. A null counts as absent. A name that stands
// twice is refused, known or not. Faults name the member and never its value.
func readBody(raw []byte, members ...member) error {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = []byte("{}")
	}
	met := map[string]bool{}
	doc := jsonscan.New(raw, jsonscan.Options{MaxDepth: maxDepth, MaxMembers: maxMembers, RefuseInvalidUTF8: true})
	for found, err := range doc.Members() {
		if err != nil {
			return fault.New(fault.Invalid, fault.InvalidRequest, "The body is no JSON object as it is asked for: %s.", err)
		}
		name := string(found.Key.Name(raw))
		if met[name] {
			// Only known names are repeated.
			return fault.New(fault.Invalid, apierror.DuplicateField, "A member of the body is given twice.").On(
				known(members, name))
		}
		met[name] = true
		for _, m := range members {
			if m.name != name || found.Kind == jsonscan.Null {
				continue
			}
			if err := m.read(found.Value.Of(raw)); err != nil {
				return err
			}
		}
	}
	for _, m := range members {
		if m.required && (m.text != nil && *m.text == "" || m.amount != nil && *m.amount == "") {
			return missing(m.name)
		}
	}
	return nil
}

// maxAmount bounds the text of an amount in characters.
const maxAmount = 32

// amountForm is a decimal number without sign and exponent.
var amountForm = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// isAmount reports whether a text is an amount above zero. How exact it may be is for the
// service to say that moves the money.
func isAmount(text string) bool {
	return len(text) <= maxAmount && amountForm.MatchString(text) && strings.ContainsAny(text, "123456789")
}

func missing(name string) error {
	return fault.New(fault.Invalid, apierror.MissingRequired, "missing required parameter: %s", name).On(name)
}

func known(members []member, name string) string {
	for _, m := range members {
		if m.name == name {
			return name
		}
	}
	return ""
}

func (m member) read(value []byte) error {
	refuse := func(format string, args ...any) error {
		return fault.New(fault.Invalid, fault.InvalidValue, m.name+" "+format, args...).On(m.name)
	}
	if m.given != nil {
		*m.given = true
	}
	if m.raw != nil {
		*m.raw = value
		return nil
	}
	if m.flag != nil {
		*m.flag = string(value) == "true"
		if !*m.flag && string(value) != "false" {
			return refuse("must be true or false")
		}
		return nil
	}
	if m.number != nil {
		n, err := jsonscan.Int(value)
		if err != nil || n < 0 || n > m.limit {
			return refuse("must be a whole number from 0 to %d", m.limit)
		}
		*m.number = n
		return nil
	}
	if m.amount != nil {
		text := string(value)
		if decoded, err := jsonscan.DecodeString(value); err == nil {
			text = decoded
		}
		if !isAmount(text) {
			return refuse("must be an amount in dollars above zero, such as \"12.50\", in at most %d characters", maxAmount)
		}
		*m.amount = text
		return nil
	}
	text, err := jsonscan.DecodeString(value)
	if err != nil {
		return refuse("must be a string")
	}
	if m.bytes != nil {
		digits, prefixed := strings.CutPrefix(text, "0x")
		raw, err := hex.DecodeString(digits)
		if text != "" && (!prefixed || err != nil || int64(len(raw)) > m.limit) {
			return refuse("must be 0x and the hexadecimal digits of at most %d bytes", m.limit)
		}
		*m.bytes = raw
		return nil
	}
	if int64(utf8.RuneCountInString(text)) > m.limit {
		return refuse("must have at most %d characters", m.limit)
	}
	*m.text = text
	return nil
}

// answer makes an answer of a value.
func answer(status int, value any) (Answer, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return Answer{}, fmt.Errorf("encode an answer: %w", err)
	}
	return Answer{Status: status, JSON: body}, nil
}

// publicCache is the Cache-Control of answers that are the same for everybody.
const publicCache = "public, max-age=60"

func ok(body []byte) Answer { return Answer{Status: http.StatusOK, JSON: body} }
