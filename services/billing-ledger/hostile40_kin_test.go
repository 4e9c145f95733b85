package billingledger_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/accountevent"
	"svc.internal/pkg/bus"
	"svc.internal/pkg/ids"
	billingv1 "svc.internal/proto/svc/billing/v1"
	"svc.internal/services/billing-ledger/internal/card"
	"svc.internal/services/billing-ledger/internal/kin"
	"svc.internal/services/billing-ledger/internal/store"
)

// Hostile test 40, the second part: an owner who has an account and a provider under two names, and
// is recognised by what both share.

// newAddress is an address that nobody else has.
func newAddress(t *testing.T) string {
	t.Helper()
	var raw [20]byte
	if _, err := rand.Read(raw[:]); err != nil {
		t.Fatal(err)
	}
	return "0x" + hex.EncodeToString(raw[:])
}

// deposit posts a deposit of ten dollars that came from an address.
func (f *fleet) deposit(t *testing.T, account, sender string) {
	t.Helper()
	var hash [32]byte
	if _, err := rand.Read(hash[:]); err != nil {
		t.Fatal(err)
	}
	fact := &billingv1.PostRequest{Fact: &billingv1.PostRequest_Deposited{Deposited: &billingv1.TokenTransfer{
		Transfer:  &billingv1.TransferPlace{ChainId: "8453", TransactionHash: "0x" + hex.EncodeToString(hash[:])},
		AccountId: account, Sum: usdcSum(10_000_000), Sender: sender}}}
	for range 2 { // as settlement repeats what it had no answer of
		if _, err := f.facts.Post(t.Context(), fact); err != nil {
			t.Fatal(err)
		}
	}
}

