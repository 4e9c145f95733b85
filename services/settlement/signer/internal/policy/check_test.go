package policy_test

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"svc.internal/pkg/fault"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/signer/internal/calldata"
	"svc.internal/services/settlement/signer/internal/policy"
)

var (
	sender     = chain.Address{1: 1}
	payee      = chain.Address{1: 2}
	treasury   = chain.Address{1: 3}
	collateral = chain.Address{1: 4}
	usdc       = chain.Address{1: 5}
	scamToken  = chain.Address{1: 6}
	ownOther   = chain.Address{1: 7}
)

func caps(transaction, day uint64) policy.Cap {
	return policy.Cap{Transaction: chain.NewAmount(transaction), Day: chain.NewAmount(day)}
}

func listed() policy.Chain {
	return policy.Chain{
		ID: 254, Treasury: treasury, Collateral: collateral, Slashes: caps(500, 1000), Coin: caps(50, 100),
		Tokens: []policy.Token{{Address: usdc, Name: "USD Coin", Version: "2", Payouts: caps(1000, 5000)}},
		Fees:   caps(1_000_000, 9_000_000),
	}
}

func checker(change ...func(*policy.Chain)) *policy.Policy {
	c := listed()
	for _, f := range change {
		f(&c)
	}
	return policy.New([]policy.Chain{c}, []chain.Address{sender, ownOther})
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

// word is a word of call data in hexadecimal.
func word(v any) string {
	if a, ok := v.(chain.Address); ok {
		return fmt.Sprintf("%064s", hex.EncodeToString(a[:]))
	}
	return fmt.Sprintf("%064x", v)
}

func call(f calldata.Function, arguments ...any) []byte {
	selector := f.Selector()
	text := ""
	for _, a := range arguments {
		text += word(a)
	}
	data, err := hex.DecodeString(text)
	if err != nil {
		panic(err)
	}
	return append(selector[:], data...)
}

// of is a transaction of a key with ordinary fees.
func of(key policy.Key, to chain.Address, value uint64, data []byte) policy.Transaction {
	return policy.Transaction{Chain: 254, Key: key, Sender: sender, To: to, Value: chain.NewAmount(value), Data: data,
		Gas: 21_000, MaxFee: chain.NewAmount(2), MaxPriorityFee: chain.NewAmount(1)}
}

func authorized(from, to chain.Address) []byte {
	return call(calldata.TransferWithAuthorization, from, to, 70, 0, 9, 1, 27, 2, 3)
}

func TestEachKeyMaySendWhatItsRulesSay(t *testing.T) {
	t.Parallel()
	// All content that is allowed at all, with the keys that may send it.
	for name, tc := range map[string]struct {
		to    chain.Address
		value uint64
		data  []byte
		may   string
		moved uint64
	}{
		"a payout in the token":       {usdc, 0, call(calldata.Transfer, payee, 7), "payout", 7},
		"a payout in coins":           {payee, 7, nil, "payout", 7},
		"coins to the treasury":       {treasury, 7, nil, "payout gas deposit", 7},
		"the request of a refund":     {collateral, 0, call(calldata.RequestRefund, 1, payee), "operator", 0},
		"the end of a request":        {collateral, 0, call(calldata.CancelRefund, 1, payee), "operator", 0},
		"an appeal":                   {collateral, 0, call(calldata.Appeal, 1), "operator", 0},
		"a slash":                     {collateral, 0, call(calldata.ProposeSlash, 1, 2, payee, 7), "slasher", 7},
		"its execution":               {collateral, 0, call(calldata.ExecuteSlash, 1), "slasher", 0},
		"a decision":                  {collateral, 0, call(calldata.Resolve, 1, 1), "arbiter", 0},
		"a refund":                    {collateral, 0, call(calldata.ExecuteRefund, 1, payee), "gas", 0},
		"a lapse":                     {collateral, 0, call(calldata.Lapse, 1), "gas", 0},
		"a sweep":                     {usdc, 0, authorized(payee, treasury), "gas", 70},
		"a sweep elsewhere":           {usdc, 0, authorized(payee, sender), "", 0},
		"a token nobody listed":       {scamToken, 0, call(calldata.Transfer, payee, 7), "", 0},
		"a sweep of such a token":     {scamToken, 0, authorized(payee, treasury), "", 0},
		"a token at the collateral":   {collateral, 0, call(calldata.Transfer, payee, 7), "", 0},
		"a refund at a token":         {usdc, 0, call(calldata.RequestRefund, 1, payee), "", 0},
		"a refund somewhere":          {payee, 0, call(calldata.RequestRefund, 1, payee), "", 0},
		"coins with a call":           {usdc, 1, call(calldata.Transfer, payee, 7), "", 0},
		"coins with a refund":         {collateral, 1, call(calldata.ExecuteRefund, 1, payee), "", 0},
		"coins to a token":            {usdc, 7, nil, "", 0},
		"coins to the collateral":     {collateral, 7, nil, "", 0},
		"coins to nobody":             {chain.Address{}, 7, nil, "", 0},
		"coins to a key of ours":      {ownOther, 7, nil, "", 0},
		"coins to itself":             {sender, 7, nil, "", 0},
		"a call of nothing":           {payee, 0, nil, "", 0},
		"a token to nobody":           {usdc, 0, call(calldata.Transfer, chain.Address{}, 7), "", 0},
		"a token to itself":           {usdc, 0, call(calldata.Transfer, usdc, 7), "", 0},
		"a token to the collateral":   {usdc, 0, call(calldata.Transfer, collateral, 7), "", 0},
		"a token to a key of ours":    {usdc, 0, call(calldata.Transfer, sender, 7), "", 0},
		"nothing of a token":          {usdc, 0, call(calldata.Transfer, payee, 0), "", 0},
		"an approval":                 {usdc, 0, call("approve(address,uint256)", payee, 7), "", 0},
		"a transferFrom":              {usdc, 0, call("transferFrom(address,address,uint256)", payee, payee, 7), "", 0},
		"a role":                      {collateral, 0, call("grantRole(bytes32,address)", 1, payee), "", 0},
		"another admin":               {collateral, 0, call("beginDefaultAdminTransfer(address)", payee), "", 0},
		"a deposit":                   {collateral, 0, call("deposit(bytes32,uint256)", 1, 7), "", 0},
		"an exit":                     {collateral, 0, call("requestExit(bytes32)", 1), "", 0},
		"data at a payee":             {payee, 7, []byte{1}, "", 0},
		"a transfer and a byte":       {usdc, 0, append(call(calldata.Transfer, payee, 7), 0), "", 0},
		"a slash of an address alone": {payee, 0, call(calldata.ProposeSlash, 1, 2, payee, 7), "", 0},
	} {
		for _, key := range append(policy.Keys(), "unheard-of") {
			use, err := checker().Check(of(key, tc.to, tc.value, tc.data))
			may := strings.Contains(" "+tc.may+" ", " "+string(key)+" ")
			switch {
			case may && err != nil:
				t.Errorf("%s by %s: got the error %v, want none", name, key, err)
			case may && use.Amount != chain.NewAmount(tc.moved):
				t.Errorf("%s by %s: got the amount %s, want %d", name, key, use.Amount, tc.moved)
			case !may && !fault.Is(err, fault.DestinationNotAllowed):
				t.Errorf("%s by %s: got the error %v, want %s", name, key, err, fault.DestinationNotAllowed)
			}
		}
	}
}

func TestAChainThatIsNotListedIsRefused(t *testing.T) {
	t.Parallel()
	tx := of(policy.Payout, payee, 7, nil)
	tx.Chain = 1
	if _, err := checker().Check(tx); !fault.Is(err, fault.ChainNotAllowed) {
		t.Errorf("got the error %v, want %s", err, fault.ChainNotAllowed)
	}
	if _, _, err := checker().Sweep(1, usdc); !fault.Is(err, fault.ChainNotAllowed) {
		t.Errorf("a sweep: got the error %v, want %s", err, fault.ChainNotAllowed)
	}
}

func TestOneTransactionIsCapped(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tx   policy.Transaction
		want fault.Reason
	}{
		"a token at its cap":         {of(policy.Payout, usdc, 0, call(calldata.Transfer, payee, 1000)), ""},
		"a token above it":           {of(policy.Payout, usdc, 0, call(calldata.Transfer, payee, 1001)), fault.CapExceeded},
		"coins at their cap":         {of(policy.Payout, payee, 50, nil), ""},
		"coins above it":             {of(policy.Payout, payee, 51, nil), fault.CapExceeded},
		"a slash at its cap":         {slashOf(500), ""},
		"a slash above it":           {slashOf(501), fault.CapExceeded},
		"a sweep of coins, uncapped": {of(policy.Deposit, treasury, 1<<60, nil), ""},
		"the fees at their cap":      {fees(of(policy.Payout, payee, 1, nil), 100_000, 10, 1), ""},
		"the fees above it":          {fees(of(policy.Payout, payee, 1, nil), 100_000, 11, 1), fault.CapExceeded},
		"the fees of a sweep":        {fees(of(policy.Deposit, treasury, 1, nil), 100_000, 11, 1), fault.CapExceeded},
		"the fees of a cancel":       {fees(canceled(policy.Payout), 100_000, 11, 1), fault.CapExceeded},
		"fees that overflow":         {overflowing(), fault.CapExceeded},
		"no fees":                    {fees(of(policy.Payout, payee, 1, nil), 21_000, 0, 0), fault.InvalidValue},
		"a priority above the fee":   {fees(of(policy.Payout, payee, 1, nil), 21_000, 1, 2), fault.InvalidValue},
		"too little gas":             {fees(of(policy.Payout, payee, 1, nil), 20_999, 1, 1), fault.InvalidValue},
		"too much gas":               {fees(of(policy.Payout, payee, 1, nil), 10_000_001, 1, 1), fault.InvalidValue},
	} {
		if _, err := checker().Check(tc.tx); reasonOf(err) != tc.want {
			t.Errorf("%s: got the error %v, want %q", name, err, tc.want)
		}
	}
}

