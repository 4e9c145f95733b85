package card

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"svc.internal/pkg/ids"
)

func TestACheckoutIsPaidOnceAndNeverUnpaid(t *testing.T) {
	want := map[State]map[Trigger]State{
		Created: {WasPaid: Paid, HasExpired: Expired},
		Expired: {WasPaid: Paid, HasExpired: Expired},
		Paid:    {WasPaid: Paid, HasExpired: Paid},
	}
	for _, from := range append(States(), "gone") {
		for _, trigger := range append(Triggers(), "odd") {
			to, err := from.After(trigger)
			expected, ok := want[from][trigger]
			if ok != (err == nil) {
				t.Errorf("%s after %s: got the error %v, want one: %t", from, trigger, err, !ok)
			}
			if ok && to != expected {
				t.Errorf("%s after %s: got %s, want %s", from, trigger, to, expected)
			}
		}
	}
}

func TestAFeeCoversTheTariffAndNoCentMore(t *testing.T) {
	usual := Tariff{Fixed: 30, BasisPoints: 290}
	for amount, want := range map[Cents]Cents{500: 46, 2000: 91, 10_000: 330, 1_000_000: 29_898} {
		if got := usual.Fee(amount); got != want {
			t.Errorf("the fee of %d: got %d, want %d", amount, got, want)
		}
	}
	// kept is what a tariff keeps of a total, in hundredths of a cent's hundredth.
	kept := func(t Tariff, total Cents) int64 { return int64(total)*t.BasisPoints + int64(t.Fixed)*whole }
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		tariff := Tariff{Fixed: Cents(r.Int64N(101)), BasisPoints: r.Int64N(5_000)}
		amount := MinAmount + Cents(r.Int64N(int64(MaxAmount-MinAmount+1)))
		fee := tariff.Fee(amount)
		if int64(fee)*whole < kept(tariff, amount+fee) {
			t.Fatalf("%+v of %d: got a fee of %d, want at least what is kept", tariff, amount, fee)
		}
		if fee > 0 && int64(fee-1)*whole >= kept(tariff, amount+fee-1) {
			t.Fatalf("%+v of %d: got a fee of %d, want a cent less", tariff, amount, fee)
		}
	}
}

