package adopt_test

import (
	"crypto/sha256"
	"slices"
	"testing"

	"svc.internal/services/settlement/internal/adopt"
	"svc.internal/services/settlement/internal/chain"
	"svc.internal/services/settlement/internal/sending"
)

var from, treasury, gasKey = chain.Address{0: 0xde}, chain.Address{0: 0xcc}, chain.Address{0: 0xee}

// swept is a nonce of the gas key by which an authorization moves dollars from the deposit address to the treasury. The
// sweep's id is that of its authorization.
func swept(nonce uint64, sweep string, change ...func(*adopt.Nonce)) adopt.Nonce {
	n := paid(nonce, treasury, 5)
	data := make([]byte, 4+9*32)
	copy(data, []byte{0xe3, 0xee, 0x16, 0x0e})
	copy(data[4+12:], from[:])
	data[4+3*32-1] = 5
	authorization := sha256.Sum256([]byte("sweep " + sweep))
	copy(data[4+5*32:], authorization[:])
	n.Sent.Data, n.Sent.From = data, gasKey
	n.Key, n.Sender = sending.Gas, gasKey
	n.Promised.Content = sending.Prepared{Request: sending.Request{Chain: chain.Base, To: usdc.Contract, Data: data},
		Sender: gasKey}.At(nonce).Hash
	for _, f := range change {
		f(&n)
	}
	return n
}

// sweptCoins is a nonce of the deposit address itself.
func sweptCoins(nonce uint64) adopt.Nonce {
	n := paid(nonce, treasury, 5)
	n.Sent.Data, n.Sent.From, n.Sent.To, n.Sent.Value = nil, from, treasury, chain.NewAmount(7)
	n.Key, n.Sender = sending.Deposit(3), from
	n.Promised.Content = sending.Prepared{Request: sending.Request{Chain: chain.Base, To: treasury, Value: n.Sent.Value},
		Sender: from}.At(nonce).Hash
	return n
}

func TestALostSweepIsTheOpenOneOfItsAddressAtMostOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		nonces []adopt.Nonce
		want   []string
	}{
		"its authorization names it":              {list(swept(0, "open")), []string{"open"}},
		"it was planned anew":                     {list(swept(0, "lost")), []string{"open"}},
		"the second names it":                     {list(swept(0, "lost"), swept(1, "open")), []string{"", "open"}},
		"the first takes it":                      {list(swept(0, "lost"), swept(1, "lost too")), []string{"open", ""}},
		"one that moved nothing takes nothing":    {list(swept(0, "lost", reverted)), []string{""}},
		"one that moved nothing and was the open": {list(swept(0, "open", reverted)), []string{"open"}},
		"coins":        {list(sweptCoins(0)), []string{"open"}},
		"coins, twice": {list(sweptCoins(0), sweptCoins(1)), []string{"open", ""}},
	} {
		f := facts(c.nonces)
		f.Treasury = treasury
		f.Deposits = map[chain.Address]uint32{from: 3}
		f.Sweeps = map[chain.Address]adopt.OpenSweep{from: {ID: "open", Index: 3}}
		var got []string
		for _, l := range adopt.Decide(f, adopt.Words{}).Calls {
			if got, want := string(l.What)+" "+string(l.Action), "sweep record"; got != want {
				t.Errorf("%s: got %s, want %s", name, got, want)
			}
			ref := l.Call.Ref
			if l.Call.Purpose != "sweep" {
				ref = ""
			}
			got = append(got, ref)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got the sweeps %q, want %q", name, got, c.want)
		}
	}
}
