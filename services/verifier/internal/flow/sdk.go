package flow

import (
	"net/http"

	"svc.internal/pkg/ids"
	"svc.internal/pkg/jsonscan"
	"svc.internal/services/verifier/internal/dice"
	"svc.internal/services/verifier/internal/prompt"
)

// client is the program that a request seems to come from.
type client uint8

// The clients, one for each layout of package prompt.
const (
	pythonClient client = iota
	nodeClient
	goClient
	curlClient
)

// clientOf finds the client that lays its requests out like the body. The Python library
// begins with the messages, or the input. Only people indent. The Go library has
// max_tokens before what the Node library has before it; where neither is there, the
// layouts are equal.
func clientOf(body []byte) client {
	if len(body) > 1 && (body[1] == '\n' || body[1] == '\r') {
		return curlClient
	}
	bound := -1
	at := 0
	for m, err := range jsonscan.New(body, jsonscan.Options{}).Members() {
		if err != nil {
			return curlClient
		}
		switch name := string(m.Key.Name(body)); {
		case at == 0 && (name == "messages" || name == "input"):
			return pythonClient
		case name == "max_tokens":
			bound = at
		case bound < 0 && (name == "temperature" || name == "top_p"):
			return nodeClient
		case bound >= 0 && (name == "temperature" || name == "top_p"):
			return goClient
		case name == "seed" && at > bound+1:
			return goClient // behind stream
		}
		at++
	}
	return nodeClient
}

// version is a release of a client library with its runtime.
type version struct{ library, runtime, system, machine string }

// The releases that are in use side by side. An account stays with one.
var (
	pythonVersions = []version{
		{"1.109.1", "3.12.3", "Linux", "x64"}, {"1.99.9", "3.11.9", "Linux", "x64"},
		{"1.97.0", "3.12.7", "MacOS", "arm64"}, {"2.3.0", "3.13.1", "Linux", "arm64"},
	}
	nodeVersions = []version{
		{"5.23.2", "v22.14.0", "Linux", "x64"}, {"5.12.2", "v20.18.1", "Linux", "x64"},
		{"4.104.0", "v20.11.1", "MacOS", "arm64"},
	}
	curlVersions = []version{{library: "8.5.0"}, {library: "7.88.1"}, {library: "8.7.1"}}
)

// headers returns what a client of an account sends beside key and routing. The names have
// the client's own upper case.
func (c client) headers(secret prompt.Secret, account ids.AccountID, streamed bool) http.Header {
	d := dice.New(secret, "client", account[:], []byte{byte(c)})
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}}
	switch c {
	case pythonClient:
		v := pythonVersions[d.IntN(len(pythonVersions))]
		h["User-Agent"], h["Accept-Encoding"] = []string{"OpenAI/Python " + v.library}, []string{"gzip, deflate"}
		v.describe(h, "python", "CPython")
		h["X-Stainless-Async"] = []string{"false"}
		h["x-stainless-read-timeout"] = []string{"600"}
	case nodeClient:
		v := nodeVersions[d.IntN(len(nodeVersions))]
		h["User-Agent"], h["Accept-Encoding"] = []string{"OpenAI/JS " + v.library}, []string{"gzip, deflate"}
		v.describe(h, "js", "node")
		h["X-Stainless-Timeout"] = []string{"600"}
	case goClient:
		// The library leaves the user agent to Go.
		h["Accept-Encoding"] = []string{"gzip"}
		if streamed {
			h["Accept"], h["Cache-Control"] = []string{"text/event-stream"}, []string{"no-cache"}
			h["Connection"] = []string{"keep-alive"}
		}
	case curlClient:
		h["User-Agent"], h["Accept"] = []string{"curl/" + curlVersions[d.IntN(len(curlVersions))].library}, []string{"*/*"}
	}
	return h
}

// describe adds what the libraries of one generator say of themselves.
func (v version) describe(h http.Header, language, runtime string) {
	for name, value := range map[string]string{
		"X-Stainless-Lang": language, "X-Stainless-Package-Version": v.library, "X-Stainless-OS": v.system,
		"X-Stainless-Arch": v.machine, "X-Stainless-Runtime": runtime, "X-Stainless-Runtime-Version": v.runtime,
		"X-Stainless-Retry-Count": "0",
	} {
		h[name] = []string{value}
	}
}

// modern reports whether the client speaks HTTP/2 where the server does.
func (c client) modern() bool { return c == goClient || c == curlClient }
