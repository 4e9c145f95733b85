package settlement

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"svc.internal/pkg/clock"
	"svc.internal/pkg/config"
	"svc.internal/pkg/fault"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/pgtest"
	"svc.internal/pkg/serve"
	billingv1 "svc.internal/proto/svc/billing/v1"
	settlementv1 "svc.internal/proto/svc/settlement/v1"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/evm/evmtest"
	"svc.internal/services/settlement/internal/store"
)

// xpub is that of m/44'/60'/0' of the mnemonic abandon … about, which everybody knows.
const xpub = "xpub6DCoCpSuQZB2jawqnGMEPS63ePKWkwWPH4TU45Q7LPXWuNd8TMtVxRrgjtEshuqpK3mdhaWHPFsBngh5GF" +
	"ZaM6si3yZdUsT8ddYM3PwnATt"

// posted is a ledger that takes everything.
type posted struct {
	billingv1.PostingServiceClient
}

func (posted) Post(
	context.Context, *billingv1.PostRequest, ...grpc.CallOption,
) (*billingv1.PostResponse, error) {
	return &billingv1.PostResponse{EntryId: "entry"}, nil
}

// waitFor waits until something is so.
func waitFor(t *testing.T, so func() bool) {
	t.Helper()
	for range clock.Every(t.Context(), 20*time.Millisecond) {
		if so() {
			return
		}
	}
}

// onSVC has deposits on the chain SVC, whose RPC is at a URL, at two dollars a coin.
func onSVC(url string) Config {
	cfg := DefaultConfig()
	cfg.Development, cfg.DepositXpub = true, config.NewSecret(xpub)
	cfg.Quotes.Fixed = map[string]string{"254:native": "2"}
	cfg.Chains = chain.Configs{{ID: chain.SVC, Name: "SVC", RPCs: []config.Secret{config.NewSecret(url)}, Depth: 2,
		BlockTime: time.Second, MaxGasPrice: chain.NewAmount(1), CoinSymbol: "SVC"}}
	return cfg
}

// runUntilTheEnd runs the work of chains until the test ends.
func runUntilTheEnd(t *testing.T, work *chainWork) {
	t.Helper()
	running, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		work.run(running)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
}

