package devchain

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// maxAnswer bounds an answer of the chain.
const maxAnswer = 256 << 20

// client is for loopback alone.
var client = &http.Client{Timeout: 30 * time.Second}

// Ask calls a method of the JSON-RPC at a development chain's address and decodes its result, unless into is nil.
func Ask(ctx context.Context, url string, into any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	req.Header.Set("Content-Type", "application/json")
	response, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer func() { _ = response.Body.Close() }() // it was read
	var answer struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, maxAnswer)).Decode(&answer); err != nil {
		return fmt.Errorf("%s: read the answer: %w", method, err)
	}
	if answer.Error != nil {
		return fmt.Errorf("%s: %s", method, answer.Error.Message)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer.Result, into); err != nil {
		return fmt.Errorf("%s: read the result: %w", method, err)
	}
	return nil
}
