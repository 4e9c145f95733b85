// Package ethnode stands between settlement and the node of a development chain, so that a harness can have the node be
// away, or lie. It knows JSON-RPC as far as lies need: what is asked and answered goes through unchanged otherwise.
//
// A node that lies says of every transaction that it was mined at once and succeeded, and of every block another hash.
// It is one of two nodes of a chain, so settlement must believe it nothing that the other does not say.
package ethnode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Manner is how the node behaves.
type Manner int

// The manners.
const (
	// Honest passes everything on.
	Honest Manner = iota
	// Away refuses every question with an error.
	Away
	// Lying passes answers on, and lies about transactions and blocks.
	Lying
	// Mute takes every question and answers none, until it behaves otherwise or nobody waits any more.
	Mute
	// Forgetful passes answers on, and has no logs.
	Forgetful
)

// maxBody bounds a question and an answer, in bytes.
const maxBody = 8 << 20

// Node is a node of a chain at another's address.
type Node struct {
	// URL is where it answers.
	URL string

	target string
	server *http.Server
	client *http.Client
	done   chan struct{}

	mu     sync.Mutex
	manner Manner
	asked  int64
	turned chan struct{} // closed when the manner is another
}

// Start starts a node that asks the one at target.
func Start(target string) (*Node, error) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a node: %w", err)
	}
	n := &Node{URL: "http://" + lis.Addr().String(), target: target, client: &http.Client{Timeout: 30 * time.Second},
		done: make(chan struct{}), turned: make(chan struct{})}
	n.server = &http.Server{Handler: n, ReadHeaderTimeout: 5 * time.Second}
	go func() {
		defer close(n.done)
		_ = n.server.Serve(lis) // it ends by Close
	}()
	return n, nil
}

// Close ends it.
func (n *Node) Close() error {
	err := n.server.Close()
	<-n.done
	return err
}

// Behave sets how it answers from now on, and returns a function that makes it honest again.
func (n *Node) Behave(m Manner) (mend func()) {
	n.set(m)
	return func() { n.set(Honest) }
}

func (n *Node) set(m Manner) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.manner = m
	close(n.turned)
	n.turned = make(chan struct{})
}

// Asked is how many questions there were.
func (n *Node) Asked() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked
}

// ServeHTTP answers a question, or several.
func (n *Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	manner, turned := n.manner, n.turned
	n.asked++
	n.mu.Unlock()
	if manner == Mute {
		select {
		case <-turned:
		case <-r.Context().Done():
		}
		panic(http.ErrAbortHandler) // whoever still waits hears nothing
	}
	if manner == Away {
		http.Error(w, "the node is away", http.StatusServiceUnavailable)
		return
	}
	question, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := n.ask(r, question)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	if manner == Lying {
		answer = change(question, answer, invent)
	}
	if manner == Forgetful {
		answer = change(question, answer, forget)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // a caller that left needs no answer
}

func (n *Node) ask(r *http.Request, question []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, n.target, bytes.NewReader(question))
	if err != nil {
		return nil, fmt.Errorf("ask the node: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := n.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the node: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err == nil && len(answer) > maxBody {
		err = errors.New("the answer is too long")
	}
	if err != nil {
		return nil, fmt.Errorf("ask the node: %w", err)
	}
	return answer, nil
}

// message is a question or an answer.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// change changes the result of each answer to a question. What it cannot read goes through.
func change(question, answer []byte, to func(q message, result json.RawMessage) json.RawMessage) []byte {
	asked, single, err := read(question)
	if err != nil {
		return answer
	}
	answers, _, err := read(answer)
	if err != nil {
		return answer
	}
	methods := map[string]message{}
	for _, q := range asked {
		methods[string(q.ID)] = q
	}
	for i := range answers {
		answers[i].Result = to(methods[string(answers[i].ID)], answers[i].Result)
	}
	var lied []byte
	if single {
		lied, err = json.Marshal(answers[0])
	} else {
		lied, err = json.Marshal(answers)
	}
	if err != nil {
		return answer
	}
	return lied
}

// read reads one message, or a list.
func read(text []byte) (all []message, single bool, err error) {
	if strings.HasPrefix(strings.TrimSpace(string(text)), "[") {
		err = json.Unmarshal(text, &all)
		return all, false, err
	}
	var one message
	err = json.Unmarshal(text, &one)
	return []message{one}, true, err
}

// forget returns what a node answers that has no logs.
func forget(q message, result json.RawMessage) json.RawMessage {
	if q.Method == "eth_getLogs" {
		return json.RawMessage(`[]`)
	}
	return result
}

// invent returns what a liar answers to a question.
func invent(q message, result json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	switch q.Method {
	case "eth_getBlockByNumber":
		if json.Unmarshal(result, &fields) != nil || fields == nil {
			return result
		}
		fields["hash"] = json.RawMessage(`"0x` + strings.Repeat("11", 32) + `"`)
	case "eth_getTransactionReceipt":
		if json.Unmarshal(result, &fields) != nil || fields == nil {
			return result
		}
		fields["status"] = flipped(fields["status"])
	default:
		return result
	}
	lied, err := json.Marshal(fields)
	if err != nil {
		return result
	}
	return lied
}

// flipped is the other status of a receipt.
func flipped(status json.RawMessage) json.RawMessage {
	if string(status) == `"0x1"` {
		return json.RawMessage(`"0x0"`)
	}
	return json.RawMessage(`"0x1"`)
}