// serveChains serves the services of chains, and returns a connection to them.
func serveChains(t *testing.T, work *chainWork) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	work.register(server)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestADepositGoesFromTheChainToTheListOfItsAccount(t *testing.T) {
	t.Parallel()
	script := evmtest.New(chain.SVC, 2)
	script.MineEmpty(3)
	rpc := evmtest.NewRPC(t, script)
	cfg := onSVC(rpc.URL)
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	pool := pgtest.Pool(t, store.Schema, store.Role, store.Migrations)
	work, err := newChainWork(cfg, store.New(pool), Deps{Log: slog.New(slog.DiscardHandler),
		Meters: noop.NewMeterProvider(), Clock: clock.System, Posting: posted{}})
	if err != nil {
		t.Fatal(err)
	}
	conn := serveChains(t, work)
	account, ctx := "018f4d1c-0000-7000-8000-000000000001", t.Context()
	admin := settlementv1.NewChainAdminServiceClient(conn)
	id, err := ids.ParseAccount(account)
	if err != nil {
		t.Fatal(err)
	}
	a, err := work.address(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if want := "0x9858EfFD232B4033E47d90003D41EC34EcaEda94"; a.Address.String() != want {
		t.Errorf("address: got %s, want %s", a.Address, want)
	}
	runUntilTheEnd(t, work)
	// The watcher begins at the final block of then, so the deposit comes later.
	waitFor(t, func() bool {
		got, err := admin.ListChains(ctx, &settlementv1.ListChainsRequest{})
		return err == nil && got.GetChains()[0].GetProgressedAt() != nil
	})
	script.Mine(evmtest.Coins(1, a.Address, chain.NewAmount(1_000_000_000_000_000_000)))
	script.MineEmpty(2)
	waitFor(t, func() bool {
		got, err := admin.ListTransfers(ctx, &settlementv1.ListTransfersRequest{State: "credited"})
		return err == nil && got.GetTotal() == 1 && got.GetList()[0].GetValueNanoUsd() == 2_000_000_000 &&
			got.GetList()[0].GetAccountId() == account
	})
	deposits := settlementv1.NewDepositServiceClient(conn)
	list, err := deposits.ListDeposits(ctx, &settlementv1.ListDepositsRequest{AccountId: account})
	if err != nil {
		t.Fatal(err)
	}
	if got := len(list.GetList()); got != 1 {
		t.Errorf("the account's list: got %d, want 1", got)
	}
	got, err := deposits.GetDepositAddress(ctx, &settlementv1.GetDepositAddressRequest{AccountId: account})
	if err != nil {
		t.Fatal(err)
	}
	if got.GetAddress() != a.Address.String() {
		t.Errorf("the account's address: got %s, want %s", got.GetAddress(), a.Address)
	}
	seenByItsConsumer(t, conn, account, a.Address.String())
	for name, req := range map[string]*settlementv1.LiftHaltRequest{
		"no such chain": {ChainId: 1, BlockHash: script.HashOf(1).String(), Reason: "x"},
		"no hash":       {ChainId: 254, BlockHash: "0x1", Reason: "x"},
		"no reason":     {ChainId: 254, BlockHash: script.HashOf(1).String()},
		"no halt":       {ChainId: 254, BlockHash: script.HashOf(1).String(), Reason: "x"},
	} {
		if _, err := admin.LiftHalt(ctx, req); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}

// seenByItsConsumer fails the test unless the account's consumer, and nobody else, sees a coin that was credited.
func seenByItsConsumer(t *testing.T, conn *grpc.ClientConn, account, address string) {
	t.Helper()
	consumer := settlementv1.NewConsumerDepositServiceClient(conn)
	as := func(account string) context.Context {
		return metadata.NewOutgoingContext(t.Context(), serve.UserMetadata(serve.Caller{User: "user", Account: account}))
	}
	where, err := consumer.GetConsumerDepositAddress(as(account), &settlementv1.GetConsumerDepositAddressRequest{})
	if err != nil {
		t.Fatal(err)
	}
	const wantChain = `chain_id:254 name:"SVC" address:"%s" assets:{symbol:"SVC" decimals:18 bonus_percent:20} ` +
		`minimum_usd:1 minimum_usd_str:"1.00" bonus_percent:20 confirmations:2`
	if got, want := oneLine(where.GetChains()[0]), fmt.Sprintf(wantChain, address); got != want {
		t.Errorf("where the account is funded:\n got %s\nwant %s", got, want)
	}
	list, err := consumer.ListConsumerDeposits(as(account), &settlementv1.ListConsumerDepositsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	got := proto.CloneOf(list.GetList()[0])
	got.At, got.RateAt, got.TransactionHash = nil, nil, ""
	const want = `chain_id:254 chain:"SVC" asset:"SVC" amount:"1" usd:2 usd_str:"2.00" bonus_usd:0.4 ` +
		`bonus_usd_str:"0.40" rate_usd:2 rate_usd_str:"2.00" rate_source:"fixed" confirmations:2 confirmations_needed:2 ` +
		`state:"credited" note:"It is credited." entry_id:"entry"`
	if text := oneLine(got); text != want {
		t.Errorf("the deposit:\n got %s\nwant %s", text, want)
	}
	strangers, err := consumer.ListConsumerDeposits(as("018f4d1c-0000-7000-8000-000000000002"),
		&settlementv1.ListConsumerDepositsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got := strangers.GetTotal(); got != 0 {
		t.Errorf("a stranger's list: got %d, want 0", got)
	}
	_, err = consumer.ListConsumerDeposits(t.Context(), &settlementv1.ListConsumerDepositsRequest{})
	if text := fmt.Sprint(err); !strings.Contains(text, string(fault.InvalidSession)) {
		t.Errorf("for nobody: got the error %q, want %s", text, fault.InvalidSession)
	}
}

// oneLine is a message as text, with single spaces.
func oneLine(m proto.Message) string {
	return strings.Join(strings.Fields(prototext.MarshalOptions{}.Format(m)), " ")
}
