// Package record holds what the two ends of a chaos run remember: what each call brought
// its client, and what engines sent. Together with the ledger's export that is everything
// that an auditor knows. The files are JSON lines.
//
// A client's nonce is in the metadata of its request's body, which reaches the engine
// unchanged. One nonce is one HTTP call.
package record

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Names of the files.
const (
	ClientsFile    = "clients.jsonl"
	EnginesFile    = "engines.jsonl"
	SetupFile      = "setup.json"
	LedgerFile     = "ledger.jsonl"
	SettlementFile = "settlement.jsonl"
	ChainsFile     = "chains.jsonl"
)

// Usage is the usage in an answer.
type Usage struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
}

// Client is one call as its client saw it.
type Client struct {
	Nonce string `json:"nonce"`
	// Key is the name of the account, AccountID its id.
	Key       string    `json:"key"`
	AccountID string    `json:"account_id"`
	Model     string    `json:"model"`
	Stream    bool      `json:"stream"`
	SentAt    time.Time `json:"sent_at"`
	// Status is 0 when no answer came.
	Status    int    `json:"status"`
	RequestID string `json:"request_id"`
	ErrorCode string `json:"error_code"`
	// ContentTokens counts the pieces of content that came, and ContentBytes their
	// length.
	ContentTokens int64 `json:"content_tokens"`
	ContentBytes  int64 `json:"content_bytes"`
	// Complete reports that the answer came to its end: a whole JSON object, or [DONE].
	Complete   bool `json:"complete"`
	ErrorEvent bool `json:"error_event"`
	// Left reports that the client hung up.
	Left    bool      `json:"left"`
	Usage   *Usage    `json:"usage"`
	EndedAt time.Time `json:"ended_at"`
}

// Engine is one request as an engine served it.
type Engine struct {
	Nonce string `json:"nonce"`
	// RequestID is the request's id as the agent passes it on.
	RequestID  string `json:"request_id"`
	Engine     string `json:"engine"`
	ProviderID string `json:"provider_id"`
	Model      string `json:"model"`
	// PromptTokens is the engine's reported prompt, and CompletionTokens what it sent
	// before it ended.
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	Status           int   `json:"status"`
	// Complete reports that it sent everything, and Cut that somebody hung up before.
	Complete bool `json:"complete"`
	Cut      bool `json:"cut"`
	// NoUsage reports that it sent no usage.
	NoUsage bool      `json:"no_usage"`
	At      time.Time `json:"at"`
}

// Setup is what was made before the first call.
type Setup struct {
	Setup     bool       `json:"setup"`
	Accounts  []Account  `json:"accounts"`
	Models    []Model    `json:"models"`
	Providers []Provider `json:"providers"`
}

// Account is a consumer's account.
type Account struct {
	AccountID   string `json:"account_id"`
	Name        string `json:"name"`
	GrantedNano int64  `json:"granted_nano"`
	// RequestsPerMinute and ConcurrentRequests are its limits: -1 for none, 0 for the
	// service's defaults.
	RequestsPerMinute  int32 `json:"requests_per_minute"`
	ConcurrentRequests int32 `json:"concurrent_requests"`
}

// Model has its prices in pico-USD for a token, which is micro-USD for a million
// of them.
type Model struct {
	Model            string `json:"model"`
	InputRate        int64  `json:"input_rate"`
	OutputRate       int64  `json:"output_rate"`
	PayoutInputRate  int64  `json:"payout_input_rate"`
	PayoutOutputRate int64  `json:"payout_output_rate"`
}

// Provider is a provider with its engine.
type Provider struct {
	ProviderID string `json:"provider_id"`
	Engine     string `json:"engine"`
}

// File is a file of JSON lines. It is safe for concurrent use.
type File[T any] struct {
	mu    sync.Mutex
	file  *os.File
	out   *bufio.Writer
	lines int
	err   error
}

// Create makes an empty file.
func Create[T any](path string) (*File[T], error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make a record: %w", err)
	}
	return &File[T]{file: file, out: bufio.NewWriterSize(file, 64<<10)}, nil
}

// Add appends a line. The first error is kept for Close.
func (f *File[T]) Add(line T) {
	text, err := json.Marshal(line)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		_, err = f.out.Write(append(text, '\n'))
	}
	if f.err == nil {
		f.err = err
	}
	f.lines++
}

// Lines is how many lines were added.
func (f *File[T]) Lines() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lines
}

// Close writes everything that is buffered.
func (f *File[T]) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := errors.Join(f.err, f.out.Flush(), f.file.Close()); err != nil {
		return fmt.Errorf("write a record: %w", err)
	}
	return nil
}

// Write writes one value as a file of one line.
func Write(path string, value any) error {
	text, err := json.Marshal(value)
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write a record: %w", err)
	}
	return nil
}