func slashOf(amount int) policy.Transaction {
	return of(policy.Slasher, collateral, 0, call(calldata.ProposeSlash, 1, 2, payee, amount))
}

func fees(tx policy.Transaction, gas, fee, priority uint64) policy.Transaction {
	tx.Gas, tx.MaxFee, tx.MaxPriorityFee = gas, chain.NewAmount(fee), chain.NewAmount(priority)
	return tx
}

func canceled(key policy.Key) policy.Transaction {
	tx := of(key, sender, 0, nil)
	tx.Cancel = true
	return tx
}

// overflowing has fees whose product does not fit into 256 bits.
func overflowing() policy.Transaction {
	tx := of(policy.Payout, payee, 1, nil)
	top := [32]byte{0: 0xff}
	tx.MaxFee, _ = chain.AmountOf(top[:])
	return tx
}

func TestACapOfZeroAllowsNothing(t *testing.T) {
	t.Parallel()
	p := checker(func(c *policy.Chain) {
		c.Coin, c.Slashes, c.Tokens[0].Payouts = policy.Cap{}, policy.Cap{}, policy.Cap{}
	})
	for name, tx := range map[string]policy.Transaction{
		"coins":   of(policy.Payout, payee, 1, nil),
		"a token": of(policy.Payout, usdc, 0, call(calldata.Transfer, payee, 1)),
		"a slash": of(policy.Slasher, collateral, 0, call(calldata.ProposeSlash, 1, 2, payee, 1)),
	} {
		if _, err := p.Check(tx); !fault.Is(err, fault.DestinationNotAllowed) {
			t.Errorf("%s: got the error %v, want %s", name, err, fault.DestinationNotAllowed)
		}
	}
}

