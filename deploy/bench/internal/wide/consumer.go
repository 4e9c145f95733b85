package wide

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

func chat(model, text string, stream bool) string {
	return fmt.Sprintf(`{"model":%q,"stream":%t,"messages":[{"role":"user","content":%q}]}`, model, stream, text)
}

func (c Client) post(ctx context.Context, client *http.Client, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base+"/chat/completions", body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.Key)
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, 400))
		return nil, fmt.Errorf("%s: %s", res.Status, text)
	}
	return res, nil
}

// Ask makes one small request that is not streamed and reads its answer.
func (c Client) Ask(ctx context.Context, client *http.Client, model string) error {
	res, err := c.post(ctx, client, strings.NewReader(chat(model, "Hello!", false)))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// read reads a stream until ctx ends and records the times between its events.
func (b *Bench) read(ctx context.Context, begun chan<- struct{}) error {
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	res, err := b.client.post(ctx, &http.Client{Transport: transport}, strings.NewReader(chat(Paced, "Hello!", true)))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	var last time.Time
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return err
		}
		if !bytes.Contains(line, []byte(`"content":"word`)) {
			continue
		}
		now := time.Now()
		if last.IsZero() {
			begun <- struct{}{}
		} else if h := b.gaps.Load(); h != nil {
			h.Record(int64(now.Sub(last)))
		}
		last = now
	}
}

// receive is how much a consumer that stalls takes into its socket, in bytes.
const receive = 4 << 10

// stall opens a stream and does not read it; it returns when the agent's
// credit is used up.
func (b *Bench) stall(ctx context.Context) (end func() error, err error) {
	at, err := url.Parse(b.client.Base)
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at.Host)
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(receive) // else it takes longer to fill
	}
	body := chat(Burst, "Hello!", true)
	if _, err := fmt.Fprintf(conn,
		"POST %s/chat/completions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n%s",
		at.Path, at.Host, b.client.Key, len(body), body); err != nil {
		conn.Close()
		return nil, err
	}
	if err := b.full(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return conn.Close, nil
}

// full returns when the burst has sent something, and then nothing for a while.
func (b *Bench) full(ctx context.Context) error {
	const still = 15
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(20 * time.Second)
	defer late.Stop()
	for before, n := int64(0), 0; n < still; n++ {
		select {
		case <-tick.C:
		case <-late.C:
			return errors.New("a stream that nobody reads does not stall")
		case <-ctx.Done():
			return ctx.Err()
		}
		now, err := b.sent()
		if err != nil {
			return err
		}
		if now == 0 || now != before {
			before, n = now, 0
		}
	}
	return nil
}

// poster sends large bodies one after another.
type poster struct {
	client Client
	body   []byte

	mu   sync.Mutex
	took []time.Duration
}

// largeBody is a request for a model of so many bytes.
func largeBody(model string, size int) []byte {
	frame := chat(model, "", false)
	cut := strings.LastIndex(frame, `""`) + 1
	return []byte(frame[:cut] + strings.Repeat("large ", size)[:size-len(frame)] + frame[cut:])
}

func (p *poster) begin(ctx context.Context) (end func() error, err error) {
	ctx, cancel := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() {
		client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
		defer client.CloseIdleConnections()
		for ctx.Err() == nil {
			began := time.Now()
			res, err := p.client.post(ctx, client, bytes.NewReader(p.body))
			if err != nil {
				if ctx.Err() != nil {
					err = nil
				}
				failed <- err
				return
			}
			_, _ = io.Copy(io.Discard, res.Body) // a few bytes; what counts has arrived
			res.Body.Close()
			p.mu.Lock()
			p.took = append(p.took, time.Since(began))
			p.mu.Unlock()
		}
		failed <- nil
	}()
	return func() error {
		cancel()
		return <-failed
	}, nil
}

// figures are how many bodies were taken, and the median of how long one took,
// in milliseconds.
func (p *poster) figures() (n int, p50 float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.took) == 0 {
		return 0, 0
	}
	slices.Sort(p.took)
	return len(p.took), float64(p.took[len(p.took)/2]) / float64(time.Millisecond)
}
