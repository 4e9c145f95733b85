// Package engine speaks to the inference engines on the owner's machine. It forwards
// requests to {engine_url}/chat/completions and the paths of the other endpoints, finds
// out whether the engines are well, of which kind they are and how busy, and has them
// load models.
//
// A request's body is sent as it came, except for the model's name, which is replaced by
// the local one at the place that the hub named: a JSON string in JSON, the bare text in
// a form. The answer's bytes are passed on as they arrive, whatever they are. Neither is
// kept or logged. Redirects are not followed, and proxies of the environment are not
// used, because an engine is where its owner says it is.
//
// Limits: an answer that is not streamed is 16 MiB at most, one of images 26 MiB, a
// streamed one 256 MiB. The caller's context bounds its time.
package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"svc.internal/pkg/config"
	"svc.internal/pkg/jsonscan"
	"svc.internal/services/provider-agent/internal/endpoint"
)

const (
	maxWhole  = 16 << 20
	maxImages = 26 << 20
	maxStream = 256 << 20

	// readWhole and readStream are how much is read at once, in bytes. Pieces of streams
	// are small, and every stream holds its buffer while it waits.
	readWhole  = 16 << 10
	readStream = 4 << 10

	// idleTimeout is less than the 5 s after which uvicorn, under most engines, closes an
	// idle connection, because the side that sends next should be the side that closes.
	idleTimeout = 4 * time.Second
	dialTimeout = 5 * time.Second

	jsonType = "application/json"
)

// Target is one model and the engine that serves it.
type Target struct {
	ModelID    string
	URL        string // the engine's root, without a slash at its end
	LocalModel string
	APIKey     config.Secret
	// ContextLength in tokens; 0 where the owner does not say.
	ContextLength int64
	Capacity      int
}

// Config bounds probing. The zero value of a field stands for its default.
type Config struct {
	// ProbeInterval is the pause between probes of an engine that is well: 10 s.
	// RetryInterval is the pause between probes of an engine that is not well: 2 s.
	ProbeInterval time.Duration
	RetryInterval time.Duration
	// ProbeTimeout bounds one probe: 5 s.
	ProbeTimeout time.Duration
	// AskLogprobs has Watch ask engines whether they return log probabilities.
	AskLogprobs bool
	// Client replaces the client that is made for the targets. Its redirects are not
	// followed either.
	Client *http.Client
}

// Pool forwards to the engines of one agent. It is safe for concurrent use.
type Pool struct {
	cfg      Config
	log      *slog.Logger
	client   *http.Client
	changed  chan struct{}
	replaced chan struct{}

	mu sync.Mutex
	// targets may have more models than order: also the models that the last Replace took away,
	// because requests for them may still come.
	targets map[string]Target
	servers []*server
	engines map[string]*server // by model id
	states  map[string]*State
	order   []string
}