func newKeys(t testing.TB, secrets ...string) Keys {
	t.Helper()
	k, err := NewKeys(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

const (
	oldSecret = "the secret before this one"
	newSecret = "the secret of these webhooks"
)

var now = time.Unix(1_800_000_000, 0)

func TestASecretThatAnybodyCanGuessIsRefused(t *testing.T) {
	for _, secrets := range [][]string{
		{}, {""}, {"short"}, {newSecret, ""}, {newSecret, oldSecret, "a third secret of them"},
	} {
		if _, err := NewKeys(secrets...); err == nil {
			t.Errorf("%q: got no error, want one", secrets)
		}
	}
}

func TestASignatureCountsForItsBodyItsTimeAndItsSecret(t *testing.T) {
	keys, body := newKeys(t, newSecret, oldSecret), []byte(`{"id":"evt_1"}`)
	good := keys.Sign(body, now)
	hexadecimal := good[strings.Index(good, "v1=")+3:]
	other := newKeys(t, "a secret of somebody else").Sign(body, now)
	for name, tc := range map[string]struct {
		header string
		body   string
		at     time.Time
		want   bool
	}{
		"as it is":                {good, string(body), now, true},
		"under the secret before": {newKeys(t, oldSecret).Sign(body, now), string(body), now, true},
		"at the limit":            {good, string(body), now.Add(Tolerance), true},
		"of the future":           {good, string(body), now.Add(-Tolerance), true},
		"with a part more":        {good + ",v0=00", string(body), now, true},
		"one of two": {"t=1800000000,v1=" + strings.Repeat("0", 64) + ",v1=" + hexadecimal, string(body), now,
			true},
		"too old":          {good, string(body), now.Add(Tolerance + time.Second), false},
		"too far ahead":    {good, string(body), now.Add(-Tolerance - time.Second), false},
		"another time":     {strings.Replace(good, "t=1800000000", "t=1800000001", 1), string(body), now, false},
		"another body":     {good, string(body) + " ", now, false},
		"another secret":   {other, string(body), now, false},
		"no signature":     {"t=1800000000", string(body), now, false},
		"no time":          {"v1=" + hexadecimal, string(body), now, false},
		"two times":        {good + ",t=1800000000", string(body), now, false},
		"empty":            {"", string(body), now, false},
		"half a signature": {"t=1800000000,v1=" + hexadecimal[:32], string(body), now, false},
		"no number":        {"t=now,v1=" + hexadecimal, string(body), now, false},
		"another version":  {"t=1800000000,v0=" + hexadecimal, string(body), now, false},
		"too long":         {good + "," + strings.Repeat("x", MaxSignature) + "=", string(body), now, false},
		"too many": {"t=1800000000" + strings.Repeat(",v1="+hexadecimal, maxSignatures+1), string(body), now,
			false},
		"the time overflows": {"t=99999999999999999999,v1=" + hexadecimal, string(body), now, false},
	} {
		if err := keys.Verify(tc.header, []byte(tc.body), tc.at); (err == nil) != tc.want {
			t.Errorf("%s: got the error %v, want one: %t", name, err, !tc.want)
		}
	}
}

func FuzzASignatureThatCountsWasMadeByUs(f *testing.F) {
	keys := newKeys(f, newSecret)
	f.Add(keys.Sign([]byte("{}"), now), []byte("{}"))
	f.Add("t=1800000000,v1=00", []byte("{}"))
	f.Add(",,=,t=,v1=", []byte{})
	f.Fuzz(func(t *testing.T, header string, body []byte) {
		if keys.Verify(header, body, now) != nil {
			return
		}
		at, signatures, err := parseSignature(header)
		if err != nil {
			t.Fatalf("%q counts and cannot be read: %v", header, err)
		}
		want := string(sign([]byte(newSecret), at, body))
		if !slices.ContainsFunc(signatures, func(s []byte) bool { return string(s) == want }) {
			t.Errorf("%q counts for %q, and the secret did not make it", header, body)
		}
	})
}

func TestOfAnEventOnlyItsIDAndItsObjectCount(t *testing.T) {
	const form = `{"id":"evt_1","type":%q,"amount":1,"data":{"object":{"id":%q,"amount_total":999,"livemode":true}}}`
	for text, want := range map[string]Object{
		fmt.Sprintf(form, "checkout.session.completed", "cs_1"): {SessionObject, "cs_1"},
		fmt.Sprintf(form, "refund.created", "re_1"):             {RefundObject, "re_1"},
		fmt.Sprintf(form, "charge.dispute.created", "dp_1"):     {DisputeObject, "dp_1"},
		fmt.Sprintf(form, "customer.created", "cus_1"):          {},
		`{"id":"evt_1"}`: {},
	} {
		e, err := ParseEvent([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if e.ID != "evt_1" {
			t.Errorf("%s: the id: got %q, want evt_1", text, e.ID)
		}
		if e.Object != want {
			t.Errorf("%s: the object: got %v, want %v", text, e.Object, want)
		}
	}
	for _, text := range []string{``, `[]`, `{}`, `{"id":""}`, `{"id":7}`, `{"id":"a b"}`,
		`{"id":"` + strings.Repeat("x", 256) + `"}`,
		fmt.Sprintf(form, "refund.created", ""), fmt.Sprintf(form, "refund.created", "../v1/charges"), `{"id":"evt_1"} {}`} {
		if e, err := ParseEvent([]byte(text)); err == nil {
			t.Errorf("%.60q: got %+v, want an error", text, e)
		}
	}
}

func FuzzAnEventThatIsReadFitsTheDatabase(f *testing.F) {
	f.Add([]byte(`{"id":"evt_1","type":"refund.created","data":{"object":{"id":"re_1"}}}`))
	f.Add([]byte(`{"id":"evt_1","type":"x"}`))
	f.Add([]byte(`{"ID":"e","Type":"refund.created","DATA":{"object":{"id":"\u0000"}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := ParseEvent(body)
		if err != nil {
			return
		}
		if !isObjectID(e.ID) {
			t.Errorf("the id: got %q, want one of a processor", e.ID)
		}
		if whole := isObjectID(e.Object.ID); whole != (e.Object.Kind != "") {
			t.Errorf("the object: got %v, want a whole one or none", e.Object)
		}
	})
}

// ours is a checkout with the session that is paid for it.
func ours(t *testing.T) (Checkout, Session) {
	t.Helper()
	provider, err := ids.ParseProvider("018f0000-0000-7000-8000-000000000001")
	if err != nil {
		t.Fatal(err)
	}
	c := Checkout{ID: CheckoutID{1}, Purpose: Collateral, Provider: provider, Amount: 2000, SessionID: "cs_1"}
	return c, Session{ID: "cs_1", Checkout: c.ID.String(), Purpose: "collateral", Provider: provider.String(), Total: 2000,
		Currency: "usd", State: SessionPaid, Charge: Charge{PaymentID: "pi_1", CostID: "bt_1", Total: 2000, Cost: 88}}
}

func TestASessionIsOursInEveryPartOrNotAtAll(t *testing.T) {
	c, s := ours(t)
	if why := mismatch(c, s); why != "" {
		t.Fatalf("ours: got %q, want no difference", why)
	}
	for name, change := range map[string]func(*Session){
		"session":        func(s *Session) { s.ID = "cs_2" },
		"checkout":       func(s *Session) { s.Checkout = CheckoutID{2}.String() },
		"purpose":        func(s *Session) { s.Purpose = "topup" },
		"provider":       func(s *Session) { s.Provider = "" },
		"account":        func(s *Session) { s.Account = "018f0000-0000-7000-8000-000000000002" },
		"currency":       func(s *Session) { s.Currency = "jpy" },
		"amount":         func(s *Session) { s.Total = 1999 },
		"livemode":       func(s *Session) { s.Livemode = true },
		"charge":         func(s *Session) { s.Charge.Total = 1 },
		"cost":           func(s *Session) { s.Charge.Cost = 2001 },
		"a gift as cost": func(s *Session) { s.Charge.Cost = -1 },
	} {
		changed := s
		change(&changed)
		if mismatch(c, changed) == "" {
			t.Errorf("another %s: got no difference, want one", name)
		}
	}
}