// known has a hub say by which addresses a provider is known, until it is noted.
func (f *fleet) known(t *testing.T, provider string, by accountevent.KnownBy) {
	t.Helper()
	id, err := accountevent.NewID(time.Now(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of, err := ids.ParseProvider(provider)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(by)
	if err != nil {
		t.Fatal(err)
	}
	box := &once{stored: make(chan accountevent.ID, 1), event: accountevent.Event{ID: id, Kind: accountevent.Addresses,
		Provider: of, At: time.Now(), Data: data}}
	publisher := &accountevent.Publisher{Outbox: box, Bus: f.bus, Notes: bus.SubjectNotedHubs, Queue: "provider-hub",
		Log: slog.New(slog.DiscardHandler)}
	running, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- publisher.Run(running) }()
	got := wait(t, box.stored)
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got != id {
		t.Fatalf("noted: got %s, want %s", got, id)
	}
}

// payWith pays a checkout with a card.
func (f *fleet) payWith(t *testing.T, c card.Checkout, fingerprint string) {
	t.Helper()
	c.ID, c.Amount, c.Processor, c.ReturnURL = card.CheckoutID(entryID(t)), 2000, "sandbox", "https://example.com/"
	cards := store.Cards{Store: f.books()}
	opened, err := cards.Open(t.Context(), c, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cards.SetSession(t.Context(), opened.ID, card.Session{ID: rand.Text(), URL: "https://example.com/",
		Expires: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if _, err := cards.Pay(t.Context(), opened.ID, card.Charge{PaymentID: rand.Text(), CostID: rand.Text(), Total: 2000,
		Fingerprint: fingerprint}, newEntry); err != nil {
		t.Fatal(err)
	}
}

// rules are the rules by which earnings of a provider are held, by request.
func (f *fleet) rules(t *testing.T, provider string) map[string]string {
	t.Helper()
	page, err := f.accounts.ListHeldEarnings(t.Context(), &billingv1.ListHeldEarningsRequest{ProviderId: provider})
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string]string{}
	for _, h := range page.GetList() {
		rules[h.GetRequestId()] = h.GetRule()
	}
	return rules
}

// ties are the ways in which an account and a provider of one owner show it, by rule.
var ties = map[string]func(t *testing.T, f *fleet, o owner){
	"wallet": func(t *testing.T, f *fleet, o owner) {
		account, _ := o.ids(t)
		wallet := newAddress(t)
		evidence, err := kin.OfAddress(wallet)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.books().Mark(t.Context(),
			[]kin.Mark{{Account: account, Cause: kin.Wallet, Evidence: evidence}}); err != nil {
			t.Fatal(err)
		}
		f.known(t, o.provider, accountevent.KnownBy{Wallet: wallet})
	},
	"payout_address": func(t *testing.T, f *fleet, o owner) {
		account, _ := o.ids(t)
		wallet := newAddress(t)
		evidence, err := kin.OfAddress(wallet)
		if err != nil {
			t.Fatal(err)
		}
		f.known(t, o.provider, accountevent.KnownBy{Wallet: newAddress(t), PayoutAddress: wallet})
		if err := f.books().Mark(t.Context(),
			[]kin.Mark{{Account: account, Cause: kin.Wallet, Evidence: evidence}}); err != nil {
			t.Fatal(err)
		}
	},
	"deposit_source": func(t *testing.T, f *fleet, o owner) {
		source := newAddress(t)
		f.deposit(t, o.account, source)
		f.known(t, o.provider, accountevent.KnownBy{PayoutAddress: "0x" + strings.ToUpper(source[2:])})
	},
	"card": func(t *testing.T, f *fleet, o owner) {
		account, provider := o.ids(t)
		fingerprint := (rand.Text() + rand.Text())[:32]
		f.payWith(t, card.Checkout{Purpose: card.TopUp, Account: account}, fingerprint)
		f.payWith(t, card.Checkout{Purpose: card.Collateral, Provider: provider}, fingerprint)
	},
}

func TestHostile40_KinEarnNothingAtThePlatformsExpense(t *testing.T) {
	t.Parallel()
	f := start(t)
	for rule, tie := range ties {
		for name, tc := range map[string]struct {
			credits []string
			held    bool
		}{
			"credit that was paid for": {credits: []string{"card"}},
			"a bonus":                  {credits: []string{"card", "bonus"}, held: true},
			"a plan":                   {credits: []string{"plan"}, held: true},
		} {
			// Nobody is the user of both.
			o := owner{f.consumer(t, ""), anotherProvider(t)}
			for _, c := range tc.credits {
				credits[c](t, f, o)
			}
			before := f.serve(t, o.consumer, o.provider)
			tie(t, f, o)
			after := f.serve(t, o.consumer, o.provider)
			want := map[string]string{}
			if tc.held {
				want[after] = rule
			}
			if got := f.rules(t, o.provider); !maps.Equal(got, want) {
				t.Errorf("%s, %s: held: got %v, want %v; %s was served before they were kin", rule, name, got, want, before)
			}
		}
	}
	f.sound(t)
}

// The hot wallet of an exchange pays out for strangers, so what comes from there says nothing.
func TestHostile40_CustomersOfOneExchangeAreNoKin(t *testing.T) {
	t.Parallel()
	f := start(t)
	exchange := newAddress(t)
	o := f.owner(t)
	f.deposit(t, o.account, exchange)
	stranger := f.consumer(t, "")
	for range kin.MaxSharers {
		f.deposit(t, f.consumer(t, "").account, exchange)
	}
	f.deposit(t, stranger.account, exchange)
	credits["plan"](t, f, owner{stranger, o.provider})
	credits["plan"](t, f, o)
	f.serve(t, stranger, o.provider)
	own := f.serve(t, o.consumer, o.provider)
	if got, want := f.rules(t, o.provider), map[string]string{own: "same_user"}; !maps.Equal(got, want) {
		t.Errorf("held: got %v, want %v", got, want)
	}
	f.sound(t)
}

// A provider's own user, who pays for another account, is found behind it.
func TestHostile40_TheCardOfTheProvidersUserMakesKin(t *testing.T) {
	t.Parallel()
	f := start(t)
	o, second := f.owner(t), f.consumer(t, "")
	account, _ := o.ids(t)
	other, err := ids.ParseAccount(second.account)
	if err != nil {
		t.Fatal(err)
	}
	fingerprint := strings.Repeat("f", 32)
	f.payWith(t, card.Checkout{Purpose: card.TopUp, Account: account}, fingerprint)
	f.payWith(t, card.Checkout{Purpose: card.TopUp, Account: other}, fingerprint)
	credits["grant"](t, f, owner{second, o.provider})
	request := f.serve(t, second, o.provider)
	if got, want := f.rules(t, o.provider), map[string]string{request: "card"}; !maps.Equal(got, want) {
		t.Errorf("held: got %v, want %v", got, want)
	}
	f.sound(t)
}

// A user proves the wallet that a provider's owner has registered at the hub, and ends the link
// before it serves itself.
func TestHostile40_TheWalletThatItsUserLinkedAndEndedMakesKin(t *testing.T) {
	t.Parallel()
	f := start(t)
	in, as := f.comesIn(t, newPurse(1))
	key, err := f.keys.AuthenticateKey(t.Context(), &billingv1.AuthenticateKeyRequest{KeySha256: digestOf(in.GetApiKey())})
	if err != nil {
		t.Fatal(err)
	}
	o := owner{consumer{in.GetUser().GetAccountId(), key.GetKeyId(), in.GetApiKey()}, anotherProvider(t)}
	wallet := newPurse(2)
	f.known(t, o.provider, accountevent.KnownBy{Wallet: wallet.address})
	credits["card"](t, f, o)
	credits["bonus"](t, f, o)
	f.serve(t, o.consumer, o.provider)
	identity := f.linkWallet(t, in, wallet).GetIdentityId()
	linked := f.serve(t, o.consumer, o.provider)
	if _, err := f.self.DeleteIdentity(as, &billingv1.DeleteIdentityRequest{IdentityId: identity}); err != nil {
		t.Fatal(err)
	}
	ended := f.serve(t, o.consumer, o.provider)
	want := map[string]string{linked: "wallet", ended: "wallet"}
	if got := f.rules(t, o.provider); !maps.Equal(got, want) {
		t.Errorf("held: got %v, want %v, and nothing from before the link", got, want)
	}
	f.sound(t)
}

func TestAnAddressThatCannotBeIsRefusedAndMarksNobody(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	for name, sender := range map[string]string{
		"no address": "0x1", "the address of nobody": "0x" + strings.Repeat("0", 40),
		"a wrong checksum": "0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	} {
		b.wantInvalid(t, name, &billingv1.PostRequest{Fact: &billingv1.PostRequest_Deposited{
			Deposited: &billingv1.TokenTransfer{Transfer: place("8453", "b", 0), AccountId: b.account, Sum: usdcSum(5),
				Sender: sender}}})
	}
	var marks int
	if err := b.db.QueryRow(t.Context(), `SELECT count(*) FROM account_mark`).Scan(&marks); err != nil {
		t.Fatal(err)
	}
	if marks != 0 {
		t.Errorf("marks: got %d, want 0", marks)
	}
}
