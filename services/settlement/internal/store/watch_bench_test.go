package store_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/evm/evmtest"
)

// BenchmarkCatchUp reads 10,000 blocks, each with a transfer of a stranger and every tenth with a deposit, for 100,000
// deposit addresses, from two scripted RPCs into PostgreSQL.
func BenchmarkCatchUp(b *testing.B) {
	const blocks, addresses = 10_000, 100_000
	for b.Loop() {
		b.StopTimer()
		w := newChainWorld(b, chain.Base, 2)
		rows := make([][]any, addresses)
		for i := range rows {
			at, account := evmtest.Address("deposit", uint64(i)), [16]byte{byte(i), byte(i >> 8), byte(i >> 16)}
			rows[i] = []any{int64(i), account, at[:]}
		}
		if _, err := w.pool.CopyFrom(context.Background(), pgx.Identifier{"deposit_address"},
			[]string{"deposit_index", "account_id", "address"}, pgx.CopyFromRows(rows)); err != nil {
			b.Fatal(err)
		}
		by := w.watcher()
		w.catchUp(by)
		for i := range uint64(blocks) {
			txs := []evmtest.Tx{evmtest.Transfer(2*i, w.token, evmtest.Address("stranger", i), usd(2_000_000))}
			if i%10 == 0 {
				to := evmtest.Address("deposit", i*7919%addresses)
				txs = append(txs, evmtest.Transfer(2*i+1, w.token, to, usd(2_000_000)))
			}
			w.chain.Mine(txs...)
		}
		w.chain.MineEmpty(2)
		b.StartTimer()
		w.catchUp(by)
		b.StopTimer()
		if got := w.text(`SELECT count(*)::text FROM transfer`); got != "1000" {
			b.Fatalf("transfers: got %s, want 1000", got)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(blocks)*float64(b.N)/b.Elapsed().Seconds(), "blocks/s")
}
