package oidc

import (
	"errors"
	"fmt"
)

// Errors that a caller must tell apart.
var (
	// ErrUnknown says that there is no issuer of the name.
	ErrUnknown = errors.New("there is no such issuer")
	// ErrRefused says that nobody was signed in, because of what the browser or the id token says.
	ErrRefused = errors.New("the sign-in does not count")
	// ErrAway says that the provider does not answer as it should, or that too many ask it.
	ErrAway = errors.New("the OpenID provider does not answer")
)

func refused(why string) error { return fmt.Errorf("%w: %s", ErrRefused, why) }
