package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"svc.internal/services/standalone/internal/fleet"
	"svc.internal/services/standalone/internal/localdata"
)

// stateFile, in the fleet's folder, tells other commands where the supervisor
// is. It is there from the moment the fleet is ready to its end; the lock on
// the folder tells whether it still means anything.
const stateFile = "fleet.json"

// maxSocketPath is what fits in a socket's address on the tightest system.
const maxSocketPath = 100

// supervisor is what the state file says.
type supervisor struct {
	Pid    int    `json:"pid"`
	Socket string `json:"socket"`
}

// errNotRunning means that no fleet uses the folder.
var errNotRunning = errors.New("it is not running")

// serveControl answers status and restart on a socket until ctx ends.
func serveControl(ctx context.Context, f *fleet.Fleet) error {
	folder := f.Path()
	if len(filepath.Join(folder, "control.sock")) > maxSocketPath {
		var err error
		if folder, err = os.MkdirTemp("", "svc-fleet-"); err != nil {
			return fmt.Errorf("make the control socket: %w", err)
		}
		defer func() { _ = os.RemoveAll(folder) }() // at worst an empty folder of temporary files
	}
	socket := filepath.Join(folder, "control.sock")
	// What a killed supervisor left; nobody else can be listening.
	if err := os.RemoveAll(socket); err != nil {
		return fmt.Errorf("make the control socket: %w", err)
	}
	lis, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("make the control socket: %w", err)
	}
	defer lis.Close()
	text, err := json.Marshal(supervisor{Pid: os.Getpid(), Socket: socket})
	if err != nil {
		return fmt.Errorf("write the state file: %w", err)
	}
	if err := replace(f.Path(stateFile), text); err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Path(stateFile)) }() // the lock says the same
	server := &http.Server{Handler: handler(ctx, f), ReadHeaderTimeout: 5 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(lis) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve the control socket: %w", err)
	case <-ctx.Done():
		return server.Close()
	}
}

// replace writes a file all or nothing.
func replace(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return fmt.Errorf("write the state file: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write the state file: %w", err)
	}
	return nil
}

func handler(ctx context.Context, f *fleet.Fleet) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		// A caller that left needs no answer.
		_ = json.NewEncoder(w).Encode(f.Status(r.Context()))
	})
	mux.HandleFunc("POST /restart", func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("name")
		if !slices.Contains(f.Names(), name) {
			http.Error(w, "there is no process "+name, http.StatusNotFound)
			return
		}
		// The restart goes on when the caller leaves, and ends with the fleet.
		if err := f.Roll(ctx, name); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return mux
}

// locate finds the supervisor of a folder, or errNotRunning. A supervisor that
// is still starting has no state file yet.
func locate(dir string) (supervisor, error) {
	var s supervisor
	held, err := isHeld(dir)
	if err != nil {
		return s, err
	}
	if !held {
		return s, errNotRunning
	}
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return s, fmt.Errorf("it is not ready: %w", err)
	}
	if err := json.Unmarshal(text, &s); err != nil || s.Pid <= 1 {
		return s, fmt.Errorf("%s does not name a supervisor", filepath.Join(dir, stateFile))
	}
	return s, nil
}

// isHeld tells whether a supervisor has the folder.
func isHeld(dir string) (bool, error) {
	if _, err := os.Stat(dir); err != nil { //nolint:gosec // the folder is the operator's own choice
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		return false, fmt.Errorf("look at the fleet's folder: %w", err)
	}
	own, err := localdata.Open(dir)
	if errors.Is(err, localdata.ErrInUse) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return false, own.Close()
}

// ask makes a request to the supervisor.
func (s supervisor) ask(ctx context.Context, method, path string) ([]byte, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", s.Socket)
		}}}
	req, err := http.NewRequestWithContext(ctx, method, "http://fleet"+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask the supervisor: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the supervisor: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, fmt.Errorf("ask the supervisor: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(string(text))
	}
	return text, nil
}
