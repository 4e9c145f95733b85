package external

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"svc.internal/pkg/config"
	"svc.internal/pkg/dialguard"
)

// maxList bounds what is read of a list of models, in bytes.
const maxList = 1 << 20

// hubFull is a probe for which this hub had no connection left. It says nothing of the server, so it is
// not stored; a check shows it as Unreachable.
const hubFull Failure = "hub_full"

// probe asks an endpoint for its models. The names are nil where the probe failed. Failures
// of the network have one word, whatever they are.
func probe(ctx context.Context, client *http.Client, base string, k config.Secret) (names []string, why Failure) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/models", nil)
	if err != nil {
		return nil, Unreachable
	}
	authorize(req, k)
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, dialguard.ErrConnections):
		return nil, hubFull
	case err != nil:
		return nil, Unreachable
	}
	defer resp.Body.Close()
	if ofMarketplace(resp) {
		return nil, BadAnswer
	}
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return nil, Unauthorized
	default:
		return nil, BadStatus
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxList+1))
	switch {
	case err != nil:
		return nil, Unreachable
	case len(body) > maxList:
		return nil, BadAnswer
	}
	names, ok := readList(body)
	if !ok {
		return nil, BadAnswer
	}
	return names, ""
}

// ofMarketplace reports whether an answer is of the marketplace's own API. An endpoint that
// leads there would have its requests sent to itself, over and over.
func ofMarketplace(resp *http.Response) bool { return resp.Header.Get("X-Svc-Request-Id") != "" }

// readList reads the names in a list of models. Ollama without a model writes null for the
// list, but names it a list.
func readList(body []byte) (names []string, ok bool) {
	var list struct {
		Object string `json:"object"`
		Data   []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &list) != nil || list.Data == nil && list.Object != "list" {
		return nil, false
	}
	names = make([]string, 0, len(list.Data))
	for _, m := range list.Data {
		names = append(names, m.ID)
	}
	return names, true
}

// listed are the ids of the models that a list names. Ollama serves x:latest as x.
func listed(models []Model, names []string) []string {
	named := make(map[string]bool, 2*len(names))
	for _, name := range names {
		named[name] = true
		named[strings.TrimSuffix(name, ":latest")] = true
	}
	found := []string{}
	for _, m := range models {
		if named[m.Local] {
			found = append(found, m.ID)
		}
	}
	return found
}

func authorize(req *http.Request, k config.Secret) {
	dialguard.MarkHub(req.Header)
	if k.IsSet() {
		req.Header.Set("Authorization", "Bearer "+k.Reveal())
	}
}
