package watch

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"slices"

	"svc.internal/services/settlement/internal/chain"
)

// TransferTopic is the first topic of Transfer(address,address,uint256).
var TransferTopic = mustHash("ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef")

func mustHash(digits string) (h chain.Hash) {
	if n, err := hex.Decode(h[:], []byte(digits)); err != nil || n != len(h) {
		panic("a hash has 64 digits")
	}
	return h
}

const (
	// maxTopics bounds the addresses of one question for logs.
	maxTopics = 1_000
	// blocksForQuestion is how many blocks a window must have for each further question. Where all addresses take more
	// questions, all transfers of a token are read, and the addresses are looked for here.
	blocksForQuestion = 100
	// maxEventData bounds what is kept of a log.
	maxEventData = 64 << 10
)

// read returns what blocks brought, and the last of them. parent, unless it is zero, is the hash of the block before
// the first.
func (w *Watcher) read(ctx context.Context, from, to uint64, parent chain.Hash) (Found, chain.Block, error) {
	coins := w.takesCoins()
	blocks, err := w.Chain.Blocks(ctx, from, to, coins && w.addresses.size() > 0)
	if err != nil {
		return Found{}, chain.Block{}, err
	}
	if !parent.IsZero() && blocks[0].Parent != parent {
		return Found{}, chain.Block{}, fmt.Errorf("%w: block %d does not follow the last one that was read",
			chain.ErrDisagree, from)
	}
	r := reading{w: w, from: from, blocks: blocks}
	if err := r.contract(ctx); err != nil {
		return Found{}, chain.Block{}, err
	}
	if err := r.tokens(ctx); err != nil {
		return Found{}, chain.Block{}, err
	}
	if coins {
		if err := r.coins(ctx); err != nil {
			return Found{}, chain.Block{}, err
		}
	}
	return r.found, blocks[len(blocks)-1], nil
}

// takesCoins reports whether coins that arrive in a transaction are credited: those of the chain whose payouts are made
// in coins. On other chains the hourly look at balances finds them.
func (w *Watcher) takesCoins() bool { return w.Config.ID.PaysOut() == chain.Coin }

// reading is one window while it is read.
type reading struct {
	w      *Watcher
	from   uint64
	blocks []chain.Block
	found  Found
}

// contract reads the logs of the collateral contract.
func (r *reading) contract(ctx context.Context) error {
	contract, err := r.w.Config.CollateralAddress()
	if err != nil || contract.IsZero() {
		return err
	}
	logs, err := r.w.Chain.Logs(ctx, r.from, r.last(), []chain.Address{contract}, nil)
	if err != nil {
		return err
	}
	return r.eachLog(ctx, logs, func(l chain.Log, at chain.Block, place uint32, _ chain.Address) {
		r.found.Events = append(r.found.Events, Event{Key: r.key(l.Transaction, place), Block: l.Block,
			BlockHash: l.BlockHash, Index: l.Index, At: at.At, Contract: l.Contract, Topics: l.Topics,
			Data: l.Data[:min(len(l.Data), maxEventData)]})
	})
}

func (r *reading) last() uint64 { return r.from + uint64(len(r.blocks)) - 1 }

func (r *reading) key(tx chain.Hash, place uint32) Key {
	return Key{Chain: r.w.Config.ID, Transaction: tx, Place: place}
}

// tokens reads the transfers of tokens to deposit addresses: of the one that is credited, and of the known other ones.
func (r *reading) tokens(ctx context.Context) error {
	asset, credited := r.w.Config.Asset(chain.USDC)
	others := map[chain.Address]chain.Other{}
	var contracts []chain.Address
	if credited {
		contracts = append(contracts, asset.Contract)
	}
	for _, o := range r.w.Config.Others() {
		others[o.Contract], contracts = o, append(contracts, o.Contract)
	}
	if len(contracts) == 0 || r.w.addresses.size() == 0 {
		return nil
	}
	logs, err := r.transfers(ctx, contracts)
	if err != nil {
		return err
	}
	return r.eachLog(ctx, logs, func(l chain.Log, at chain.Block, place uint32, by chain.Address) {
		from, to, amount, _ := decode(l)
		if from.IsZero() {
			from = by // dollars that were made for the address: who had them made is known by the transaction alone
		}
		key, index := r.key(l.Transaction, place), r.w.addresses.index[to]
		if other, is := others[l.Contract]; !is {
			r.add(asset, key, at, from, index, amount)
		} else if !other.Small(amount) {
			r.found.Others = append(r.found.Others, Other{Key: key, Block: at.Number, BlockHash: at.Hash, At: at.At,
				Token: other, Sender: from, Index: index, Amount: amount})
		}
	})
}

