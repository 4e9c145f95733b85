package engine

import (
	"bufio"
	"context"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
)

const (
	// maxMetrics bounds what is read of an engine's metrics, in bytes.
	maxMetrics = 1 << 20
	// maxCount bounds the load that an engine may report.
	maxCount = 1 << 20
	// withoutMetrics is how many probes pass before an engine without metrics is asked
	// for them again: five minutes while it is well, and one while it is not.
	withoutMetrics = 30
)

// isRunning and isWaiting recognise the gauges of vLLM, SGLang and llama.cpp.
func isRunning(name string) bool {
	return name == "vllm:num_requests_running" || name == "sglang:num_running_reqs" ||
		name == "llamacpp:requests_processing"
}

func isWaiting(name string) bool {
	return name == "vllm:num_requests_waiting" || name == "sglang:num_queue_reqs" || name == "llamacpp:requests_deferred"
}

// Load is how many requests the engines have under way and waiting. Requests of others
// are included where an engine reports them.
func (p *Pool) Load() (active, queued int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.servers {
		active += e.forwarded + e.others
		queued += e.waiting
	}
	return active, queued
}

// forwarding counts a request for Load until the returned function is called.
func (p *Pool) forwarding(t Target) (done func()) {
	count := func(n int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, e := range p.servers {
			if e.serves(t) {
				e.forwarded += n
				e.limit = max(e.limit, e.forwarded)
			}
		}
	}
	count(1)
	return func() { count(-1) }
}

// measure asks an engine how busy it is. A failure does no harm, and is not reported. How
// many of the engine's requests were ours is not known to the moment, so the highest
// number while the engine was asked counts; otherwise requests of ours that have ended
// since would count as requests of others.
func (p *Pool) measure(ctx context.Context, e *server) {
	p.mu.Lock()
	skip := e.mute > 0
	if skip {
		e.mute--
	}
	e.limit = e.forwarded
	p.mu.Unlock()
	if skip {
		return
	}
	running, waiting, told := p.metrics(ctx, e)
	p.mu.Lock()
	defer p.mu.Unlock()
	e.others, e.waiting = max(0, running-e.limit), waiting
	if !told {
		e.mute = withoutMetrics
	}
}

func (p *Pool) metrics(ctx context.Context, e *server) (running, waiting int, told bool) {
	body, _ := p.get(ctx, e, "/metrics")
	if body == nil {
		return 0, 0, false
	}
	defer body.Close()
	return parseMetrics(io.LimitReader(body, maxMetrics))
}

// get asks for a path beside the API's root. The caller closes the body, which is there
// only when the status is 200. The status is 0 when there was no answer.
func (p *Pool) get(ctx context.Context, e *server, path string) (body io.ReadCloser, status int) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, besideRoot(e.url)+path, nil)
	if err != nil {
		return nil, 0
	}
	authorize(req, e.key)
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, 0
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, resp.StatusCode
	}
	return resp.Body, resp.StatusCode
}

// besideRoot is the root of the paths that are not OpenAI's: above /v1.
func besideRoot(url string) string { return strings.TrimSuffix(url, "/v1") }

// parseMetrics sums the gauges over their labels, in Prometheus's text form.
func parseMetrics(r io.Reader) (running, waiting int, told bool) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		name, n, ok := gaugeOf(lines.Text())
		switch {
		case !ok:
		case isRunning(name):
			running, told = min(running+n, maxCount), true
		case isWaiting(name):
			waiting, told = min(waiting+n, maxCount), true
		}
	}
	return running, waiting, told
}

// gaugeOf reads a line: a name, labels in braces, a number, and an optional time.
func gaugeOf(line string) (name string, n int, ok bool) {
	end := strings.IndexAny(line, "{ ")
	if end <= 0 || line[0] == '#' {
		return "", 0, false
	}
	name, rest := line[:end], line[end:]
	if rest[0] == '{' {
		closing := strings.LastIndexByte(rest, '}')
		if closing < 0 {
			return "", 0, false
		}
		rest = rest[closing+1:]
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return "", 0, false
	}
	value, err := strconv.ParseFloat(fields[0], 64)
	if err != nil || math.IsNaN(value) || value < 0 {
		return "", 0, false
	}
	return name, int(min(value, maxCount)), true
}
