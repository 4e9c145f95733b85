package payoutsim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"golang.org/x/crypto/sha3"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/watch"
)

// depth is how many blocks stand on a final one.
const depth = 3

// wallet is the hot wallet, and usdc the token's contract.
var (
	wallet = chain.Address{0: 0xaa, 19: 1}
	usdc   = chain.Address{0: 0xcc, 19: 1}
)

// tx is a transaction of the simulated chain.
type tx struct {
	sender, to chain.Address
	nonce      uint64
	data       []byte
	fees       chain.Fees
	content    chain.Hash
	cancels    bool
	raw        string
	hash       chain.Hash
}

// pays returns whom a transaction pays how much.
func (t *tx) pays() (to chain.Address, units uint64) {
	if len(t.data) != 68 {
		return chain.Address{}, 0
	}
	copy(to[:], t.data[16:36])
	return to, binary.BigEndian.Uint64(t.data[60:68])
}

// mined is a transaction in a block.
type mined struct {
	*tx
	ok bool
}

// block is one block. Its hash tells it from those that had its number before.
type block struct {
	hash chain.Hash
	txs  []mined
	// before is the fee of the chain before the block.
	before uint64
}

// simChain is a chain with a token, a pool that drops transactions and reorganizations.
type simChain struct {
	rng    *rand.Rand
	blocks []block
	pool   []*tx
	// seen are all transactions that were ever broadcast: anybody may broadcast them again.
	seen  []*tx
	byRaw map[string]*tx
	at    map[chain.Hash]int
	count map[chain.Address]uint64
	fee   uint64
	made  uint64
	held  uint64
	// blocked are recipients that the token refuses.
	blocked map[chain.Address]bool
	calm    bool
}

func newSimChain(rng *rand.Rand, held uint64) *simChain {
	c := &simChain{rng: rng, byRaw: map[string]*tx{}, at: map[chain.Hash]int{}, count: map[chain.Address]uint64{},
		fee: 100, held: held, blocked: map[chain.Address]bool{}}
	for range depth + 1 {
		c.mine()
	}
	return c
}

func keccak(data []byte) chain.Hash {
	h := sha3.NewLegacyKeccak256()
	h.Write(data)
	return chain.Hash(h.Sum(nil))
}

// compose makes a transaction with bytes of its own.
func (c *simChain) compose(t tx) *tx {
	c.made++
	t.raw = string(binary.BigEndian.AppendUint64(nil, c.made))
	t.hash = keccak([]byte(t.raw))
	c.byRaw[t.raw] = &t
	return &t
}

// take is a node that is sent a transaction.
func (c *simChain) take(t *tx) chain.Outcome {
	_, in := c.at[t.hash]
	switch {
	case in || slices.Contains(c.pool, t):
		return chain.Accepted
	case t.nonce < c.count[t.sender]:
		return chain.NonceUsed
	}
	c.seen = append(c.seen, t)
	for i, other := range c.pool {
		if other.sender != t.sender || other.nonce != t.nonce {
			continue
		}
		need, _ := other.fees.Max.MulDiv(11, 10)
		if t.fees.Max.Cmp(need) < 0 {
			return chain.Underpriced
		}
		if c.rng.IntN(3) > 0 { // else another node keeps the other one
			c.pool[i] = t
			return chain.Accepted
		}
	}
	c.pool = append(c.pool, t)
	return chain.Accepted
}

// mine makes a block of what waits, in the order of nonces.
func (c *simChain) mine() {
	c.made++
	b := block{hash: keccak(binary.BigEndian.AppendUint64([]byte("block"), c.made)), before: c.fee}
	if !c.calm {
		c.fee = max(50, c.fee*uint64(80+c.rng.IntN(50))/100)
		if c.rng.IntN(40) == 0 {
			c.fee *= 4
		}
	} else {
		c.fee = max(50, c.fee*3/4)
	}
	c.blocks = append(c.blocks, b)
	for range 8 {
		i := slices.IndexFunc(c.pool, func(t *tx) bool {
			return t.nonce == c.count[t.sender] && t.fees.Max.Cmp(chain.NewAmount(c.fee)) >= 0 && (c.calm || c.rng.IntN(3) > 0)
		})
		if i < 0 {
			break
		}
		c.include(c.pool[i])
	}
}

// include puts a transaction into the last block.
func (c *simChain) include(t *tx) {
	to, units := t.pays()
	last := &c.blocks[len(c.blocks)-1]
	last.txs = append(last.txs, mined{t, !c.blocked[to] && units <= c.holds(len(c.blocks)-1)})
	c.at[t.hash] = len(c.blocks) - 1
	c.count[t.sender]++
	c.pool = slices.DeleteFunc(c.pool, func(o *tx) bool { return o.sender == t.sender && o.nonce <= t.nonce })
}

