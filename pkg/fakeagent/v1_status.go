package fakeagent

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// maxStatus bounds what is read of a status.
const maxStatus = 1 << 20

// V1ServiceURL is where the agent asks for its status when it is told only of
// a WebSocket URL.
func V1ServiceURL(ws string) string {
	ws = strings.TrimSuffix(strings.TrimSuffix(ws, "/"), "/ws")
	ws = strings.Replace(ws, "-ws", "", 1)
	if rest, ok := strings.CutPrefix(ws, "wss://"); ok {
		return "https://" + rest
	}
	if rest, ok := strings.CutPrefix(ws, "ws://"); ok {
		return "http://" + rest
	}
	return ws
}

// mayConnect asks for the status once. Only JSON can refuse: whatever its
// status code, JSON that does not say api_key_valid:true, or says
// can_connect:false, keeps the agent from ever dialling. Everything else lets it
// dial.
func (a *V1) mayConnect() bool {
	if a.opts.ServiceURL == "" {
		return true
	}
	ctx, cancel := context.WithTimeout(a.ctx, a.opts.Timing.Status)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.opts.ServiceURL+"/api/v1/provider/status", nil)
	if err != nil {
		return true
	}
	request.Header.Set("Authorization", "Bearer "+a.opts.Key)
	client := http.Client{Transport: &http.Transport{DialContext: a.opts.NetDial, DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return true
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxStatus))
	if err != nil {
		return true
	}
	var status struct {
		KeyValid   bool  `json:"api_key_valid"`
		CanConnect *bool `json:"can_connect"`
	}
	if json.Unmarshal(body, &status) != nil {
		return true
	}
	return status.KeyValid && (status.CanConnect == nil || *status.CanConnect)
}
