package evm

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/rpc"

	"svc.internal/services/settlement/internal/chain"
)

const (
	// callTimeout bounds one question to an RPC.
	callTimeout = 20 * time.Second
	// maxBody bounds an answer. A longer one is an error, after which a caller asks for less.
	maxBody = 32 << 20
	// MaxBatch bounds the questions that are asked at once.
	MaxBatch = 100
	// maxRevert bounds what is kept of a revert.
	maxRevert = 4 << 10
)

var (
	errTooLarge = errors.New("the answer is too large")
	// errAnswered marks an error that the RPC itself has stated, for example because it was asked for too much.
	errAnswered = errors.New("the RPC answers with an error")
)

// node is one RPC.
type node struct {
	place  int
	chain  chain.ID
	client *rpc.Client

	mu      sync.Mutex
	checked bool // it is of this chain
}

func httpClient() *http.Client {
	transport := &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext, TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		ResponseHeaderTimeout: callTimeout, MaxResponseHeaderBytes: 64 << 10,
	}
	return &http.Client{
		Transport: bounded{transport}, Timeout: callTimeout,
		// An RPC that sends us elsewhere would choose who answers.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bounded bounds the bodies of answers.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = &body{response.Body, maxBody}
	return response, nil
}

// body fails behind its limit.
type body struct {
	io.ReadCloser
	left int
}

func (b *body) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// call asks one question.
func (n *node) call(ctx context.Context, result any, method string, args ...any) error {
	if err := n.check(ctx); err != nil {
		return err
	}
	return n.ask(ctx, result, method, args...)
}

func (n *node) ask(ctx context.Context, result any, method string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return safe(method, n.client.CallContext(ctx, result, method, args...))
}

// check asks the RPC once for the number of its chain.
func (n *node) check(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.checked {
		return nil
	}
	var id quantity
	if err := n.ask(ctx, &id, "eth_chainId"); err != nil {
		return err
	}
	if chain.ID(id) != n.chain {
		return fmt.Errorf("%w: it is of chain %d", chain.ErrUnavailable, id)
	}
	n.checked = true
	return nil
}

// batch asks one method with many arguments, and reads the results in order.
func batch[T any](ctx context.Context, n *node, method string, args [][]any) ([]T, error) {
	if err := n.check(ctx); err != nil {
		return nil, err
	}
	results := make([]T, len(args))
	for from := 0; from < len(args); from += MaxBatch {
		to := min(from+MaxBatch, len(args))
		elems := make([]rpc.BatchElem, 0, to-from)
		for i := from; i < to; i++ {
			elems = append(elems, rpc.BatchElem{Method: method, Args: args[i], Result: &results[i]})
		}
		if err := n.askBatch(ctx, method, elems); err != nil {
			return nil, err
		}
	}
	return results, nil
}

func (n *node) askBatch(ctx context.Context, method string, elems []rpc.BatchElem) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := n.client.BatchCallContext(ctx, elems); err != nil {
		return safe(method, err)
	}
	for _, e := range elems {
		if e.Error != nil {
			return safe(method, e.Error)
		}
	}
	return nil
}

// safe makes an error of a question one that shows neither the RPC's address nor long texts of the RPC.
func safe(method string, err error) error {
	var revert *chain.Revert
	var answered rpc.Error
	var status rpc.HTTPError
	var syntax *json.SyntaxError
	var shape *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &revert):
		return err
	case errors.As(err, &status):
		return fmt.Errorf("%s: %w: %w: status %d", method, chain.ErrUnavailable, answeredStatus(status), status.StatusCode)
	case errors.As(err, &answered):
		if r, ok := reverted(err); ok {
			return r
		}
		return fmt.Errorf("%s: %w: %w: %d %.200q", method, chain.ErrUnavailable, errAnswered, answered.ErrorCode(),
			answered.Error())
	case errors.Is(err, errTooLarge):
		return fmt.Errorf("%s: %w: %w: %w", method, chain.ErrUnavailable, errAnswered, errTooLarge)
	case errors.As(err, &syntax), errors.As(err, &shape), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF),
		errors.Is(err, errShape), errors.Is(err, rpc.ErrMissingBatchResponse), errors.Is(err, rpc.ErrNoResult):
		return fmt.Errorf("%s: %w: its answer cannot be read", method, chain.ErrUnavailable)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w: %w", method, chain.ErrUnavailable, context.Canceled)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: %w: %w", method, chain.ErrUnavailable, context.DeadlineExceeded)
	default:
		// The text of the error would show the address.
		return fmt.Errorf("%s: %w: it does not answer", method, chain.ErrUnavailable)
	}
}

// answeredStatus is errAnswered for a status that says that too much was asked for.
func answeredStatus(e rpc.HTTPError) error {
	if e.StatusCode == http.StatusRequestEntityTooLarge || e.StatusCode == http.StatusBadRequest {
		return errAnswered
	}
	return errStatus
}

var errStatus = errors.New("the server refuses")

// reverted returns the revert that an error of a call states.
func reverted(err error) (*chain.Revert, bool) {
	var with rpc.DataError
	if !errors.As(err, &with) {
		return nil, false
	}
	// RPCs that refuse a question, for example because there are too many, add texts of their own.
	text, _ := with.ErrorData().(string)
	digits, isData := strings.CutPrefix(text, "0x")
	data, err := hex.DecodeString(digits)
	if isData = isData && err == nil; !isData {
		data = nil
	}
	// A contract that uses up whatever it is given never succeeds, as one that reverts.
	says := strings.ToLower(with.Error() + text)
	if !isData && !strings.Contains(says, "revert") && !strings.Contains(says, "gas required exceeds allowance") {
		return nil, false
	}
	r := &chain.Revert{Data: data[:min(len(data), maxRevert)]}
	if reason, err := abi.UnpackRevert(data); err == nil {
		r.Reason = reason[:min(len(reason), 200)]
	}
	return r, true
}