// transfers returns the transfers of tokens to deposit addresses, by questions for some addresses each or by one for
// all transfers, whichever is less.
func (r *reading) transfers(ctx context.Context, contracts []chain.Address) ([]chain.Log, error) {
	var logs []chain.Log
	questions := (r.w.addresses.size() + maxTopics - 1) / maxTopics
	if questions > max(1, len(r.blocks)/blocksForQuestion) {
		all, err := r.w.Chain.Logs(ctx, r.from, r.last(), contracts, [][]chain.Hash{{TransferTopic}})
		if err != nil {
			return nil, err
		}
		logs = all
	} else {
		for some := range slices.Chunk(r.w.addresses.list, maxTopics) {
			words := make([]chain.Hash, len(some))
			for i, a := range some {
				copy(words[i][12:], a[:])
			}
			more, err := r.w.Chain.Logs(ctx, r.from, r.last(), contracts, [][]chain.Hash{{TransferTopic}, nil, words})
			if err != nil {
				return nil, err
			}
			logs = append(logs, more...)
		}
	}
	return slices.DeleteFunc(logs, func(l chain.Log) bool {
		_, to, amount, ok := decode(l)
		_, ours := r.w.addresses.index[to]
		return !ok || !ours || amount.IsZero()
	}), nil
}

// decode reads the log of a transfer.
func decode(l chain.Log) (from, to chain.Address, amount chain.Amount, ok bool) {
	if len(l.Topics) != 3 || l.Topics[0] != TransferTopic || len(l.Data) != 32 {
		return from, to, amount, false
	}
	var none [12]byte
	if [12]byte(l.Topics[1][:12]) != none || [12]byte(l.Topics[2][:12]) != none {
		return from, to, amount, false
	}
	amount, err := chain.AmountOf(l.Data)
	return chain.Address(l.Topics[1][12:]), chain.Address(l.Topics[2][12:]), amount, err == nil
}

// eachLog calls back for each log with its block, its place within its receipt, and who sent its transaction.
func (r *reading) eachLog(
	ctx context.Context, logs []chain.Log, do func(chain.Log, chain.Block, uint32, chain.Address),
) error {
	var txs []chain.Hash
	for _, l := range logs {
		if n := len(txs); n == 0 || txs[n-1] != l.Transaction {
			txs = append(txs, l.Transaction)
		}
	}
	receipts, err := r.receipts(ctx, txs)
	if err != nil {
		return err
	}
	for _, l := range logs {
		at, receipt := r.blocks[l.Block-r.from], receipts[l.Transaction]
		place := slices.IndexFunc(receipt.Logs, func(one chain.Log) bool { return one.Index == l.Index })
		if at.Hash != l.BlockHash || receipt.BlockHash != l.BlockHash || place < 0 {
			return fmt.Errorf("%w: a log of block %d is not in its transaction's receipt", chain.ErrDisagree, l.Block)
		}
		do(l, at, uint32(place), receipt.From)
	}
	return nil
}

func (r *reading) receipts(ctx context.Context, txs []chain.Hash) (map[chain.Hash]chain.Receipt, error) {
	list, err := r.w.Chain.FinalReceipts(ctx, txs)
	if err != nil {
		return nil, err
	}
	receipts := make(map[chain.Hash]chain.Receipt, len(list))
	for _, one := range list {
		receipts[one.Transaction] = one
	}
	return receipts, nil
}

// coins reads the transactions that send coins to deposit addresses and succeed.
func (r *reading) coins(ctx context.Context) error {
	asset, _ := r.w.Config.Asset(chain.Coin)
	var txs []chain.Hash
	type sent struct {
		chain.Transaction
		at chain.Block
	}
	var all []sent
	for _, b := range r.blocks {
		for _, t := range b.Transactions {
			if _, ours := r.w.addresses.index[t.To]; ours && !t.Creates && !t.Value.IsZero() {
				all, txs = append(all, sent{t, b}), append(txs, t.Hash)
			}
		}
	}
	receipts, err := r.receipts(ctx, txs)
	if err != nil {
		return err
	}
	for _, s := range all {
		receipt := receipts[s.Hash]
		if receipt.BlockHash != s.at.Hash {
			return fmt.Errorf("%w: a transaction of block %d has its receipt elsewhere", chain.ErrDisagree, s.at.Number)
		}
		if receipt.Succeeded {
			r.add(asset, r.key(s.Hash, 0), s.at, s.From, r.w.addresses.index[s.To], s.Value)
		}
	}
	return nil
}

// add adds a transfer, or its amount to the small ones.
func (r *reading) add(
	asset chain.Asset, key Key, at chain.Block, from chain.Address, index uint32, amount chain.Amount,
) {
	units, dust, counted := amount.Units(asset.Decimals)
	if !counted || units == 0 || units == math.MaxInt64 || r.w.Small(asset, amount) {
		r.found.Small = append(r.found.Small, Small{Index: index, Token: asset.Name(), Amount: amount})
		return
	}
	r.found.Transfers = append(r.found.Transfers, Transfer{Key: key, Block: at.Number, BlockHash: at.Hash, At: at.At,
		Token: asset.Name(), Sender: from, Index: index, Amount: amount, Units: units, Dust: dust})
}
