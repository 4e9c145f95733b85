package external

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"

	"svc.internal/pkg/dialguard"
	"svc.internal/pkg/jsonscan"
	"svc.internal/services/provider-hub/internal/meter"
	"svc.internal/services/provider-hub/internal/session"
)

// Bounds of an answer in bytes: of a whole answer, of images, and of a stream. Dispatch bounds
// answers more closely, and stops them earlier.
const (
	maxWhole  = 16 << 20
	maxImages = 26 << 20
	maxStream = 256 << 20
)

// readSize is how much of an answer is read at once, in bytes.
const readSize = 16 << 10

const jsonType = "application/json"

// paths are where an OpenAI-compatible server takes each kind of request.
var paths = map[meter.Kind]string{
	meter.Chat: "/chat/completions", meter.Embeddings: "/embeddings", meter.Images: "/images/generations",
	meter.Transcriptions: "/audio/transcriptions",
}

// Errors of calls.
var (
	errTooLarge = errors.New("the endpoint's answer is too large")
	errSpan     = errors.New("the body has no model at the given place")
	errNoModel  = errors.New("the endpoint does not have the model")
)

// job is a request for an endpoint, with its body in pieces.
type job struct {
	endpoint *Endpoint
	key      key
	*session.Request
	body [][]byte
}

// forward calls an endpoint, writes its answer to w and returns how it ended. The texts are
// for operators, and say nothing of the network behind the endpoint.
func forward(ctx context.Context, client *http.Client, j job, w io.Writer) *session.End {
	req, err := j.newRequest(ctx)
	switch {
	case errors.Is(err, errNoModel):
		return &session.End{Status: http.StatusNotFound, Complete: true, Error: err.Error()}
	case err != nil:
		return &session.End{Error: "the request could not be made"}
	}
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, dialguard.ErrConnections):
		return &session.End{Status: http.StatusTooManyRequests, Complete: true, Error: err.Error()}
	case err != nil:
		return &session.End{Error: "the endpoint does not answer"}
	}
	defer resp.Body.Close()
	if ofMarketplace(resp) {
		return &session.End{Error: "the endpoint leads to the marketplace itself"}
	}
	if !relayed(resp.StatusCode) {
		return &session.End{Status: resp.StatusCode, Complete: true, RetryAfter: restAfter(resp),
			Error: fmt.Sprintf("the endpoint answers %d", resp.StatusCode)}
	}
	switch err := j.relay(resp, w); {
	case errors.Is(err, errTooLarge), errors.Is(err, errKeyRepeated):
		return &session.End{Status: resp.StatusCode, Error: err.Error()}
	case err != nil:
		return &session.End{Status: resp.StatusCode, Error: "the endpoint's answer was cut off"}
	}
	return &session.End{Status: resp.StatusCode, Complete: true}
}

// relayed reports whether the body of an answer is passed on: an answer, or a refusal of the
// content. What a server says of its owner's account or of its own failure is passed on to nobody.
func relayed(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden, http.StatusNotFound,
		http.StatusMethodNotAllowed, http.StatusProxyAuthRequired, http.StatusRequestTimeout,
		http.StatusTooManyRequests:
		return false
	}
	return status >= 200 && status <= 299 || status >= 400 && status <= 499
}

// relay hands the body over as it arrives.
func (j job) relay(resp *http.Response, w io.Writer) error {
	scan := &keyScan{w: w, key: []byte(j.key.Reveal())}
	limit, buf := j.limit(resp.StatusCode), make([]byte, readSize)
	for total := 0; ; {
		n, err := resp.Body.Read(buf)
		if total += n; total > limit {
			return errTooLarge
		}
		if n > 0 {
			if _, werr := scan.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		if errors.Is(err, io.EOF) {
			return scan.flush()
		}
		if err != nil {
			return fmt.Errorf("read the endpoint's answer: %w", err)
		}
	}
}

func (j job) limit(status int) int {
	switch {
	case j.Stream && status == http.StatusOK:
		return maxStream
	case j.Kind == meter.Images:
		return maxImages
	}
	return maxWhole
}

// newRequest makes the request to the endpoint, with the local name of the model in the body. It
// does not copy the body.
func (j job) newRequest(ctx context.Context) (*http.Request, error) {
	e := j.endpoint
	var local string
	for _, m := range e.Models {
		if m.ID == j.Model {
			local = m.Local
		}
	}
	if local == "" {
		return nil, errNoModel
	}
	pieces, size, err := spliced(j.body, int(j.ModelOffset), int(j.ModelLength), local, j.form())
	if err != nil {
		return nil, err
	}
	body := func() (io.ReadCloser, error) {
		readers := make([]io.Reader, 0, len(pieces))
		for _, p := range pieces {
			readers = append(readers, bytes.NewReader(p))
		}
		return io.NopCloser(io.MultiReader(readers...)), nil
	}
	first, _ := body()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.BaseURL+paths[j.Kind], first)
	if err != nil {
		return nil, fmt.Errorf("make the endpoint's request: %w", err)
	}
	// A server may have run and billed a request although the connection ends before its answer. So
	// the transport never repeats a request of which it sent a byte. Only an Idempotency-Key would let
	// it, and the request has none. With GetBody the transport repeats a request of which it sent
	// nothing.
	req.GetBody, req.ContentLength = body, size
	req.Header.Set("Content-Type", j.mediaType())
	if j.RequestID != "" {
		req.Header.Set("X-Request-ID", j.RequestID)
	}
	authorize(req, j.key)
	return req, nil
}

func (j job) mediaType() string {
	if j.ContentType == "" {
		return jsonType
	}
	return j.ContentType
}

// form reports whether the body is a form and not JSON.
func (j job) form() bool {
	kind, _, err := mime.ParseMediaType(j.mediaType())
	return err == nil && kind != jsonType
}

// spliced is a body in pieces with the name of its model replaced, and its size: a string
// of JSON, or in a form the bare text.
func spliced(body [][]byte, at, length int, local string, form bool) (out [][]byte, size int64, err error) {
	total := 0
	for _, p := range body {
		total += len(p)
	}
	if at < 0 || length < 1 || at+length > total {
		return nil, 0, errSpan
	}
	name := []byte(local)
	if !form {
		old := bytes.Join(part(body, at, at+length), nil)
		if len(old) < 2 || old[0] != '"' || old[len(old)-1] != '"' {
			return nil, 0, errSpan
		}
		name = jsonscan.AppendString(nil, local)
	}
	out = append(part(body, 0, at), name)
	out = append(out, part(body, at+length, total)...)
	return out, int64(total - length + len(name)), nil
}

// part is the bytes from one place to another of a body in pieces.
func part(body [][]byte, from, to int) (out [][]byte) {
	begin := 0
	for _, p := range body {
		low, high := max(from-begin, 0), min(to-begin, len(p))
		if low < high {
			out = append(out, p[low:high])
		}
		begin += len(p)
	}
	return out
}
