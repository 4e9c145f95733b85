package siwe

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// ErrMessage is the fault of a text that is no challenge in the form of Message.
var ErrMessage = errors.New("the message is no challenge of this service")

// Parse reads the text that Message made of a valid challenge, and no other text: what EIP-4361
// allows besides is refused. So Message of the result is the text, byte by byte.
func Parse(text string) (Challenge, error) {
	if len(text) > maxMessage {
		return Challenge{}, ErrMessageLength
	}
	c, err := fields(text)
	if err != nil || c.Validate() != nil || Message(c) != text {
		return Challenge{}, ErrMessage
	}
	return c, nil
}

// The lines of a message, and what stands before the value of each.
var prefixes = [...]string{"", "", "", "", "", "URI: ", "Version: ", "Chain ID: ", "Nonce: ", "Issued At: ",
	"Expiration Time: "}

// opening ends the first line of a message, which begins with the domain.
const opening = " wants you to sign in with your Ethereum account:"

// fields reads the fields of a message. That the text says nothing else is for the caller to
// find.
func fields(text string) (c Challenge, err error) {
	lines := strings.SplitN(text, "\n", len(prefixes)+1)
	if len(lines) != len(prefixes) {
		return Challenge{}, ErrMessage
	}
	for i, prefix := range prefixes {
		value, ok := strings.CutPrefix(lines[i], prefix)
		if !ok {
			return Challenge{}, ErrMessage
		}
		lines[i] = value
	}
	var ofDomain bool
	c.Domain, ofDomain = strings.CutSuffix(lines[0], opening)
	if !ofDomain {
		return Challenge{}, ErrMessage
	}
	var errs [4]error
	c.Address, errs[0] = ParseAddress(lines[1])
	c.Purpose, c.URI, c.Nonce = lines[3], lines[5], lines[8]
	c.ChainID, errs[1] = strconv.ParseInt(lines[7], 10, 64)
	c.IssuedAt, errs[2] = time.Parse(timeLayout, lines[9])
	c.ExpiresAt, errs[3] = time.Parse(timeLayout, lines[10])
	return c, errors.Join(errs[:]...)
}
