// Package control is the way from the other commands to the agent that runs on this
// machine: a Unix socket in the agent's state folder, which only the folder's owner may open.
// It speaks JSON over HTTP.
//
//	GET  /state   what the agent knows, a State
//	POST /pause   take no new requests and stay connected
//	POST /resume  take requests again
//	POST /drain   end the requests under way, then the agent
//
// Each call is harmless when it is made twice. The lock of the folder ensures that one agent
// serves the socket.
//
// Limits: 8 connections at a time, 5 s a call, 4 KiB of header, no body, and 1 MiB of answer.
package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// socketName is short, because systems bound a socket's path to about 100 bytes.
	socketName  = "control"
	patience    = 5 * time.Second
	maxConns    = 8
	maxHeader   = 4 << 10
	contentType = "application/json"
)

// Agent is what is controlled.
type Agent interface {
	State() State
	Pause(paused bool)
	// Drain has Run take no new requests, end the requests under way and return. It does not
	// wait for that.
	Drain()
}

// Server serves the socket of one agent.
type Server struct {
	path     string
	listener net.Listener
	http     *http.Server
	done     chan struct{}
}

// Listen serves the socket in the folder. The caller holds the folder's lock, so a socket
// that is there already belongs to an agent that has ended.
func Listen(dir string, agent Agent, log *slog.Logger) (*Server, error) {
	path := filepath.Join(dir, socketName)
	listener, err := listen(dir, path)
	if err != nil {
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	s := &Server{
		path: path, listener: listener, done: make(chan struct{}),
		http: &http.Server{
			Handler: handler(agent, log), ReadTimeout: patience, WriteTimeout: patience, IdleTimeout: patience,
			MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
		},
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(netutil.LimitListener(listener, maxConns)) // ends with Close
	}()
	return s, nil
}

// listen makes the socket where nobody else can open it, and moves it to its place once only
// its owner can.
func listen(dir, path string) (net.Listener, error) {
	hidden, err := os.MkdirTemp(dir, ".c") // with mode 0700
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(hidden) }() // a folder that stays behind does no harm
	made := filepath.Join(hidden, "s")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: made, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(made, 0o600), os.Rename(made, path)); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// lastAnswers bounds how long Close waits for the calls under way: a command to drain ends the agent that answers it.
const lastAnswers = time.Second

// Close answers the calls under way and removes the socket.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), lastAnswers)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	<-s.done
	if missing := os.Remove(s.path); missing != nil && !errors.Is(missing, os.ErrNotExist) {
		err = errors.Join(err, missing)
	}
	return err
}

func handler(agent Agent, log *slog.Logger) http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter) {
		text, err := json.Marshal(agent.State())
		if err != nil {
			http.Error(w, "the state cannot be told", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write(text) // the command may have left
	}
	mux.HandleFunc("GET /state", func(w http.ResponseWriter, _ *http.Request) { answer(w) })
	for path, act := range map[string]func(){
		"POST /pause":  func() { agent.Pause(true) },
		"POST /resume": func() { agent.Pause(false) },
		"POST /drain":  agent.Drain,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			log.Info("a command came by the control socket", "command", r.URL.Path[1:])
			act()
			answer(w)
		})
	}
	return mux
}