func TestACancelGoesToItsSenderAndMovesNothing(t *testing.T) {
	t.Parallel()
	for _, key := range policy.Keys() {
		want := fault.Reason("")
		if key == policy.Statement {
			want = fault.DestinationNotAllowed
		}
		if _, err := checker().Check(canceled(key)); reasonOf(err) != want {
			t.Errorf("by %s: got the error %v, want %q", key, err, want)
		}
	}
	for name, change := range map[string]func(*policy.Transaction){
		"elsewhere":  func(tx *policy.Transaction) { tx.To = payee },
		"with coins": func(tx *policy.Transaction) { tx.Value = chain.NewAmount(1) },
		"with data":  func(tx *policy.Transaction) { tx.Data = []byte{1} },
	} {
		tx := canceled(policy.Payout)
		change(&tx)
		if _, err := checker().Check(tx); !fault.Is(err, fault.DestinationNotAllowed) {
			t.Errorf("%s: got the error %v, want %s", name, err, fault.DestinationNotAllowed)
		}
	}
}

func TestWithoutATreasuryNothingIsSwept(t *testing.T) {
	t.Parallel()
	p := checker(func(c *policy.Chain) { c.Treasury = chain.Address{} })
	if _, _, err := p.Sweep(254, usdc); !fault.Is(err, fault.DestinationNotAllowed) {
		t.Errorf("a token: got the error %v, want %s", err, fault.DestinationNotAllowed)
	}
	for _, to := range []chain.Address{{}, treasury} {
		if _, err := p.Check(of(policy.Deposit, to, 7, nil)); !fault.Is(err, fault.DestinationNotAllowed) {
			t.Errorf("coins to %s: got the error %v, want %s", to, err, fault.DestinationNotAllowed)
		}
		if _, err := p.Check(of(policy.Gas, usdc, 0, authorized(payee, to))); !fault.Is(err, fault.DestinationNotAllowed) {
			t.Errorf("a sweep to %s: got the error %v, want %s", to, err, fault.DestinationNotAllowed)
		}
	}
}

func TestASweepIsOfAListedTokenWithADomain(t *testing.T) {
	t.Parallel()
	token, to, err := checker().Sweep(254, usdc)
	if got, want := fmt.Sprint(token.Name, to, err), fmt.Sprint("USD Coin", treasury, nil); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if _, _, err := checker().Sweep(254, scamToken); !fault.Is(err, fault.DestinationNotAllowed) {
		t.Errorf("another token: got the error %v, want %s", err, fault.DestinationNotAllowed)
	}
	nameless := checker(func(c *policy.Chain) { c.Tokens[0].Name = "" })
	if _, _, err := nameless.Sweep(254, usdc); !fault.Is(err, fault.DestinationNotAllowed) {
		t.Errorf("without a domain: got the error %v, want %s", err, fault.DestinationNotAllowed)
	}
}
