// Package anvil starts development chains: one process of Foundry's anvil each, on a free port of the loopback
// interface, with blocks made for transactions as they come.
//
// A block is final when two more stand on it, because a chain is started with one slot in an epoch. Money on such a
// chain is worth nothing: anvil's accounts have keys that everybody knows.
package anvil

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// startTimeout bounds the time until a chain answers.
	startTimeout = time.Minute
	// maxLine bounds a line of the program's output.
	maxLine = 64 << 10
	// states is the number of a chain's last blocks of which a call may ask for the state. They are in memory. With no
	// number, the program writes states to the user's home, up to 130 MB for a chain, and a killed process leaves them.
	states = 512
)

// ErrMissing says that the program is not there and cannot be installed.
var ErrMissing = errors.New("anvil is not there")

// listening is the line that says where a chain is, once it answers.
var listening = regexp.MustCompile(`^Listening on (127\.0\.0\.1:\d+)`)

// Config is what one chain is started with.
type Config struct {
	// Binary is the path of the program: see Install.
	Binary string
	// ChainID is the chain's number.
	ChainID uint64
	// Arguments are further arguments of the program.
	Arguments []string
}

// Chain is one running chain.
type Chain struct {
	// URL is where its JSON-RPC is.
	URL string

	stop  context.CancelFunc
	ended chan struct{}
}

// Install returns the path of the program of the version that root, the repository's folder, pins. It installs it
// from npm when it is first needed. Where that fails, the error is ErrMissing.
func Install(ctx context.Context, root string) (string, error) {
	cmd := exec.CommandContext(ctx, "deploy/dev/tool.sh", "anvil")
	cmd.Dir = root
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%w: install it from npm: %w: %s", ErrMissing, err, complaint.String())
	}
	return filepath.Join(strings.TrimSpace(string(out)), "anvil"), nil
}

// Start starts a chain and returns when it answers. The process ends with ctx, with Stop, and, on Linux, with us.
func Start(ctx context.Context, cfg Config) (*Chain, error) {
	ctx, stop := context.WithCancel(ctx)
	args := append([]string{
		"--host", "127.0.0.1", "--port", "0", "--chain-id", strconv.FormatUint(cfg.ChainID, 10),
		"--slots-in-an-epoch", "1", "--prune-history", strconv.Itoa(states),
	}, cfg.Arguments...)
	cmd := exec.CommandContext(ctx, cfg.Binary, args...) //nolint:gosec // the program that Install returned
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithUs(cmd.SysProcAttr)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		stop()
		return nil, fmt.Errorf("start anvil: %w", err)
	}
	c := &Chain{stop: stop, ended: make(chan struct{})}
	started, where := make(chan error, 1), make(chan string, 1)
	go func() {
		defer close(c.ended)
		// The kernel ends the process with the thread that started it, so that thread waits for it.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			read(out, where)
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		stop()
		return nil, fmt.Errorf("start anvil: %w", err)
	}
	select {
	case address := <-where:
		c.URL = "http://" + address
		return c, nil
	case <-c.ended:
		stop()
		return nil, fmt.Errorf("anvil ended before it answered: %s", strings.TrimSpace(complaint.String()))
	case <-time.After(startTimeout):
		c.Stop()
		return nil, fmt.Errorf("anvil did not answer within %v", startTimeout)
	}
}

// Stop ends the chain and waits for the end of its process. Its state is lost.
func (c *Chain) Stop() {
	c.stop()
	<-c.ended
}

// Ended is closed when the chain's process has ended, for whatever reason.
func (c *Chain) Ended() <-chan struct{} { return c.ended }

// read sends the address that the program prints, and reads on until the program ends, because a full pipe would
// hold the program up.
func read(out io.Reader, where chan<- string) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			where <- m[1]
			break
		}
	}
	_, _ = io.Copy(io.Discard, out)
}
