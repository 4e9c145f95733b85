package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
)

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 1 << 20

// ErrNotRunning means that no agent of this user runs with a folder.
var ErrNotRunning = errors.New("no agent of yours runs here")

// Client asks the agent that runs with a folder. It is safe for concurrent use.
type Client struct{ http *http.Client }

// NewClient makes a client for the folder. It opens nothing.
func NewClient(dir string) *Client {
	return &Client{http: &http.Client{Timeout: patience, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(dir, socketName))
		},
	}}}
}

// State asks what the agent knows. It fails with ErrNotRunning.
func (c *Client) State(ctx context.Context) (State, error) {
	return c.call(ctx, http.MethodGet, "state")
}

// Pause has the agent take no new requests, and Resume has it take them again. Both fail
// with ErrNotRunning.
func (c *Client) Pause(ctx context.Context) (State, error) {
	return c.call(ctx, http.MethodPost, "pause")
}

// Resume ends a pause.
func (c *Client) Resume(ctx context.Context) (State, error) {
	return c.call(ctx, http.MethodPost, "resume")
}

// Drain has the agent end once the requests under way have ended. It fails with ErrNotRunning.
func (c *Client) Drain(ctx context.Context) (State, error) {
	return c.call(ctx, http.MethodPost, "drain")
}

// call makes one call and returns the state that it is answered with.
func (c *Client) call(ctx context.Context, method, name string) (State, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://agent/"+name, nil)
	if err != nil {
		return State{}, fmt.Errorf("make the call: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return State{}, failed(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return State{}, failed(err)
	}
	var state State
	if resp.StatusCode != http.StatusOK || len(text) > maxAnswer || json.Unmarshal(text, &state) != nil {
		return State{}, fmt.Errorf("the agent answers %s with status %d, which this version of svc-agent does not "+
			"understand; restart the agent, so that both have one version", name,
			resp.StatusCode)
	}
	return state, nil
}

// failed tells an agent that does not run from an agent that does not answer.
func failed(err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return ErrNotRunning
	}
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("this folder is another user's, so run the command as that user: %w", ErrNotRunning)
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return fmt.Errorf("the agent does not answer: %w", err)
}
