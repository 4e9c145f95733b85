package signer

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"svc.internal/pkg/fault"
	"svc.internal/pkg/pgtest"
	"svc.internal/pkg/serve"
	signerv1 "svc.internal/proto/svc/signer/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/calldata"
	"svc.internal/services/settlement/signer/internal/store"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var (
	payee      = chain.Address{0: 0xaa, 19: 1}
	treasury   = chain.Address{0: 0xaa, 19: 2}
	collateral = chain.Address{0: 0xaa, 19: 3}
	usdc       = chain.Address{0: 0xaa, 19: 4}
)

// gwei is a thousand million wei.
const gwei = 1_000_000_000

func limits(transaction, day uint64) Cap {
	return Cap{Transaction: chain.NewAmount(transaction), Day: chain.NewAmount(day)}
}

// listed is a chain with everything.
func listed(id chain.ID) Chain {
	return Chain{
		ID: id, Treasury: treasury.String(), Collateral: collateral.String(), Slashes: limits(500, 1000),
		CoinPayouts: limits(gwei, 3*gwei),
		Tokens: []Token{{Address: usdc.String(), Name: "USD Coin", Version: "2",
			Payouts: limits(1_000_000, 2_500_000)}},
		Fees: limits(1_000_000*gwei, 1_000_000*gwei),
	}
}

// reasonOf is the reason of a fault, the text of any other error, and empty for none.
func reasonOf(err error) fault.Reason {
	if f, ok := fault.As(err); ok {
		return f.Reason
	}
	if err != nil {
		return fault.Reason(err.Error())
	}
	return ""
}

// bundle is two replicas of a signer on one database.
type bundle struct {
	cfg      Config
	pool     *pgxpool.Pool
	services [2]*Service
	clients  [2]signerv1.SignerServiceClient
	log      *lockedBuffer
}

// lockedBuffer keeps a log.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String returns what was written.
func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func setup(t *testing.T, change ...func(*Config)) *bundle {
	t.Helper()
	b := &bundle{
		cfg: Config{Chains: Chains{listed(254)}, Development: true,
			DevelopmentSeed: filepath.Join(t.TempDir(), "signer", "seed")},
		pool: pgtest.Pool(t, store.Schema, store.Role, store.Migrations), log: &lockedBuffer{},
	}
	for _, f := range change {
		f(&b.cfg)
	}
	for i := range b.services {
		b.services[i], b.clients[i] = b.start(t, b.cfg, b.pool)
	}
	return b
}

// start starts a replica.
func (b *bundle) start(t *testing.T, cfg Config, pool *pgxpool.Pool) (*Service, signerv1.SignerServiceClient) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	service, err := New(t.Context(), cfg, Deps{Log: log, Meters: noop.NewMeterProvider(), DB: pool})
	if err != nil {
		t.Fatal(err)
	}
	in, err := serve.NewInterceptors(log, noop.NewMeterProvider(), tracenoop.NewTracerProvider(), Tables().Fault)
	if err != nil {
		t.Fatal(err)
	}
	channel := serve.NewInProcess(in)
	service.Register(channel)
	return service, signerv1.NewSignerServiceClient(channel.Client())
}

// transfer is the data of a transfer of a token.
func transfer(to chain.Address, amount uint64) []byte {
	selector := calldata.Transfer.Selector()
	data := append(selector[:], make([]byte, 12)...)
	data = append(data, to[:]...)
	word := chain.NewAmount(amount).Bytes()
	return append(data, word[:]...)
}

// payout pays an amount of the token under a nonce.
func payout(nonce int64, amount uint64) *signerv1.SignTransactionRequest {
	return &signerv1.SignTransactionRequest{
		ChainId: 254, Key: "payout", Nonce: nonce, GasLimit: 100_000, MaxFeePerGasWei: "2000000000",
		MaxPriorityFeePerGasWei: "1000000000",
		Content: &signerv1.SignTransactionRequest_Call{
			Call: &signerv1.Call{To: usdc[:], ValueWei: "0", Data: transfer(payee, amount)},
		},
	}
}

// canceled is the cancel of a nonce.
func canceled(nonce int64) *signerv1.SignTransactionRequest {
	req := payout(nonce, 0)
	req.Content = &signerv1.SignTransactionRequest_Cancel{Cancel: &signerv1.Cancel{}}
	return req
}

// sign asks a replica, and expects a signature.
func (b *bundle) sign(
	t *testing.T, replica int, req *signerv1.SignTransactionRequest,
) *signerv1.SignTransactionResponse {
	t.Helper()
	resp, err := b.clients[replica].SignTransaction(t.Context(), req)
	if err != nil {
		t.Fatalf("nonce %d: got the error %v, want a signature", req.GetNonce(), err)
	}
	return resp
}

// refuses asks a replica, and expects a refusal.
func (b *bundle) refuses(
	t *testing.T, what string, replica int, req *signerv1.SignTransactionRequest, want fault.Reason,
) {
	t.Helper()
	if _, err := b.clients[replica].SignTransaction(t.Context(), req); reasonOf(err) != want {
		t.Errorf("%s: got the error %v, want %s", what, err, want)
	}
}
