package sim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"svc.internal/pkg/apikey"
	"svc.internal/pkg/ids"
	"svc.internal/pkg/money"
	"svc.internal/pkg/money/moneypb"
	catalogv1 "svc.internal/proto/svc/catalog/v1"
	"svc.internal/services/billing-ledger/ledgersim"
	"svc.internal/services/edge-gateway/gatewaysim"
	"svc.internal/services/provider-hub/hubsim"
	"svc.internal/services/settlement/settlesim"
)

// The size of the simulated fleet.
const (
	gateways   = 2
	hubs       = 2
	agents     = 3
	accounts   = 2
	concurrent = 6
	maxTokens  = 40
	model      = "m"
)

// rates contain no round number.
var rates = money.Rates{Input: 2_000_003, Output: 7_000_001, PayoutInput: 1_500_001, PayoutOutput: 5_000_003}

// fixed are ids and secrets that all histories share.
type fixed struct {
	accounts  []account
	providers []ids.ProviderID
	price     ids.PriceVersionID
	book      ledgersim.Prices
	shared    *gatewaysim.Shared
}

// account is a consumer's account.
type account struct {
	id     ids.AccountID
	key    ids.KeyID
	secret string
	digest apikey.Digest
}

// dices is a source of bytes.
type dices struct{ *rand.Rand }

// Read implements io.Reader.
func (d dices) Read(p []byte) (int, error) {
	var word [8]byte
	for i := range p {
		if i%8 == 0 {
			binary.LittleEndian.PutUint64(word[:], d.Uint64())
		}
		p[i] = word[i%8]
	}
	return len(p), nil
}

func newFixed() (*fixed, error) {
	dice := dices{rand.New(rand.NewPCG(1, 1))} //nolint:gosec // the same seed must give the same history
	f := &fixed{}
	var err error
	for range accounts {
		var a account
		if a.id, err = ids.NewAccount(epoch, dice); err != nil {
			return nil, fmt.Errorf("make an account: %w", err)
		}
		if a.key, err = ids.NewKey(epoch, dice); err != nil {
			return nil, fmt.Errorf("make a key: %w", err)
		}
		if a.secret, err = apikey.Generate(apikey.Consumer, dice); err != nil {
			return nil, fmt.Errorf("make a secret: %w", err)
		}
		a.digest = apikey.Sum(a.secret)
		f.accounts = append(f.accounts, a)
	}
	for range agents {
		p, err := ids.NewProvider(epoch, dice)
		if err != nil {
			return nil, fmt.Errorf("make a provider: %w", err)
		}
		f.providers = append(f.providers, p)
	}
	if f.price, err = ids.NewPriceVersion(epoch, dice); err != nil {
		return nil, fmt.Errorf("make a price: %w", err)
	}
	f.book = ledgersim.NewPrices(ledgersim.Model{ID: model, Version: f.price, Rates: rates})
	f.shared, err = gatewaysim.NewShared([]*catalogv1.Model{{
		ModelId: model, Slug: model, Active: true, Category: catalogv1.Category_CATEGORY_LLM, ContextLength: 4096,
		MaxOutputTokens: maxTokens,
		Price:           &catalogv1.PriceVersion{PriceVersionId: f.price.String(), Rates: moneypb.FromRates(rates)},
	}})
	return f, err
}

// network is the fleet of one history, and the faults that were found in it.
type network struct {
	*fixed
	world *world
	cfg   Config
	epoch int64

	nats       *nats
	db         *database
	ledger     *ledger
	settlement *settlement
	gateways   []*gateway
	hubs       []*hub
	agents     []*agent
	clients    []*client
	// credits are the credits of the accounts.
	credits []money.NanoUSD
	// processes are all processes of billing-ledger that ever ran.
	processes []*ledgersim.Ledger

	broken []string // what must not be, and was
	known  map[string]int
}

