// Package endpoint names what engines can be asked for: where each endpoint
// stands on an engine, and what the agent calls it when it registers.
//
// Capabilities are what an agent declares to hubs: the endpoints that its
// engines have, and the features stream, cancel, logprobs and warmup.
package endpoint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Endpoint is one of an engine's.
type Endpoint uint8

// The endpoints. The zero value is Chat.
const (
	Chat Endpoint = iota
	Embeddings
	Images
	Transcriptions
)

// all are the endpoints.
func all() []Endpoint { return []Endpoint{Chat, Embeddings, Images, Transcriptions} }

// Path is where it stands below an engine's root.
func (e Endpoint) Path() string {
	switch e {
	case Embeddings:
		return "/embeddings"
	case Images:
		return "/images/generations"
	case Transcriptions:
		return "/audio/transcriptions"
	case Chat:
	}
	return "/chat/completions"
}

// String is the endpoint's name as a capability.
func (e Endpoint) String() string {
	switch e {
	case Embeddings:
		return "embeddings"
	case Images:
		return "images"
	case Transcriptions:
		return "transcriptions"
	case Chat:
	}
	return "chat"
}

// Capabilities are what is declared unless the owner says otherwise: what an
// engine of language models has. Images and transcriptions are the owner's to
// declare, because requests of them would fail elsewhere.
func Capabilities() []string {
	return []string{"chat", "stream", "cancel", "logprobs", "embeddings", WarmUp}
}

// WarmUp is the capability to load a model when a hub asks for it.
const WarmUp = "warmup"

// known are all capabilities there are.
func known() []string {
	names := []string{"stream", "cancel", "logprobs", WarmUp}
	for _, e := range all() {
		names = append(names, e.String())
	}
	return names
}

// Check refuses capabilities that nobody knows, that stand twice, or among
// which there is no endpoint.
func Check(capabilities []string) error {
	seen := map[string]bool{}
	endpoints := 0
	for _, c := range capabilities {
		switch {
		case !slices.Contains(known(), c):
			return fmt.Errorf("capabilities: %q is none of %s", c, strings.Join(known(), ", "))
		case seen[c]:
			return fmt.Errorf("capabilities: %q stands twice", c)
		}
		seen[c] = true
	}
	for _, e := range all() {
		if seen[e.String()] {
			endpoints++
		}
	}
	if endpoints == 0 {
		return errors.New("capabilities: at least one of chat, embeddings, images and transcriptions is needed")
	}
	return nil
}

// Declared reports whether an endpoint is among the capabilities. Chat always is
// served: hubs older than the other endpoints do not look.
func (e Endpoint) Declared(capabilities []string) bool {
	return e == Chat || slices.Contains(capabilities, e.String())
}
