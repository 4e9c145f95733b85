package evmtest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"svc.internal/services/settlement/internal/chain"
)

// RPC is one RPC of a scripted chain.
type RPC struct {
	// URL is where it listens.
	URL string

	chain *Chain

	mu sync.Mutex
	// behind is how many blocks it has fewer than the chain.
	behind uint64
	down   bool
	// maxRange is the most blocks of one eth_getLogs; 0: any.
	maxRange uint64
	lie      func(method string, result any) any
	calls    map[string]int
}

// Error is what an RPC answers instead of a result.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// NewRPC starts an RPC that lives as long as the test.
func NewRPC(t testing.TB, c *Chain) *RPC {
	t.Helper()
	r := &RPC{chain: c, calls: map[string]int{}}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

// Set changes how the RPC behaves.
func (r *RPC) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// Behind makes it have fewer blocks than the chain.
func (r *RPC) Behind(blocks uint64) { r.set(func() { r.behind = blocks }) }

// Down makes it answer nothing.
func (r *RPC) Down(down bool) { r.set(func() { r.down = down }) }

// MaxRange bounds the blocks of one question for logs.
func (r *RPC) MaxRange(blocks uint64) { r.set(func() { r.maxRange = blocks }) }

// Lie changes results before they are sent; nil: it is honest. A result is what JSON has for it, or an *Error.
func (r *RPC) Lie(lie func(method string, result any) any) { r.set(func() { r.lie = lie }) }

// Calls is how often a method was asked for.
func (r *RPC) Calls(method string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[method]
}

type question struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

// ServeHTTP answers JSON-RPC, one question or many.
func (r *RPC) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(io.LimitReader(req.Body, 16<<20))
	r.mu.Lock()
	down := r.down
	r.mu.Unlock()
	if err != nil || down {
		http.Error(w, "the RPC at http://key:secret@"+req.Host+" is down", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		var many []question
		if json.Unmarshal(body, &many) != nil {
			http.Error(w, "no JSON", http.StatusBadRequest)
			return
		}
		answers := make([]any, len(many))
		for i, q := range many {
			answers[i] = r.answer(q)
		}
		_ = json.NewEncoder(w).Encode(answers)
		return
	}
	var one question
	if json.Unmarshal(body, &one) != nil {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(r.answer(one))
}

func (r *RPC) answer(q question) map[string]any {
	r.mu.Lock()
	r.calls[q.Method]++
	behind, maxRange, lie := r.behind, r.maxRange, r.lie
	r.mu.Unlock()
	v := view{chain: r.chain, maxRange: maxRange}
	head := r.chain.Head()
	v.head = head - min(head, behind)
	result, err := v.result(q)
	if lie != nil && err == nil {
		result = lie(q.Method, result)
	}
	fault, faulty := result.(*Error)
	if err != nil {
		fault, faulty = &Error{Code: -32000, Message: err.Error()}, true
	}
	if faulty {
		return map[string]any{"jsonrpc": "2.0", "id": q.ID, "error": fault}
	}
	return map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": result}
}

// view is the chain as one RPC sees it while it answers.
type view struct {
	chain          *Chain
	head, maxRange uint64
}

var errQuestion = errors.New("invalid argument")

func (v view) result(q question) (any, error) {
	switch q.Method {
	case "eth_chainId":
		return number16(uint64(v.chain.id)), nil
	case "eth_blockNumber":
		return number16(v.head), nil
	case "eth_getBlockByNumber":
		return v.block(q)
	case "eth_getLogs":
		return v.logs(q)
	case "eth_getTransactionReceipt":
		return v.receipt(q)
	case "eth_getBalance":
		return v.balance(q)
	case "eth_call":
		return v.tokenBalance(q)
	case "eth_getTransactionCount":
		return "0x0", nil
	case "eth_getCode":
		return "0x00", nil
	case "eth_estimateGas":
		return "0x5208", nil
	case "eth_maxPriorityFeePerGas":
		return "0x1", nil
	default:
		return nil, errors.New("the method is not scripted")
	}
}

func number16(n uint64) string { return "0x" + strconv.FormatUint(n, 16) }

func text(q question, i int) string {
	var s string
	if i < len(q.Params) {
		_ = json.Unmarshal(q.Params[i], &s)
	}
	return s
}

func number64(text string) (uint64, bool) {
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	return n, err == nil
}

// block answers by number or tag.
func (v view) block(q question) (any, error) {
	c := v.chain
	c.mu.Lock()
	defer c.mu.Unlock()
	var n uint64
	switch tag := text(q, 0); tag {
	case "latest":
		n = v.head
	case "finalized":
		n = v.head - min(v.head, c.depth)
	default:
		var ok bool
		if n, ok = number64(tag); !ok {
			return nil, errQuestion
		}
	}
	if n > v.head || n >= uint64(len(c.blocks)) {
		return nil, nil
	}
	full := len(q.Params) > 1 && string(q.Params[1]) == "true"
	b := c.blocks[n]
	txs := []any{}
	for _, t := range b.txs {
		if !full {
			txs = append(txs, t.Hash().String())
			continue
		}
		txs = append(txs, map[string]any{"hash": t.Hash().String(), "from": t.From.String(), "to": t.To.String(),
			"value": "0x" + hex.EncodeToString(word(t.Value))})
	}
	return map[string]any{"number": number16(n), "hash": b.hash.String(), "parentHash": b.parent.String(),
		"timestamp": number16(Begin + n*BlockTime), "baseFeePerGas": "0x7", "transactions": txs}, nil
}

// Data is bytes as JSON-RPC writes them.
func Data(b []byte) string { return "0x" + hex.EncodeToString(b) }

func word(a chain.Amount) []byte {
	b := a.Bytes()
	return b[:]
}

type filter struct {
	FromBlock, ToBlock string
	Address            []string
	Topics             [][]string
}

func (v view) logs(q question) (any, error) {
	var f filter
	if len(q.Params) != 1 || json.Unmarshal(q.Params[0], &f) != nil {
		return nil, errQuestion
	}
	from, ok := number64(f.FromBlock)
	to, also := number64(f.ToBlock)
	if !ok || !also {
		return nil, errQuestion
	}
	if v.maxRange > 0 && to-from >= v.maxRange {
		return nil, errors.New("query returned more than 10000 results")
	}
	c := v.chain
	c.mu.Lock()
	defer c.mu.Unlock()
	logs := []any{}
	first, _ := slices.BinarySearch(c.loud, from)
	for _, n := range c.loud[first:] {
		if n > min(to, v.head) {
			break
		}
		for _, l := range logsOf(c.blocks[n]) {
			if f.takes(l) {
				logs = append(logs, l)
			}
		}
	}
	return logs, nil
}

func (f filter) takes(l map[string]any) bool {
	if len(f.Address) > 0 && !slices.ContainsFunc(f.Address, func(a string) bool {
		return strings.EqualFold(a, l["address"].(string))
	}) {
		return false
	}
	topics := l["topics"].([]string)
	for i, choice := range f.Topics {
		if len(choice) > 0 && (i >= len(topics) || !slices.Contains(choice, topics[i])) {
			return false
		}
	}
	return true
}

// logsOf are the logs of a block, in order.
func logsOf(b block) []map[string]any {
	var logs []map[string]any
	for rank, t := range b.txs {
		if t.Failed {
			continue
		}
		for _, e := range t.Events {
			topics := []string{}
			for _, one := range e.Topics {
				topics = append(topics, one.String())
			}
			logs = append(logs, map[string]any{"address": e.Contract.String(), "topics": topics,
				"data": "0x" + hex.EncodeToString(e.Data), "blockNumber": number16(b.number), "blockHash": b.hash.String(),
				"transactionHash": t.Hash().String(), "transactionIndex": number16(uint64(rank)),
				"logIndex": number16(uint64(len(logs))), "removed": false})
		}
	}
	return logs
}

func (v view) receipt(q question) (any, error) {
	c := v.chain
	c.mu.Lock()
	defer c.mu.Unlock()
	hash, err := chain.ParseHash(text(q, 0))
	if err != nil {
		return nil, errQuestion
	}
	n, ok := c.placed[hash]
	if !ok || n > v.head {
		return nil, nil
	}
	logs, status, from := []any{}, "0x1", chain.Address{}
	for _, l := range logsOf(c.blocks[n]) {
		if l["transactionHash"] == hash.String() {
			logs = append(logs, l)
		}
	}
	for _, t := range c.blocks[n].txs {
		if t.Hash() == hash {
			from = t.From
			if t.Failed {
				status = "0x0"
			}
		}
	}
	return map[string]any{"transactionHash": hash.String(), "blockHash": c.blocks[n].hash.String(),
		"blockNumber": number16(n), "from": from.String(), "status": status, "gasUsed": "0x5208",
		"effectiveGasPrice": "0x9", "logs": logs}, nil
}

// at is the number of the block that a question names by its hash.
func (v view) at(q question, i int) (uint64, bool) {
	var by struct{ BlockHash string }
	if i >= len(q.Params) || json.Unmarshal(q.Params[i], &by) != nil {
		return 0, false
	}
	v.chain.mu.Lock()
	defer v.chain.mu.Unlock()
	for n := min(v.head, uint64(len(v.chain.blocks)-1)); ; n-- {
		if v.chain.blocks[n].hash.String() == by.BlockHash {
			return n, true
		}
		if n == 0 {
			return 0, false
		}
	}
}

func (v view) balance(q question) (any, error) {
	account, err := chain.ParseAddress(text(q, 0))
	n, ok := v.at(q, 1)
	if err != nil || !ok {
		return nil, errors.New("header not found")
	}
	return "0x" + hex.EncodeToString(word(v.chain.BalanceAt(chain.Address{}, account, n))), nil
}

func (v view) tokenBalance(q question) (any, error) {
	var call struct{ To, Data string }
	if len(q.Params) < 2 || json.Unmarshal(q.Params[0], &call) != nil || len(call.Data) != 74 {
		return nil, errQuestion
	}
	token, err := chain.ParseAddress(call.To)
	account, also := chain.ParseAddress("0x" + call.Data[34:])
	n, ok := v.at(q, 1)
	if err != nil || also != nil || !ok {
		return nil, errors.New("header not found")
	}
	return "0x" + hex.EncodeToString(word(v.chain.BalanceAt(token, account, n))), nil
}
