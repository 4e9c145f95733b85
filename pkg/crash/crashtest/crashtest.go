// Package crashtest is the harness's side of package crash. It receives every point that
// processes with the build tag crashpoints reach, and stops a process at a point that was
// armed.
package crashtest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxLine bounds a line from a process, in bytes.
const maxLine = 256

// Controller receives points on a unix socket. It is safe for concurrent use.
type Controller struct {
	dir string
	lis net.Listener

	mu     sync.Mutex
	armed  map[string][]*Stand
	hits   map[string]int
	conns  map[net.Conn]struct{}
	closed bool
	wg     sync.WaitGroup
}

// New makes a controller on a socket of its own.
func New() (*Controller, error) {
	// Not in the test's folder, because the path of a socket has at most 107 bytes.
	dir, err := os.MkdirTemp("", "crash")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the socket: %w", err)
	}
	lis, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen for crash points: %w", err), os.RemoveAll(dir))
	}
	c := &Controller{
		dir: dir, lis: lis,
		armed: map[string][]*Stand{}, hits: map[string]int{}, conns: map[net.Conn]struct{}{},
	}
	c.wg.Go(c.accept)
	return c, nil
}

// Socket returns the path for crash.EnvSocket.
func (c *Controller) Socket() string { return c.lis.Addr().String() }

// Stand is an armed point.
type Stand struct {
	of       *Controller
	point    string
	left     int
	reached  chan int
	released chan struct{}
	once     sync.Once
}

// Reached returns the process that stopped at the point, once.
func (s *Stand) Reached() <-chan int { return s.reached }

// Release lets the process continue. If no process has arrived yet, the point is armed no
// longer, so that the next process is that of the next Stand. Releasing twice is harmless.
func (s *Stand) Release() {
	s.once.Do(func() {
		s.of.disarm(s)
		close(s.released)
	})
}

// Arm stops the nth process, from 1, that reaches the point from now on, until it is
// released. All others pass.
func (c *Controller) Arm(point string, nth int) *Stand {
	s := &Stand{of: c, point: point, left: nth, reached: make(chan int, 1), released: make(chan struct{})}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed[point] = append(c.armed[point], s)
	return s
}

// disarm forgets a Stand that nobody has reached.
func (c *Controller) disarm(s *Stand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed[s.point] = slices.DeleteFunc(c.armed[s.point], func(other *Stand) bool { return other == s })
}

// Hits returns how often a point was reached.
func (c *Controller) Hits(point string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hits[point]
}

// Total returns how often any point was reached.
func (c *Controller) Total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := 0
	for _, n := range c.hits {
		total += n
	}
	return total
}

// Close lets every process continue and ends the controller.
func (c *Controller) Close() error {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	for conn := range c.conns {
		conn.Close()
	}
	c.mu.Unlock()
	if !first {
		return nil
	}
	err := c.lis.Close()
	c.wg.Wait()
	return errors.Join(err, os.RemoveAll(c.dir))
}

func (c *Controller) accept() {
	for {
		conn, err := c.lis.Accept()
		if err != nil {
			return
		}
		c.mu.Lock()
		if c.closed {
			c.mu.Unlock()
			conn.Close()
			return
		}
		c.conns[conn] = struct{}{}
		c.wg.Go(func() { c.serve(conn) })
		c.mu.Unlock()
	}
}

// serve answers one hit. When a process dies at an armed point, nothing notices it: its
// Stand ends with Release.
func (c *Controller) serve(conn net.Conn) {
	defer func() {
		c.mu.Lock()
		delete(c.conns, conn)
		c.mu.Unlock()
		conn.Close()
	}()
	line, err := bufio.NewReaderSize(conn, maxLine).ReadSlice('\n')
	if err != nil {
		return
	}
	point, pid, ok := parse(string(line))
	if !ok {
		return
	}
	if s := c.hit(point); s != nil {
		s.reached <- pid
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = conn.Read(make([]byte, 1)) // ends with the process, or with Close
		}()
		select {
		case <-s.released:
		case <-gone:
			return
		}
	}
	fmt.Fprintln(conn, "go")
}

// parse reads a hit.
func parse(line string) (point string, pid int, ok bool) {
	point, number, found := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
	if !found || point == "" {
		return "", 0, false
	}
	pid, err := strconv.Atoi(number)
	return point, pid, err == nil && pid > 0
}

// hit counts a hit and returns its Stand, if there is one.
func (c *Controller) hit(point string) *Stand {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hits[point]++
	for i, s := range c.armed[point] {
		if s.left--; s.left > 0 {
			continue
		}
		c.armed[point] = append(c.armed[point][:i:i], c.armed[point][i+1:]...)
		return s
	}
	return nil
}
