package evm

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"svc.internal/services/settlement/internal/chain"
)

// errShape says that a value has not the form that JSON-RPC gives it.
var errShape = errors.New("a value has the wrong form")

// maxData bounds the data of one log.
const maxData = 1 << 20

// quantity is a number as JSON-RPC writes it: 0x and digits, in any case below 2^64.
type quantity uint64

func (q *quantity) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "0x")
	n, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil {
		return fmt.Errorf("%w: a quantity", errShape)
	}
	*q = quantity(n)
	return nil
}

func (q quantity) MarshalText() ([]byte, error) { return []byte(hexNumber(uint64(q))), nil }

func hexNumber(n uint64) string { return "0x" + strconv.FormatUint(n, 16) }

// amount is a number below 2^256.
type amount struct{ chain.Amount }

func (a *amount) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "0x")
	if len(digits)%2 == 1 {
		digits = "0" + digits
	}
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) > 32 {
		return fmt.Errorf("%w: an amount", errShape)
	}
	a.Amount, err = chain.AmountOf(raw)
	return err
}

func hexAmount(a chain.Amount) string {
	b := a.Bytes()
	if digits := strings.TrimLeft(hex.EncodeToString(b[:]), "0"); digits != "" {
		return "0x" + digits
	}
	return "0x0"
}

// data is bytes.
type data []byte

func (d *data) UnmarshalText(text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "0x")
	raw, err := hex.DecodeString(digits)
	if !ok || err != nil || len(raw) > maxData {
		return fmt.Errorf("%w: bytes", errShape)
	}
	*d = raw
	return nil
}

func hexData(raw []byte) string { return "0x" + hex.EncodeToString(raw) }

// hash and address are fixed numbers of bytes.
type (
	hash    chain.Hash
	address chain.Address
)

func (h *hash) UnmarshalText(text []byte) error { return fixed(h[:], text) }

func (a *address) UnmarshalText(text []byte) error { return fixed(a[:], text) }

func fixed(into, text []byte) error {
	digits, ok := strings.CutPrefix(string(text), "0x")
	if !ok || len(digits) != 2*len(into) {
		return fmt.Errorf("%w: %d bytes", errShape, len(into))
	}
	if _, err := hex.Decode(into, []byte(digits)); err != nil {
		return fmt.Errorf("%w: %d bytes", errShape, len(into))
	}
	return nil
}

// wireBlock is a block. Its transactions are hashes or objects, as it was asked for.
type wireBlock struct {
	Number       *quantity         `json:"number"`
	Hash         *hash             `json:"hash"`
	ParentHash   *hash             `json:"parentHash"`
	Timestamp    quantity          `json:"timestamp"`
	BaseFee      *amount           `json:"baseFeePerGas"`
	Transactions []json.RawMessage `json:"transactions"`
}

type wireTransaction struct {
	Hash  hash     `json:"hash"`
	From  address  `json:"from"`
	To    *address `json:"to"`
	Value amount   `json:"value"`
}

// block translates. A block without number and hash is pending, which was not asked for.
func (w *wireBlock) block(transactions bool) (chain.Block, error) {
	if w == nil || w.Number == nil || w.Hash == nil || w.ParentHash == nil {
		return chain.Block{}, fmt.Errorf("%w: it has no such block", chain.ErrUnavailable)
	}
	b := chain.Block{Number: uint64(*w.Number), Hash: chain.Hash(*w.Hash), Parent: chain.Hash(*w.ParentHash),
		At: time.Unix(int64(w.Timestamp), 0).UTC()}
	if !transactions {
		return b, nil
	}
	for _, raw := range w.Transactions {
		var t wireTransaction
		if err := json.Unmarshal(raw, &t); err != nil {
			return chain.Block{}, fmt.Errorf("%w: a transaction of block %d cannot be read", chain.ErrUnavailable, b.Number)
		}
		tx := chain.Transaction{Hash: chain.Hash(t.Hash), From: chain.Address(t.From), Value: t.Value.Amount,
			Creates: t.To == nil}
		if t.To != nil {
			tx.To = chain.Address(*t.To)
		}
		b.Transactions = append(b.Transactions, tx)
	}
	return b, nil
}

type wireLog struct {
	Address          address  `json:"address"`
	Topics           []hash   `json:"topics"`
	Data             data     `json:"data"`
	BlockNumber      quantity `json:"blockNumber"`
	BlockHash        hash     `json:"blockHash"`
	TransactionHash  hash     `json:"transactionHash"`
	TransactionIndex quantity `json:"transactionIndex"`
	LogIndex         quantity `json:"logIndex"`
	Removed          bool     `json:"removed"`
}

func (w *wireLog) log() (chain.Log, error) {
	if w.Removed || len(w.Topics) > 4 {
		return chain.Log{}, fmt.Errorf("%w: a log that cannot be", chain.ErrUnavailable)
	}
	l := chain.Log{Block: uint64(w.BlockNumber), BlockHash: chain.Hash(w.BlockHash),
		Transaction: chain.Hash(w.TransactionHash), Index: uint64(w.LogIndex), Contract: chain.Address(w.Address),
		Data: w.Data, TransactionRank: uint64(w.TransactionIndex)}
	for _, t := range w.Topics {
		l.Topics = append(l.Topics, chain.Hash(t))
	}
	return l, nil
}

type wireReceipt struct {
	TransactionHash   hash      `json:"transactionHash"`
	BlockHash         hash      `json:"blockHash"`
	BlockNumber       quantity  `json:"blockNumber"`
	From              address   `json:"from"`
	Status            quantity  `json:"status"`
	GasUsed           quantity  `json:"gasUsed"`
	EffectiveGasPrice amount    `json:"effectiveGasPrice"`
	L1Fee             *amount   `json:"l1Fee"`
	Logs              []wireLog `json:"logs"`
}

func (w *wireReceipt) receipt() (chain.Receipt, error) {
	r := chain.Receipt{Transaction: chain.Hash(w.TransactionHash), BlockHash: chain.Hash(w.BlockHash),
		Block: uint64(w.BlockNumber), From: chain.Address(w.From), Succeeded: w.Status == 1, GasUsed: uint64(w.GasUsed),
		GasPrice: w.EffectiveGasPrice.Amount}
	if w.L1Fee != nil {
		r.L1Fee = w.L1Fee.Amount
	}
	for i := range w.Logs {
		l, err := w.Logs[i].log()
		if err != nil {
			return chain.Receipt{}, err
		}
		r.Logs = append(r.Logs, l)
	}
	return r, nil
}
