package standalone

import "testing"

func TestTheSandboxIsRefusedBesidePayoutsOfRealMoney(t *testing.T) {
	for name, tc := range map[string]struct {
		chains      string
		development bool
		refused     bool
	}{
		"payouts on 8453":                {`[{"id":8453,"payouts":true}]`, false, true},
		"payouts on 1":                   {`[{"id":254,"payouts":true},{"id":1,"payouts":true}]`, false, true},
		"payouts on 8453 in development": {`[{"id":8453,"payouts":true}]`, true, false},
		"payouts on 254":                 {`[{"id":254,"payouts":true}]`, false, false},
		"no payouts on 8453":             {`[{"id":8453}]`, false, false},
		"no chains":                      {`[]`, false, false},
	} {
		cfg := DefaultConfig()
		cfg.Settlement.Development = tc.development
		if err := cfg.Settlement.Chains.UnmarshalText([]byte(tc.chains)); err != nil {
			t.Fatal(err)
		}
		if err := cfg.checkCards(); (err != nil) != tc.refused {
			t.Errorf("%s: got the error %v, want one: %t", name, err, tc.refused)
		}
	}
}
