package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/standalone/localdata"
)

// stateFile, in the fleet's folder, says where the supervisor is. The lock on the folder
// shows whether the file is still valid.
const stateFile = "fleet.json"

// maxSocketPath is the longest path of a socket on the strictest system.
const maxSocketPath = 100

// supervisor is the content of the state file.
type supervisor struct {
	Pid int `json:"pid"`
	// Socket answers once the fleet is ready; empty until then.
	Socket string `json:"socket,omitempty"`
}

var (
	// errNotRunning means that no fleet uses the folder.
	errNotRunning = errors.New("it is not running")
	errStarting   = errors.New("it is still starting, or stopping")
)

// serveControl answers status and restart on a socket until ctx ends.
func serveControl(ctx context.Context, f *fleet.Fleet) error {
	folder := f.Path()
	if len(filepath.Join(folder, "control.sock")) > maxSocketPath {
		var err error
		if folder, err = os.MkdirTemp("", "svc-fleet-"); err != nil {
			return fmt.Errorf("make the control socket: %w", err)
		}
		defer func() { _ = os.RemoveAll(folder) }() // at worst an empty temporary folder stays
	}
	socket := filepath.Join(folder, "control.sock")
	// A killed supervisor may have left the socket. Nobody else can be listening.
	if err := os.RemoveAll(socket); err != nil {
		return fmt.Errorf("make the control socket: %w", err)
	}
	lis, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("make the control socket: %w", err)
	}
	defer lis.Close()
	if err := writeState(f.Path(), socket); err != nil {
		return err
	}
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

// writeState writes where this process can be reached.
func writeState(dir, socket string) error {
	text, err := json.Marshal(supervisor{Pid: os.Getpid(), Socket: socket})
	if err != nil {
		return fmt.Errorf("write the state file: %w", err)
	}
	path := filepath.Join(dir, stateFile)
	if err := os.WriteFile(path+".new", text, 0o600); err != nil { //nolint:gosec // the operator names it
		return fmt.Errorf("write the state file: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil { //nolint:gosec // as above
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
		// The restart continues when the caller leaves, and ends with the fleet.
		if err := f.Roll(ctx, name); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return mux
}

// locate finds the supervisor of a folder, or errNotRunning.
func locate(dir string) (supervisor, error) {
	s, err := readState(dir)
	if err != nil {
		return s, err
	}
	// Testing the lock takes it for a moment. So it comes last, when a process with that
	// id lives: a supervisor that is about to start has no state yet.
	if err := syscall.Kill(s.Pid, 0); err != nil && !errors.Is(err, syscall.EPERM) {
		return s, errNotRunning
	}
	held, err := isHeld(dir)
	if err == nil && !held {
		err = errNotRunning
	}
	return s, err
}

// readState reads the state file; errNotRunning where there is none.
func readState(dir string) (supervisor, error) {
	var s supervisor
	text, err := os.ReadFile(filepath.Join(dir, stateFile)) //nolint:gosec // the folder is the operator's own choice
	if errors.Is(err, fs.ErrNotExist) {
		return s, errNotRunning
	}
	if err != nil {
		return s, fmt.Errorf("find the supervisor: %w", err)
	}
	if err := json.Unmarshal(text, &s); err != nil || s.Pid <= 1 {
		return s, fmt.Errorf("%s does not name a supervisor", filepath.Join(dir, stateFile))
	}
	return s, nil
}

// isHeld reports whether a supervisor holds the folder.
func isHeld(dir string) (bool, error) {
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
	if s.Socket == "" {
		return nil, errStarting
	}
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
