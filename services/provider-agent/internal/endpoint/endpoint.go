// Package endpoint names the endpoints of engines: their paths, and their names as
// capabilities.
//
// Capabilities are what an agent declares to hubs: the endpoints that its engines have,
// and the features stream, cancel, logprobs, warmup and fingerprint.
package endpoint

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Endpoint is an endpoint of an engine.
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

// Path is the endpoint's path below an engine's root.
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

// Capabilities are declared unless the owner says otherwise: the usual ones of an engine
// of language models. The owner must declare images and transcriptions, because requests
// for them would fail on other engines. Logprobs is not among them, because the engines
// are asked for it.
func Capabilities() []string {
	return []string{"chat", "stream", "cancel", "embeddings", WarmUp}
}

// Features beside the endpoints that more than one package names.
const (
	// WarmUp is the capability to load a model when a hub asks for it.
	WarmUp = "warmup"
	// Logprobs is the capability to return log probabilities of tokens.
	Logprobs = "logprobs"
	// Fingerprint is the capability to answer challenges of the models' files. It follows
	// from the folders of the models, so no owner lists it.
	Fingerprint = "fingerprint"
)

// known are all capabilities that an owner may list.
func known() []string {
	names := []string{"stream", "cancel", Logprobs, WarmUp}
	for _, e := range all() {
		names = append(names, e.String())
	}
	return names
}

// Check refuses unknown and repeated capabilities, and a list without an endpoint.
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

// Declared reports whether an endpoint is among the capabilities. Chat is always served,
// because hubs older than the other endpoints do not look.
func (e Endpoint) Declared(capabilities []string) bool {
	return e == Chat || slices.Contains(capabilities, e.String())
}
