package attack

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"svc.internal/pkg/fakeengine"
	"svc.internal/services/proving/internal/fleet"
	"svc.internal/services/proving/internal/trial"
)

// slows are hostile test 20.
func slows() []Case {
	return []Case{{Hole: "T20", Name: "slow_sockets", Before: "deadlines close them", Long: true, Alone: true,
		Run: func(t testing.TB, s *stage) Outcome {
			n := 2500 // either end of each is in this process
			if s.form == fleetForm {
				n = 9000
			}
			m := slowSockets(t, s, n)
			if m.failed > 0 {
				t.Errorf("beside %d slow sockets: got %d of %d requests of others failed, want none", n, m.failed, m.asked)
			}
			if m.left > 0 {
				t.Errorf("got %d of %d slow sockets kept after their deadlines, want none", m.left, n)
			}
			// On a busy machine the deadline of some begins late.
			if 2*m.served > m.looked {
				t.Errorf("got %d of %d sockets that do not read kept after their deadline, want none", m.served, m.looked)
			}
			return Outcome{Got: fmt.Sprintf("%d of %d sockets for at most %v", m.opened, n, m.longest.Round(time.Second)),
				Paid: "nothing", Harm: m.String()}
		}}}
}

// BenchmarkSlowSockets measures the memory that 9,000 slow sockets take of a gateway that
// is a process of its own, and how much longer others' requests take beside them than
// alone.
func BenchmarkSlowSockets(b *testing.B) {
	s := &stage{Market: trial.StartFleet(b, fleetSettings), form: fleetForm, name: "slow"}
	for b.Loop() {
		m := slowSockets(b, s, 9000)
		b.ReportMetric(float64(m.memory)/float64(max(1, m.opened))/1024, "KiB/socket")
		b.ReportMetric(float64(m.p99)/float64(m.p99Alone), "p99-ratio")
		b.ReportMetric(float64(m.p99.Microseconds())/1000, "p99-ms")
		b.ReportMetric(float64(m.failed), "failed")
	}
}

type slowMeasure struct {
	opened, left, asked, failed int
	// Of the sockets that do not read, so many were looked at, and so many of them were
	// sent everything in the end.
	looked, served         int
	p99, p99Alone, longest time.Duration
	memory                 int64
}

func (m slowMeasure) String() string {
	return fmt.Sprintf("others' p99 %v, alone %v; %d KiB a socket", m.p99.Round(time.Millisecond),
		m.p99Alone.Round(time.Millisecond), m.memory/1024/int64(max(1, m.opened)))
}

// headTimeout is how long a client may take to send its headers, by package serve.
const headTimeout = 10 * time.Second

// slowSockets opens n sockets from a hundred addresses to the first gateway. A third of
// them send their headers and a third their body at a byte a second; a third send a
// request and do not read. Others send requests meanwhile.
func slowSockets(t testing.TB, s *stage, n int) slowMeasure {
	t.Helper()
	id, _, _ := s.served(t, model{}, fakeengine.Behaviour{})
	_, key := s.caller(t)
	var m slowMeasure
	m.p99Alone, _, _ = askFor(t, s, id, key, 3*time.Second)
	before := s.resident()

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var deaf, senders sync.WaitGroup
	var opened, left, looked, served atomic.Int64
	var longest atomic.Int64
	gate := make(chan struct{}, 64) // dials at once
	for i := range n {
		gate <- struct{}{}
		group := &deaf
		if i%3 != 2 {
			group = &senders
		}
		group.Go(func() {
			d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 50, byte(i%100), 1)}, Timeout: 10 * time.Second}
			conn, err := d.DialContext(ctx, "tcp", s.host())
			<-gate
			if err != nil {
				return
			}
			defer conn.Close()
			opened.Add(1)
			began := time.Now()
			closed := crawl(ctx, conn, s.host(), key, i%3)
			switch {
			case i%3 != 2:
				if !closed {
					left.Add(1)
				}
			case i%60 == 2: // one in twenty, because the kernel may hold megabytes for each
				looked.Add(1)
				if !cutShort(conn, unread) {
					served.Add(1)
				}
			}
			for took := int64(time.Since(began)); ; {
				seen := longest.Load()
				if took <= seen || longest.CompareAndSwap(seen, took) {
					break
				}
			}
		})
	}
	var failed, asked int
	m.p99, asked, failed = askFor(t, s, id, key, headTimeout/2)
	m.memory = max(0, s.resident()-before)
	pass(t, headTimeout/2+5*time.Second)
	// On a busy machine deadlines come late, as others' answers do.
	select {
	case <-ended(&senders):
	case <-time.After(20 * m.p99):
	}
	stop()
	senders.Wait()
	deaf.Wait()
	m.opened, m.left, m.asked, m.failed, m.longest = int(opened.Load()), int(left.Load()), asked, failed,
		time.Duration(longest.Load())
	m.looked, m.served = int(looked.Load()), int(served.Load())
	return m
}

