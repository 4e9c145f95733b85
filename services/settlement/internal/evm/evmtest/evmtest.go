// Package evmtest has a chain for tests that is a script: its blocks are what a test puts there, and each of its RPCs
// may be slow to follow, silent, or lie. It does what a development chain cannot do: lies, refusals, deep changes of
// final blocks, and long histories in no time.
package evmtest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"

	"svc.internal/services/settlement/internal/chain"
)

// BlockTime is the seconds between two blocks.
const BlockTime = 2

// Begin is the time of block 0.
const Begin = 1_790_000_000

// TransferTopic is the first topic of a token's transfer.
var TransferTopic = topic("0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef")

func topic(text string) chain.Hash {
	h, err := chain.ParseHash(text)
	if err != nil {
		panic(err)
	}
	return h
}

// Event is one log of a transaction.
type Event struct {
	Contract chain.Address
	Topics   []chain.Hash
	Data     []byte
}

// Tx is a transaction of a script.
type Tx struct {
	// Salt makes the hash; a transaction that is put again with its salt has its hash again.
	Salt     uint64
	From, To chain.Address
	Value    chain.Amount
	Failed   bool
	Events   []Event
	// Moves are what balances it changes beside its value.
	Moves []Move
}

// Move adds to a balance; Token is zero for the coin.
type Move struct {
	Token, Account chain.Address
	Amount         chain.Amount
	Less           bool
}

// Hash is the transaction's hash.
func (t Tx) Hash() chain.Hash { return number("tx", t.Salt, 0) }

// Transfer is a transaction with one transfer of a token, as honest tokens make it.
func Transfer(salt uint64, token, to chain.Address, amount chain.Amount) Tx {
	t := Lie(salt, token, to, amount)
	t.Moves = []Move{{Token: token, Account: to, Amount: amount}}
	return t
}

// Lie is a transaction with the log of a transfer that did not happen.
func Lie(salt uint64, token, to chain.Address, amount chain.Amount) Tx {
	from := Address("sender", salt)
	return Tx{Salt: salt, From: from, To: token, Events: []Event{TransferEvent(token, from, to, amount)}}
}

// TransferEvent is the log of a transfer.
func TransferEvent(token, from, to chain.Address, amount chain.Amount) Event {
	value := amount.Bytes()
	return Event{Contract: token, Topics: []chain.Hash{TransferTopic, Word(from), Word(to)}, Data: value[:]}
}

// Coins is a transaction that sends coins.
func Coins(salt uint64, to chain.Address, amount chain.Amount) Tx {
	return Tx{Salt: salt, From: Address("sender", salt), To: to, Value: amount,
		Moves: []Move{{Account: to, Amount: amount}}}
}

// Word is an address as a topic.
func Word(a chain.Address) (h chain.Hash) {
	copy(h[12:], a[:])
	return h
}

// Address makes an address of a name and a number.
func Address(name string, n uint64) chain.Address {
	h := number(name, n, 0)
	return chain.Address(h[12:])
}

func number(name string, n, m uint64) chain.Hash {
	text := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64([]byte(name), n), m)
	return sha256.Sum256(text)
}

// block is a block of a script.
type block struct {
	number       uint64
	hash, parent chain.Hash
	txs          []Tx
}

// Chain is a scripted chain. It is safe for concurrent use.
type Chain struct {
	id chain.ID

	mu     sync.Mutex
	forks  uint64
	blocks []block
	// placed is the block of each transaction.
	placed map[chain.Hash]uint64
	// loud are the blocks that have logs.
	loud []uint64
	// moves are those of each balance, by block.
	moves map[[2]chain.Address][]moved
	// depth is how many blocks stand on a final one.
	depth uint64
}

type moved struct {
	block uint64
	Move
}

// New makes a chain that has block 0. Blocks are final when depth others stand on them.
func New(id chain.ID, depth uint64) *Chain {
	c := &Chain{id: id, depth: depth, placed: map[chain.Hash]uint64{}, moves: map[[2]chain.Address][]moved{}}
	c.Mine()
	return c
}

// Mine adds a block with transactions and returns its number.
func (c *Chain) Mine(txs ...Tx) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := uint64(len(c.blocks))
	b := block{number: n, hash: number("block", n, c.forks), txs: txs}
	if n > 0 {
		b.parent = c.blocks[n-1].hash
	}
	c.blocks = append(c.blocks, b)
	loud := false
	for _, t := range txs {
		if _, twice := c.placed[t.Hash()]; twice {
			panic(fmt.Sprintf("transaction %d is mined twice", t.Salt))
		}
		c.placed[t.Hash()] = n
		loud = loud || len(t.Events) > 0
		if t.Failed {
			continue
		}
		for _, m := range t.Moves {
			key := [2]chain.Address{m.Token, m.Account}
			c.moves[key] = append(c.moves[key], moved{n, m})
		}
	}
	if loud {
		c.loud = append(c.loud, n)
	}
	return n
}

// MineEmpty adds empty blocks.
func (c *Chain) MineEmpty(blocks int) {
	for range blocks {
		c.Mine()
	}
}

// Reorg takes the last blocks away. What is mined then has other hashes.
func (c *Chain) Reorg(blocks int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	keep := uint64(len(c.blocks) - blocks)
	for _, b := range c.blocks[keep:] {
		for _, t := range b.txs {
			delete(c.placed, t.Hash())
		}
	}
	c.blocks = c.blocks[:keep]
	c.forks++
	c.loud = slices.DeleteFunc(c.loud, func(n uint64) bool { return n >= keep })
	for key, list := range c.moves {
		c.moves[key] = slices.DeleteFunc(list, func(m moved) bool { return m.block >= keep })
	}
}

// Has reports whether a transaction is mined.
func (c *Chain) Has(t Tx) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.placed[t.Hash()]
	return ok
}

// Head is the number of the last block.
func (c *Chain) Head() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return uint64(len(c.blocks) - 1)
}

// HashOf is the hash of a block.
func (c *Chain) HashOf(n uint64) chain.Hash {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blocks[n].hash
}

// BalanceAt is a balance as of a block; token is zero for the coin.
func (c *Chain) BalanceAt(token, account chain.Address, n uint64) chain.Amount {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum chain.Amount
	for _, m := range c.moves[[2]chain.Address{token, account}] {
		if m.block > n {
			break
		}
		if m.Less {
			sum, _ = sum.Sub(m.Amount)
		} else {
			sum, _ = sum.Add(m.Amount)
		}
	}
	return sum
}