func newNetwork(f *fixed, w *world, cfg Config) *network {
	n := &network{fixed: f, world: w, cfg: cfg}
	n.nats = &nats{node: w.node("nats"), net: n, seen: map[string]time.Duration{}}
	n.nats.up = true
	n.db = &database{
		node: w.node("database"),
		billing: ledgersim.NewDatabase(w.time, concurrent, ledgersim.Faults{EarlyAck: cfg.EarlyAck,
			NoPrimaryKey: cfg.NoPrimaryKey, PinWithoutSlice: cfg.PinWithoutSlice, TicketIgnored: cfg.TicketIgnored}),
		settlement: settlesim.NewDatabase(),
	}
	n.db.up = true
	for _, a := range f.accounts {
		credit := money.NanoUSD(w.dice.Int64N(4_000_000))
		n.db.billing.Open(a.id, a.key, credit)
		n.credits = append(n.credits, credit)
	}
	n.ledger = &ledger{node: w.node("billing"), net: n}
	n.settlement = &settlement{node: w.node("settlement"), net: n}
	n.nats.read(&reader{name: "billing", linger: 100 * time.Millisecond, node: n.ledger.node, handle: n.ledger.handle})
	n.nats.read(&reader{name: "settlement", linger: 250 * time.Millisecond, node: n.settlement.node,
		handle: n.settlement.handle})
	n.ledger.start()
	n.settlement.start()
	for i := range hubs {
		h := &hub{node: w.node(fmt.Sprintf("hub-%d", i+1)), net: n, disk: hubsim.NewDisk()}
		n.hubs = append(n.hubs, h)
		h.start()
	}
	for i := range gateways {
		g := &gateway{node: w.node(fmt.Sprintf("gateway-%d", i+1)), net: n}
		n.gateways = append(n.gateways, g)
		g.start()
	}
	for i := range agents {
		a := &agent{node: w.node(fmt.Sprintf("agent-%d", i+1)), net: n, provider: f.providers[i], letter: byte('a' + i),
			external: i%2 == 1}
		n.agents = append(n.agents, a)
		a.rise()
	}
	return n
}

// stop ends the parts that have goroutines.
func (n *network) stop() {
	for _, l := range n.processes {
		l.Stop()
	}
}

func (n *network) hubNamed(name string) *hub {
	for _, h := range n.hubs {
		if h.name == name {
			return h
		}
	}
	return nil
}

// hubOf is the hub of a subject of notices.
func (n *network) hubOf(subject string) *hub {
	return n.hubNamed(subject[strings.LastIndexByte(subject, '.')+1:])
}

// fail notes what must not be.
func (n *network) fail(format string, args ...any) {
	const maxKept = 20
	if len(n.broken) < maxKept {
		text := fmt.Sprintf(format, args...)
		n.broken = append(n.broken, text)
		n.world.logf("AUDITOR", "%s", text)
	}
}

// Known limits of the design. Their cost is counted, and is no failure of a history
// unless Config.Strict says so.
const (
	// commitLost: a gateway relays as soon as it has sent its commit. Its machine dies,
	// the commit never reaches the hub, and nobody who knows of the relayed content is
	// left.
	commitLost = "the commit died with its gateway"
	// nobodyTold: the hub's machine is away, and the gateway, which stands still or is
	// cut off from billing-ledger, reports a broken answer only when its hold has long
	// been released.
	nobodyTold = "the hub died, and the gateway could tell of it too late"
	// endLost: the hub has journalled its end and the ledger has settled it. The hub's
	// last message never reaches the gateway, because the hub's machine dies or the
	// network breaks, and the gateway's report that the answer broke off comes too late.
	// The same happens with a gateway that stands still when its hub dies: it never reads
	// the messages that were on the way.
	endLost = "a settled answer's end never got to its gateway"
	// lastRenewal: the gateway dies before it has reported the end of the request, and
	// its hub is away for longer than the ledger waits. The gateway's last renewal is
	// billed. Without one the hold is released, and the platform pays.
	lastRenewal = "a hub came back too late, the gateway not at all"
	// relayedOnly: the hub's usage comes too late or never. What the gateway relayed is
	// settled, which is less than the claim of an engine that counts differently.
	relayedOnly = "a hub's word never came, and its engine claimed more than its gateway relayed"
	// neverSettled: the hub's disk and the stream are lost after settlement had the usage
	// and before the ledger did. Reconciliation reports it.
	neverSettled = "the stream and the hub's disk were gone before the ledger had the usage that settlement has"
	// notAsked: a gateway whose lease may be over cannot ask. It keeps relaying, because
	// an outage of billing-ledger, which releases nothing meanwhile, looks the same.
	notAsked = "a gateway could not ask billing-ledger whether a lease was over"
	// backInTime: leases count the time that passes. A simulated clock that is set back
	// takes that back too, which no machine's clock does (CLOCK_MONOTONIC).
	backInTime = "a gateway's only clock was set back under a lease"
	// promptUnseen: the agent's connection is lost and its hub does not know yet. A
	// client who leaves meanwhile pays for a prompt that was sent and never arrived. No
	// hub can tell that from an engine that reads, for the few seconds until the provider
	// counts as hung.
	promptUnseen = "a client left while the request was lost on its way to the agent"
	// bothDied: what was relayed since the hub's last progress, or all of it when the
	// hub's disk is lost, died with the gateway.
	bothDied = "hub and gateway both died"
)

// tolerate counts the cost of a known limit.
func (n *network) tolerate(limit, format string, args ...any) {
	if n.cfg.Strict {
		n.fail(format+" ("+limit+")", args...)
		return
	}
	n.world.logf("known", limit+": "+format, args...)
	if n.known == nil {
		n.known = map[string]int{}
	}
	n.known[limit]++
}