// ended is closed once a group has ended.
func ended(group *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		group.Wait()
	}()
	return done
}

// crawl sends at a byte a second, and reports whether the gateway closed the
// connection. The gateway sends until the socket of a client that does not read is full.
func crawl(ctx context.Context, conn net.Conn, host, key string, how int) (closed bool) {
	var send string
	switch how {
	case 0:
		send = "GET /v1/models HTTP/1.1\r\nHost: " + host + "\r\nX-Slow: " + strings.Repeat("s", 1000)
	case 1:
		if _, err := fmt.Fprintf(conn,
			"POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
				"Content-Length: 100000\r\n\r\n", trial.ChatPath, host, key); err != nil {
			return true
		}
		send = strings.Repeat(" ", 1000)
	case 2:
		for range unread {
			if _, err := fmt.Fprintf(conn, "GET /openapi.json HTTP/1.1\r\nHost: %s\r\n\r\n", host); err != nil {
				return true
			}
		}
		<-ctx.Done()
		return false
	}
	buffer := make([]byte, 512)
	for i := range len(send) {
		if _, err := conn.Write([]byte{send[i]}); err != nil {
			return true
		}
		if conn.SetReadDeadline(time.Now().Add(time.Second)) != nil {
			return true
		}
		if _, err := conn.Read(buffer); err != nil {
			var timeout net.Error
			if !errors.As(err, &timeout) || !timeout.Timeout() {
				return true
			}
		}
		if ctx.Err() != nil {
			return false
		}
	}
	return false
}

// unread is how many requests a client sends that does not read: more answers than the
// kernel takes.
const unread = 20

// cutShort reads what such a client was sent, and reports whether it ends before the last
// answer does.
func cutShort(conn net.Conn, answers int) bool {
	if conn.SetReadDeadline(time.Now().Add(20*time.Second)) != nil {
		return true
	}
	in := bufio.NewReader(conn)
	for range answers {
		resp, err := http.ReadResponse(in, nil)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		if err != nil {
			return !errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
	return false
}

// askFor asks one request after the other, by four clients, for a while.
func askFor(t testing.TB, s *stage, id, key string, d time.Duration) (p99 time.Duration, asked, failed int) {
	t.Helper()
	until := time.Now().Add(d)
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	for range 4 {
		client := from("127.60.0.1")
		wg.Go(func() {
			for time.Now().Before(until) {
				began := time.Now()
				ok := post(client, "http://"+s.host()+trial.ChatPath, key, trial.Chat(id, `,"max_tokens":8`))
				mu.Lock()
				took = append(took, time.Since(began))
				if !ok {
					failed++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	slices.Sort(took)
	return took[len(took)*99/100], len(took), failed
}

// resident is the memory of the first gateway in bytes; with a single process that of the
// test, with both ends of each socket.
func (s *stage) resident() int64 {
	pid := os.Getpid()
	if f := s.Fleet(); f != nil {
		pid = f.Pid(f.Replicas(fleet.Gateway)[0])
	}
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		return 0
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