// New makes a pool. Model ids must be unique.
func New(cfg Config, targets []Target, log *slog.Logger) *Pool {
	fill(&cfg.ProbeInterval, 10*time.Second)
	fill(&cfg.RetryInterval, 2*time.Second)
	fill(&cfg.ProbeTimeout, 5*time.Second)
	p := &Pool{
		cfg: cfg, log: log, client: newClient(cfg.Client, targets),
		changed: make(chan struct{}, 1), replaced: make(chan struct{}, 1), targets: map[string]Target{},
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setLocked(targets)
	return p
}

// setLocked gives the pool its targets. It keeps what is known of a model that is served as
// before.
func (p *Pool) setLocked(targets []Target) {
	states, known := p.states, p.servers
	p.engines, p.states, p.servers, p.order = map[string]*server{}, map[string]*State{}, nil, nil
	byURL := map[[2]string]*server{}
	for _, t := range targets {
		if old := states[t.ModelID]; old != nil && p.targets[t.ModelID] == t {
			p.states[t.ModelID] = old
		} else {
			p.states[t.ModelID] = &State{ModelID: t.ModelID, ContextLength: t.ContextLength, Reason: "not asked yet"}
		}
		p.targets[t.ModelID] = t
		p.order = append(p.order, t.ModelID)
		key := [2]string{t.URL, t.APIKey.Reveal()}
		if byURL[key] == nil {
			byURL[key] = newServer(t, known)
			p.servers = append(p.servers, byURL[key])
		}
		byURL[key].targets = append(byURL[key].targets, t)
		p.engines[t.ModelID] = byURL[key]
	}
}

func fill(field *time.Duration, value time.Duration) {
	if *field == 0 {
		*field = value
	}
}

// newClient makes a client that keeps as many connections to an engine as the engine has
// slots.
func newClient(given *http.Client, targets []Target) *http.Client {
	client := &http.Client{}
	if given != nil {
		*client = *given
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	if client.Transport == nil {
		slots, maxSlots := map[string]int{}, 0
		for _, t := range targets {
			if u, err := url.Parse(t.URL); err == nil {
				slots[u.Host] += t.Capacity
				maxSlots = max(maxSlots, slots[u.Host])
			}
		}
		client.Transport = &http.Transport{
			DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
			MaxIdleConnsPerHost: maxSlots,
			IdleConnTimeout:     idleTimeout,
			TLSHandshakeTimeout: dialTimeout,
			DisableCompression:  true,
		}
	}
	return client
}

// Request is a hub's request.
type Request struct {
	// ID is sent to the engine as X-Request-ID, when it is a name of at most 64 letters,
	// digits, dots, underscores and hyphens.
	ID       string
	ModelID  string
	Endpoint endpoint.Endpoint
	Stream   bool
	Body     []byte
	// ContentType is the body's media type, printable ASCII; empty for JSON.
	ContentType string
	// ModelOffset and ModelLength say where in Body the model's name stands: a JSON
	// string with its quotes, or in a form the bare text.
	ModelOffset, ModelLength int
	Traceparent              string
}

// Answer says how an engine's answer ended.
type Answer struct {
	// Status is the HTTP status, 0 when the engine did not answer.
	Status int
	// Err is nil when the answer ended by itself.
	Err error
}

var (
	errModelSpan = errors.New("the body has no model at the place named")
	errTooLarge  = errors.New("the engine's answer is too large")
	errNoModel   = errors.New("the model is not served here")
)

// Forward asks the engine and writes its answer to w as it arrives. It returns once the
// answer has ended, ctx has, or w fails.
func (p *Pool) Forward(ctx context.Context, r Request, w io.Writer) Answer {
	target, ok := p.target(r.ModelID)
	if !ok {
		return Answer{Status: http.StatusNotFound, Err: errNoModel} // the status of an engine without the model
	}
	req, err := newRequest(ctx, target, r)
	if err != nil {
		return Answer{Err: err}
	}
	defer p.forwarding(target)()
	resp, err := p.client.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			p.kick(target)
		}
		return Answer{Err: fmt.Errorf("the engine does not answer: %w", cause(err))}
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		p.kick(target) // the engine may have lost the model
	}
	if err := relay(w, resp.Body, boundsOf(r, resp.StatusCode)); err != nil {
		if ctx.Err() == nil {
			p.kick(target)
		}
		return Answer{Status: resp.StatusCode, Err: cause(err)}
	}
	return Answer{Status: resp.StatusCode}
}