// holds returns what the hot wallet has as of a block.
func (c *simChain) holds(number int) uint64 {
	held := c.held
	for _, b := range c.blocks[:number+1] {
		for _, m := range b.txs {
			if _, units := m.pays(); m.ok {
				held -= units
			}
		}
	}
	return held
}

// reorg takes the last blocks back. Their transactions may wait again, or be forgotten. With others, some nodes have
// kept other transactions of their nonces, which a new block may have instead.
func (c *simChain) reorg(blocks int, others bool) {
	for range min(blocks, len(c.blocks)-1) {
		last := c.blocks[len(c.blocks)-1]
		c.blocks, c.fee = c.blocks[:len(c.blocks)-1], last.before
		for _, m := range slices.Backward(last.txs) {
			delete(c.at, m.hash)
			c.count[m.sender]--
			if others && c.rng.IntN(4) > 0 && c.remember(m.tx) {
				continue
			}
			if c.rng.IntN(4) > 0 {
				c.pool = append(c.pool, m.tx)
			}
		}
	}
	for range blocks {
		c.mine()
	}
}

// remember has the cancel of a transaction wait, or what it cancelled, before all that waits. It reports whether there
// is one.
func (c *simChain) remember(t *tx) bool {
	var kept []*tx
	for _, o := range c.seen {
		if o.sender == t.sender && o.nonce == t.nonce && o.cancels != t.cancels && !slices.Contains(c.pool, o) {
			kept = append(kept, o)
		}
	}
	if len(kept) == 0 {
		return false
	}
	c.pool = slices.Insert(c.pool, 0, kept[c.rng.IntN(len(kept))])
	return true
}

// disturb drops what waits, or has somebody broadcast an old transaction again.
func (c *simChain) disturb() {
	if len(c.pool) > 0 && c.rng.IntN(6) == 0 {
		i := c.rng.IntN(len(c.pool))
		c.pool = slices.Delete(c.pool, i, i+1)
	}
	if len(c.seen) > 0 && c.rng.IntN(6) == 0 {
		old := c.seen[c.rng.IntN(len(c.seen))]
		if _, in := c.at[old.hash]; !in && old.nonce >= c.count[old.sender] && !slices.Contains(c.pool, old) {
			c.pool = append(c.pool, old)
		}
	}
}

// final is the number of the last final block.
func (c *simChain) final() int { return len(c.blocks) - 1 - depth }

// nonces returns the transactions of a sender in final blocks, and in all.
func (c *simChain) nonces(sender chain.Address) (final, latest uint64) {
	latest = c.count[sender]
	final = latest
	for _, b := range c.blocks[c.final()+1:] {
		for _, m := range b.txs {
			if m.sender == sender {
				final--
			}
		}
	}
	return final, latest
}

// payments counts the transfers that an address has received, and their sum.
func (c *simChain) payments(to chain.Address) (count int, sum uint64) {
	for _, b := range c.blocks {
		for _, m := range b.txs {
			if paid, units := m.pays(); m.ok && paid == to {
				count++
				sum += units
			}
		}
	}
	return count, sum
}

// receipt returns the receipt of a transaction.
func (c *simChain) receipt(hash chain.Hash) (chain.Receipt, bool) {
	number, ok := c.at[hash]
	if !ok {
		return chain.Receipt{}, false
	}
	b := c.blocks[number]
	i := slices.IndexFunc(b.txs, func(m mined) bool { return m.hash == hash })
	return chain.Receipt{Transaction: hash, BlockHash: b.hash, Block: uint64(number), From: b.txs[i].sender,
		Succeeded: b.txs[i].ok, GasUsed: gasOfCall, GasPrice: chain.NewAmount(gasPrice), Final: number <= c.final(),
		Logs: b.txs[i].logs()}, true
}

// logs are the logs of a transaction: the token's, where it was paid.
func (m mined) logs() []chain.Log {
	if !m.ok || len(m.data) != 68 {
		return nil
	}
	var from, to chain.Hash
	copy(from[12:], m.sender[:])
	copy(to[:], m.data[4:36])
	return []chain.Log{{Contract: usdc, Topics: []chain.Hash{watch.TransferTopic, from, to}, Data: m.data[36:68]}}
}

// What each transaction costs.
const (
	gasOfCall = 50_000
	gasPrice  = 1_000_000_000
)

func (c *simChain) String() string {
	return fmt.Sprintf("%d blocks, %d waiting, fee %d", len(c.blocks), len(c.pool), c.fee)
}
