package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	// maxAsked bounds what is read of an answer, and maxShown what is shown of one that is
	// no completion, in bytes.
	maxAsked = 1 << 20
	maxShown = 500
	// maxKeyFile bounds the file of a key, in bytes.
	maxKeyFile = 4 << 10
)

// question is what ask asks, and whom.
type question struct {
	url, model, keyFile string
	timeout             time.Duration
}

// ask asks for one completion and returns the exit code: 0 when one came, 1 when none came,
// 2 for a command line that cannot work.
func ask(ctx context.Context, args []string, out, errs io.Writer) int {
	var q question
	flags := flag.NewFlagSet("ask", flag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&q.url, "url", "", "the public API, ending in /v1")
	flags.StringVar(&q.model, "model", "", "the id of a model")
	flags.StringVar(&q.keyFile, "key-file", "", "the file with a consumer's key")
	flags.DurationVar(&q.timeout, "timeout", time.Minute, "how long the completion may take")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if flags.NArg() > 0 || q.url == "" || q.model == "" || q.keyFile == "" || q.timeout <= 0 {
		flags.Usage()
		return 2
	}
	answered, err := q.complete(ctx)
	if err != nil {
		fmt.Fprintf(errs, "edge-gateway ask: %v\n", err)
		return 1
	}
	fmt.Fprintln(out, answered)
	return 0
}

// complete asks for a completion and returns a line on it.
func (q question) complete(ctx context.Context) (string, error) {
	key, err := readKey(q.keyFile)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(map[string]any{
		"model": q.model, "max_tokens": 8, "messages": []any{map[string]any{"role": "user", "content": "Say hello."}},
	})
	if err != nil {
		return "", fmt.Errorf("write the request: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, q.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(q.url, "/")+"/chat/completions",
		bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask %s: %w", q.url, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAsked))
	if err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	tokens, err := completed(resp.StatusCode, text)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s answered with %d tokens in %v (request %s, provider %s)", q.model, tokens,
		time.Since(began).Round(time.Millisecond), resp.Header.Get("X-Svc-Request-Id"),
		resp.Header.Get("X-Svc-Provider-Id")), nil
}

// completed returns the completion tokens of an answer, and an error for an answer that is no
// completion.
func completed(status int, text []byte) (tokens int, err error) {
	shown := text[:min(len(text), maxShown)]
	if status != http.StatusOK {
		return 0, fmt.Errorf("got status %d, want 200: %s", status, shown)
	}
	var answer struct {
		Choices []struct {
			FinishReason string `json:"finish_reason"`
		} `json:"choices"`
		Usage struct {
			CompletionTokens int `json:"completion_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return 0, fmt.Errorf("the answer is no completion: %w: %s", err, shown)
	}
	if len(answer.Choices) == 0 || answer.Choices[0].FinishReason == "" || answer.Usage.CompletionTokens < 1 {
		return 0, fmt.Errorf("the answer is no completion: %s", shown)
	}
	return answer.Usage.CompletionTokens, nil
}

// readKey reads the consumer's key of a file.
func readKey(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("open the key's file: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxKeyFile))
	if err := errors.Join(err, file.Close()); err != nil {
		return "", fmt.Errorf("read the key's file: %w", err)
	}
	key := strings.TrimSpace(string(text))
	if key == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return key, nil
}
