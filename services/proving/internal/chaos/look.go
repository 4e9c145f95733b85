package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strings"

	"svc.internal/pkg/ethereum"
	"svc.internal/services/settlement/devchain"
)

// transferEvent is keccak256("Transfer(address,address,uint256)"), the first topic of a token's transfers.
const transferEvent = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"

// header, block, transaction and receipt are what is read of a chain.
type header struct {
	Number    string `json:"number"`
	Timestamp string `json:"timestamp"`
}

type block struct {
	Hash         string        `json:"hash"`
	Timestamp    string        `json:"timestamp"`
	Transactions []transaction `json:"transactions"`
}

type transaction struct {
	Hash  string `json:"hash"`
	From  string `json:"from"`
	To    string `json:"to"`
	Nonce string `json:"nonce"`
	Value string `json:"value"`
}

type receipt struct {
	BlockHash string `json:"blockHash"`
	Status    string `json:"status"`
	Logs      []struct {
		Address string   `json:"address"`
		Topics  []string `json:"topics"`
		Data    string   `json:"data"`
	} `json:"logs"`
}

// exportChains writes what the chains themselves say, for the auditor: all of their transactions, transfers of the
// dollar, and what the platform's wallets hold; and what was paid by card. Nothing of it is from a service.
func (m *market) exportChains(ctx context.Context, path string) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("export a chain: %w", err)
	}
	w := &chainFile{to: bufio.NewWriter(file)}
	defer func() {
		if err = errors.Join(err, w.end(), file.Close()); err != nil {
			err = fmt.Errorf("export a chain: %w", err)
		}
	}()
	for _, c := range m.paying.All {
		if err := m.paying.exportChain(ctx, w, c); err != nil {
			return err
		}
	}
	exportCards(w, m.cards)
	return nil
}

// exportCards writes what was paid by card, as the cards' owners know it.
func exportCards(w *chainFile, cards []cardPayment) {
	for _, p := range cards {
		w.row("card", object{"session": p.session, "provider_id": p.provider, "cents": cardCents, "back": p.back})
	}
}

func (p *paying) exportChain(ctx context.Context, w *chainFile, c *devchain.Chain) error {
	var latest, final header
	if err := errors.Join(devchain.Ask(ctx, c.URL, &latest, "eth_getBlockByNumber", "latest", false),
		devchain.Ask(ctx, c.URL, &final, "eth_getBlockByNumber", "finalized", false)); err != nil {
		return err
	}
	w.row("chain", object{"chain_id": c.ID(), "final_block": number(final.Number)})
	for n := int64(0); n <= number(latest.Number); n++ {
		var b block
		if err := devchain.Ask(ctx, c.URL, &b, "eth_getBlockByNumber", fmt.Sprintf("0x%x", n), true); err != nil {
			return err
		}
		for _, tx := range b.Transactions {
			if err := exportTransaction(ctx, w, c, n, tx); err != nil {
				return err
			}
		}
	}
	return p.exportWallets(ctx, w, c)
}

func exportTransaction(ctx context.Context, w *chainFile, c *devchain.Chain, n int64, tx transaction) error {
	var r receipt
	if err := devchain.Ask(ctx, c.URL, &r, "eth_getTransactionReceipt", tx.Hash); err != nil {
		return err
	}
	if tx.To == "" {
		tx.To = "0x" + strings.Repeat("0", 40) // it made a contract
	}
	w.row("transaction", object{"chain_id": c.ID(), "hash": column(tx.Hash), "sender": column(tx.From),
		"nonce": number(tx.Nonce), "recipient": column(tx.To), "value": large(tx.Value),
		"succeeded": r.Status == "0x1", "block": n})
	for _, l := range r.Logs {
		if !strings.EqualFold(l.Address, devchain.USD) || len(l.Topics) != 3 || l.Topics[0] != transferEvent {
			continue
		}
		w.row("transfer", object{"chain_id": c.ID(), "hash": column(tx.Hash), "sender": column("0x" + l.Topics[1][26:]),
			"recipient": column("0x" + l.Topics[2][26:]), "amount": large(l.Data)})
	}
	return nil
}

// exportWallets writes what the platform's addresses on a chain hold: coins, and dollars where they count. A contract
// holds what its chain's collateral is in.
func (p *paying) exportWallets(ctx context.Context, w *chainFile, c *devchain.Chain) error {
	coin, dollars := assetETH, c.ID() == payingChain
	if !dollars {
		coin = assetCoin
	}
	holders := []struct{ role, address string }{{"treasury", devchain.Treasury}, {"hot", p.Keys["payout"].String()}}
	contract := struct{ role, address string }{"contract", devchain.Collateral}
	if !dollars {
		holders = append(holders, contract)
	}
	for _, one := range holders {
		var held string
		if err := devchain.Ask(ctx, c.URL, &held, "eth_getBalance", one.address, "latest"); err != nil {
			return err
		}
		w.row("wallet", object{"asset": coin, "role": one.role, "address": column(one.address), "amount": large(held)})
	}
	if !dollars {
		return nil
	}
	for _, one := range append(holders, contract) {
		a, err := ethereum.ParseAddress(one.address)
		if err != nil {
			return err
		}
		var held string
		if err := devchain.Ask(ctx, c.URL, &held, "eth_call", map[string]string{"to": devchain.USD,
			"data": fmt.Sprintf("0x70a08231%064x", a[:])}, "latest"); err != nil {
			return err
		}
		w.row("wallet", object{"asset": assetUSDC, "role": one.role, "address": column(one.address),
			"amount": large(held)})
	}
	return nil
}

// ask asks the chain on which dollars are paid.
func (p *paying) ask(ctx context.Context, out any, method string, params ...any) error {
	return devchain.Ask(ctx, p.chain.URL, out, method, params...)
}

// column is a hash or an address as a column of bytes.
func column(hexadecimal string) string {
	return `\x` + strings.ToLower(strings.TrimPrefix(hexadecimal, "0x"))
}

func large(hexadecimal string) string {
	n, ok := new(big.Int).SetString(strings.TrimPrefix(hexadecimal, "0x"), 16)
	if !ok {
		return "none" // the auditor refuses it
	}
	return n.String()
}

func number(hexadecimal string) int64 {
	n, ok := new(big.Int).SetString(strings.TrimPrefix(hexadecimal, "0x"), 16)
	if !ok || !n.IsInt64() {
		return -1 // the auditor refuses it
	}
	return n.Int64()
}

// chainFile writes rows.
type chainFile struct {
	to   *bufio.Writer
	rows int
	err  error
}

func (f *chainFile) row(table string, columns object) {
	f.rows++
	f.line(object{"table": table, "row": columns})
}

func (f *chainFile) line(v object) {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = f.to.Write(append(text, '\n'))
	}
	f.err = errors.Join(f.err, err)
}

func (f *chainFile) end() error {
	f.line(object{"end": true, "rows": f.rows})
	return errors.Join(f.err, f.to.Flush())
}