// newRequest makes the engine's request, with the local model's name in the body. It does
// not copy the body.
func newRequest(ctx context.Context, target Target, r Request) (*http.Request, error) {
	local, err := localName(target, r)
	if err != nil {
		return nil, err
	}
	end := r.ModelOffset + r.ModelLength
	body := func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(
			bytes.NewReader(r.Body[:r.ModelOffset]), bytes.NewReader(local), bytes.NewReader(r.Body[end:]))), nil
	}
	first, err := body()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target.URL+r.Endpoint.Path(), first)
	if err != nil {
		return nil, fmt.Errorf("make the engine's request: %w", err)
	}
	req.GetBody = body
	req.ContentLength = int64(len(r.Body) - r.ModelLength + len(local))
	req.Header.Set("Content-Type", r.mediaType())
	// An empty list is not sent. It lets the transport retry when a kept connection turns
	// out to be closed. Nothing was answered then, so nothing visible is done twice.
	req.Header["Idempotency-Key"] = []string{}
	if validID(r.ID) {
		req.Header.Set("X-Request-ID", r.ID)
	}
	if validTraceparent(r.Traceparent) {
		req.Header.Set("Traceparent", r.Traceparent)
	}
	authorize(req, target.APIKey)
	return req, nil
}

// mediaType is the body's media type for the engine.
func (r Request) mediaType() string {
	if r.ContentType == "" {
		return jsonType
	}
	return r.ContentType
}

// form reports whether the body is a form and not JSON.
func (r Request) form() bool {
	kind, _, err := mime.ParseMediaType(r.mediaType())
	return err == nil && kind != jsonType
}

// localName replaces the model's name. In a form it stands as it is: a local name has no
// line break, and so cannot end its part.
func localName(target Target, r Request) ([]byte, error) {
	end := r.ModelOffset + r.ModelLength
	if r.ModelOffset < 0 || r.ModelLength < 1 || end > len(r.Body) {
		return nil, errModelSpan
	}
	if r.form() {
		return []byte(target.LocalModel), nil
	}
	if name := r.Body[r.ModelOffset:end]; len(name) < 2 || name[0] != '"' || name[len(name)-1] != '"' {
		return nil, errModelSpan
	}
	return jsonscan.AppendString(nil, target.LocalModel), nil
}

func authorize(req *http.Request, key config.Secret) {
	req.Header.Set("User-Agent", "svc-agent")
	if key.IsSet() {
		req.Header.Set("Authorization", "Bearer "+key.Reveal())
	}
}

// validID reports whether an id is harmless in a header and a log.
func validID(id string) bool {
	for i := range len(id) {
		c := id[i]
		if ('0' > c || c > '9') && ('a' > c || c > 'z') && ('A' > c || c > 'Z') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return len(id) > 0 && len(id) <= 64
}

// validTraceparent reports whether a text is a W3C trace context of version 00.
func validTraceparent(text string) bool {
	if len(text) != 55 || text[:3] != "00-" {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; {
		case i == 2 || i == 35 || i == 52:
			if c != '-' {
				return false
			}
		case ('0' > c || c > '9') && ('a' > c || c > 'f'):
			return false
		}
	}
	return true
}

// bounds are the bounds of one answer, in bytes.
type bounds struct{ limit, read int }

func boundsOf(r Request, status int) bounds {
	images := r.Endpoint == endpoint.Images
	switch {
	case r.Stream && status == http.StatusOK && images:
		return bounds{maxStream, readWhole} // the pieces of images are not small
	case r.Stream && status == http.StatusOK:
		return bounds{maxStream, readStream}
	case images:
		return bounds{maxImages, readWhole}
	}
	return bounds{maxWhole, readWhole}
}

// relay copies bytes as they arrive.
func relay(w io.Writer, body io.Reader, of bounds) error {
	buf := make([]byte, of.read)
	for total := 0; ; {
		n, err := body.Read(buf)
		if total += n; total > of.limit {
			return errTooLarge
		}
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("the engine's answer was cut off: %w", err)
		}
	}
}

// cause removes the URL from an error of net/http.
func cause(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

// target is the target that serves a model.
func (p *Pool) target(modelID string) (Target, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.targets[modelID]
	return t, ok
}

// stateLocked is the state of a target; nil when the pool no longer has the target.
func (p *Pool) stateLocked(t Target) *State {
	if p.targets[t.ModelID] != t {
		return nil
	}
	return p.states[t.ModelID]
}
